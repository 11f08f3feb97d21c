// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_encode: frames come back from the receiver in order, trigger pulses are exact, the line is
// biphase mark. Arguments: periods, golden vectors (addressed, data, bits each), seed.
#include <deque>

#include "harness.hpp"
#include "nanet/ttc/code.hpp"

int main(int argc, char** argv) {
  using namespace nanet::ttc;
  const auto periods = bench::argument(argc, argv, 1);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, argc - 1)};
  FrameReceiver receiver;
  std::deque<Command> pending;
  dut->tick = dut->trigger = dut->frame_valid = 0;
  dut.reset();
  bool level = false, begun = false;
  unsigned longest = 0;
  std::uint64_t frames = 0;
  for (std::uint64_t period = 0; period < periods; ++period) {
    const bool trigger = random() % 4 == 0;
    for (unsigned cycle = 0; cycle < 4; ++cycle) {
      const bool offer = period > 50 && (period / 1000 % 2 ? true : random() % 64 == 0);
      Command command{bool(random() % 3 == 0), static_cast<std::uint32_t>(random())};
      if (!command.addressed) command.data &= 0xFF;
      dut->frame_valid = offer;
      dut->frame = std::uint64_t{command.addressed} << 33 | command.data;
      dut->tick = cycle == 3;
      dut->trigger = trigger;
      dut.settle();
      if (offer && dut->frame_ready) pending.push_back(command);
      if (pending.size() > longest) longest = static_cast<unsigned>(pending.size());
      dut.cycle();
      CHECK(dut->out_tick == (cycle == 3), "period %lu: tick", period);
    }
    const bool a = dut->pair >> 1 & 1, b = dut->pair & 1;
    CHECK(a == trigger, "period %lu: pulse", period);
    const unsigned cells = dut->cells;
    if (begun) CHECK((cells & 1) != level, "period %lu: no edge at the begin", period);
    CHECK(((cells ^ cells >> 1) & 1) == a && ((cells >> 2 ^ cells >> 3) & 1) == b &&
              ((cells >> 1 ^ cells >> 2) & 1),
          "period %lu: cells %x", period, cells);
    level = cells >> 3;
    begun = true;
    Command command;
    const auto outcome = receiver.push(b, command);
    if (outcome != FrameReceiver::Outcome::none) {
      CHECK(outcome == FrameReceiver::Outcome::clean, "period %lu: outcome %d", period,
            static_cast<int>(outcome));
      CHECK(!pending.empty() && command == pending.front(), "period %lu: frame %x", period, command.data);
      pending.pop_front();
      ++frames;
    }
  }
  CHECK(frames > periods / 100 && longest >= 16, "%lu frames, %u pending", frames, longest);

  // Golden vectors: the bits of each frame from an idle encoder.
  for (int at = 2; at + 3 < argc; at += 3) {
    dut.reset();
    dut->frame_valid = 1;
    dut->frame = bench::argument(argc, argv, at) << 33 | bench::argument(argc, argv, at + 1);
    dut->tick = 0;
    dut.cycle();
    dut->frame_valid = 0;
    for (int i = 0; i < 3; ++i) dut.cycle();
    const std::uint64_t bits = bench::argument(argc, argv, at + 2);
    dut->tick = 1;
    for (unsigned i = bits_of(bench::argument(argc, argv, at)); i-- > 0;) {
      dut.cycle();
      CHECK((dut->pair & 1) == (bits >> i & 1), "golden vector %lx, bit %u", bits, i);
    }
    dut.cycle();
    CHECK(dut->pair & 1, "golden vector %lx: no idle line", bits);
  }
  std::printf("frames %lu\n", frames);
  return 0;
}
