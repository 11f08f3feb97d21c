// SPDX-License-Identifier: SHL-2.1
// Harness of counter_bank: pulses of any density, up to every cycle; resets; reads that lag by a turn of the
// sweep at most. Arguments: rounds, seed.
#include <algorithm>
#include <array>
#include <deque>

#include "harness.hpp"

int main(int argc, char** argv) {
  constexpr unsigned counters = 24, lag = counters + 2;
  using Counts = std::array<std::uint32_t, counters>;
  const auto rounds = bench::argument(argc, argv, 1);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 2)};
  std::deque<Counts> seen;  // after each of the last cycles, the present one first
  std::uint64_t reads = 0, behind = 0;

  const auto begin = [&] { seen.assign(lag + 1, Counts{}); };
  const auto cycle = [&](unsigned pulses) {
    const auto index = static_cast<unsigned>(random() % counters);
    dut->pulses = pulses;
    dut->read_index = index;
    dut.cycle();
    Counts next = seen.front();
    const std::uint32_t value = dut->read_value, now = next[index];
    CHECK(value <= now && value >= seen.back()[index], "counter %u reads %u, not %u to %u", index, value,
          seen.back()[index], now);
    for (unsigned i = 0; i < counters; ++i) next[i] += pulses >> i & 1;
    seen.push_front(next);
    seen.pop_back();
    ++reads;
    behind += value != now;
  };

  dut->pulses = dut->read_index = 0;
  dut.reset();
  begin();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (random() % 8 == 0) {
      dut->rst = 1;
      dut->pulses = static_cast<unsigned>(random()) & 0xFF'FFFF;
      const int cycles = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < cycles; ++i) dut.cycle();
      dut->rst = 0;
      begin();
    }
    const unsigned density = random() % 6;  // halved each time; 0: every cycle
    const unsigned length = 1 + random() % 200;
    for (unsigned i = 0; i < length; ++i) {
      unsigned pulses = 0xFF'FFFF;
      for (unsigned d = 0; d < density; ++d) pulses &= static_cast<unsigned>(random());
      cycle(pulses);
    }
    const unsigned pause = random() % 2 ? random() % 10 : 2 * lag;
    for (unsigned i = 0; i < pause; ++i) cycle(0);
  }
  for (unsigned i = 0; i < 2 * lag; ++i) cycle(0);
  CHECK(behind > 0 && behind < reads, "%lu of %lu reads behind their pulses", behind, reads);
  std::printf("reads %lu, behind their pulses %lu\n", reads, behind);
  return 0;
}
