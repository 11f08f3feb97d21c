// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_align: locks from either phase, never swaps on legal traffic, constant delay of a trigger
// pulse. Arguments: periods, seed.
#include <deque>

#include "harness.hpp"
#include "nanet/ttc/code.hpp"

namespace {

struct Run {
  bench::Dut& dut;
  std::mt19937_64 random;
  std::deque<unsigned> pairs;  // received: a << 1 | b
  std::deque<std::uint64_t> at;

  void cycle(bool valid, bool value) {
    dut->bit_valid = valid;
    dut->bit_value = value;
    dut.cycle();
    if (dut->tick) {
      pairs.push_back(dut->pair);
      at.push_back(dut.cycles());
    }
  }
  // A bit and, as 1.95 cycles go to a bit, mostly a pause.
  std::uint64_t bit(bool value) {
    cycle(true, value);
    const std::uint64_t when = dut.cycles();
    if (random() % 20) cycle(false, random() & 1);
    return when;
  }
  void relock() {
    dut->line_locked = 0;
    cycle(false, false);
    dut->line_locked = 1;
    pairs.clear();
    at.clear();
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto periods = bench::argument(argc, argv, 1);
  bench::Dut dut(argc, argv);
  Run run{dut, std::mt19937_64{bench::argument(argc, argv, 2)}, {}, {}};
  dut->bit_valid = 0;
  dut->line_locked = 1;
  dut.reset();
  for (int phase = 0; phase < 2; ++phase) {
    run.relock();
    unsigned idle = 0;
    if (phase) run.bit(true);  // begins in the middle of a period
    while (!dut->locked && idle < 100) {
      run.bit(false);
      run.bit(true);
      ++idle;
    }
    CHECK(idle <= 64, "phase %d: locked after %u periods", phase, idle);
    run.pairs.clear();
    run.at.clear();

    // Legal traffic: triggers at least three periods apart, frames on B.
    std::uint64_t frame = 0;
    unsigned left = 0, since = 3;
    for (unsigned long i = 0; i < periods; ++i) {
      const bool a = since >= 3 && run.random() % 2;
      since = a ? 1 : since + 1;
      if (left == 0 && run.random() % 8 == 0) {
        const bool addressed = run.random() & 1;
        frame = nanet::ttc::encode(
            {addressed, static_cast<std::uint32_t>(run.random()) & (addressed ? ~0U : 0xFF)});
        left = nanet::ttc::bits_of(addressed);
      }
      const bool b = left == 0 || (frame >> (left - 1) & 1);
      left -= left != 0;
      run.bit(a);
      const std::uint64_t second = run.bit(b);
      CHECK(run.pairs.size() == 1, "period %lu: %zu ticks", i, run.pairs.size());
      CHECK(run.pairs[0] == (a * 2U | b), "period %lu: pair %u", i, run.pairs[0]);
      CHECK(run.at[0] == second, "period %lu: tick after %ld cycles", i,
            static_cast<long>(run.at[0] - second));
      CHECK(dut->locked, "period %lu: not locked", i);
      run.pairs.clear();
      run.at.clear();
    }
  }
  // Stays unlocked without the line.
  dut->line_locked = 0;
  for (int i = 0; i < 500; ++i) {
    run.bit(i % 2);
    CHECK(!dut->locked && !dut->tick, "tick without a line");
  }
  return 0;
}
