// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_frames: every clean, single-error and double-error frame of both formats, back to back.
// Arguments: number of long words, number of short words, seed.
#include <bit>
#include <deque>

#include "harness.hpp"
#include "nanet/ttc/code.hpp"

using nanet::ttc::Command;
using nanet::ttc::FrameReceiver;

namespace {

struct Expected {
  std::uint64_t tick;
  FrameReceiver::Outcome outcome;
  Command command;
  Command sent;  // the frame as it was before its errors
  int errors;    // wrong bits; -1: no frame of exhaust()
};

struct Run {
  bench::Dut& dut;
  FrameReceiver model;
  std::deque<Expected> pending;
  std::uint64_t ticks = 0, corrected = 0, refused = 0, clean = 0, bad_stop = 0;
  std::mt19937_64 random;
  Command sent{};
  int errors = -1;
  // Of the module's output alone, without the model.
  std::uint64_t singles = 0, singles_corrected = 0, doubles = 0, doubles_accepted = 0;

  void bit(bool value) {
    dut->tick = 1;
    dut->pair = value | (random() & 1) << 1;
    dut.settle();
    compare();
    Command command;
    const auto outcome = model.push(value, command);
    if (outcome != FrameReceiver::Outcome::none) pending.push_back({ticks, outcome, command, sent, errors});
    dut.cycle();
    ++ticks;
    if (random() % 4 == 0) {  // a cycle without a tick
      dut->tick = 0;
      dut.settle();
      CHECK(!dut->frame_valid && dut->counts == 0, "output without a tick");
      dut.cycle();
    }
  }
  // The outcome of the stop bit of tick k appears with tick k + 3.
  void compare() {
    Expected now{0, FrameReceiver::Outcome::none, {}, {}, -1};
    if (!pending.empty() && pending.front().tick + 3 == ticks) {
      now = pending.front();
      pending.pop_front();
    }
    const std::uint64_t right =
        std::uint64_t{now.sent.addressed} << 33 | std::uint64_t{1} << 32 | now.sent.data;
    singles += now.errors == 1;
    singles_corrected += now.errors == 1 && dut->frame_valid && dut->frame == right;
    doubles += now.errors == 2;
    doubles_accepted += now.errors == 2 && dut->frame_valid;
    const unsigned counts = (now.outcome == corrected_outcome) << 2 |
                            (now.outcome == FrameReceiver::Outcome::refused) << 1 |
                            (now.outcome == FrameReceiver::Outcome::bad_stop);
    CHECK(dut->counts == counts, "tick %lu: counts %u, model %u", ticks, dut->counts, counts);
    const bool valid = now.outcome == FrameReceiver::Outcome::clean || now.outcome == corrected_outcome;
    CHECK(dut->frame_valid == valid, "tick %lu: frame_valid %u", ticks, dut->frame_valid);
    if (valid) {
      const std::uint64_t frame = std::uint64_t{now.command.addressed} << 33 |
                                  std::uint64_t{now.outcome == corrected_outcome} << 32 | now.command.data;
      CHECK(dut->frame == frame, "tick %lu: frame %lx, model %lx", ticks,
            static_cast<unsigned long>(dut->frame), frame);
    }
    clean += now.outcome == FrameReceiver::Outcome::clean;
    corrected += now.outcome == corrected_outcome;
    this->refused += now.outcome == FrameReceiver::Outcome::refused;
    this->bad_stop += now.outcome == FrameReceiver::Outcome::bad_stop;
  }
  static constexpr auto corrected_outcome = FrameReceiver::Outcome::corrected;

  void frame(const Command& command, std::uint64_t wrong) {
    const std::uint64_t bits = nanet::ttc::encode(command) ^ wrong << 1;
    sent = command;
    errors = std::popcount(wrong);
    for (unsigned i = nanet::ttc::bits_of(command.addressed); i-- > 0;) bit(bits >> i & 1);
    errors = -1;
  }
  void idle(unsigned count) {
    for (unsigned i = 0; i < count; ++i) bit(true);
  }
  // All errors of one and two bits of the 13 or 39.
  void exhaust(const Command& command) {
    const unsigned width = nanet::ttc::bits_of(command.addressed) - 3;
    frame(command, 0);
    for (unsigned i = 0; i < width; ++i) {
      frame(command, std::uint64_t{1} << i);
      for (unsigned j = 0; j < i; ++j) frame(command, std::uint64_t{1} << i | std::uint64_t{1} << j);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Dut dut(argc, argv);
  Run run{.dut = dut, .random = std::mt19937_64{bench::argument(argc, argv, 3)}};
  const auto long_words = bench::argument(argc, argv, 1), short_words = bench::argument(argc, argv, 2);
  dut->locked = 1;
  dut->tick = 0;
  dut.reset();
  run.idle(41);
  run.bit(false);  // one too few: no frame begins
  run.idle(60);
  for (unsigned long word = 0; word < short_words; ++word)
    run.exhaust({false, static_cast<std::uint32_t>(short_words == 256 ? word : run.random() & 0xFF)});
  for (unsigned long word = 0; word < long_words; ++word)
    run.exhaust({true, static_cast<std::uint32_t>(run.random()) | 1U << 16});
  run.idle(4);
  CHECK(run.clean == short_words + long_words, "clean %lu", run.clean);
  CHECK(run.corrected == 13 * short_words + 39 * long_words, "corrected %lu", run.corrected);
  CHECK(run.refused == 78 * short_words + 741 * long_words, "refused %lu", run.refused);
  CHECK(run.singles == run.corrected && run.singles_corrected == run.singles, "%lu of %lu corrected",
        run.singles_corrected, run.singles);
  CHECK(run.doubles == run.refused && run.doubles_accepted == 0, "%lu of %lu accepted", run.doubles_accepted,
        run.doubles);

  // Noise, and bad stop bits: the module does what the model does.
  for (unsigned i = 0; i < 20'000; ++i) {
    if (run.random() % 40 == 0) run.idle(50);
    run.bit(run.random() % 8 != 0);
  }
  CHECK(run.bad_stop > 10, "bad_stop %lu", run.bad_stop);
  // Without lock nothing is received.
  dut->locked = 0;
  dut->tick = 0;
  dut.cycle();
  dut->locked = 1;
  run.model.unlock();
  run.pending.clear();
  run.idle(10);
  run.frame({false, 1}, 0);
  run.idle(60);
  run.frame({false, 3}, 0);
  run.idle(10);
  std::printf(
      "clean %lu corrected %lu refused %lu bad_stop %lu ticks %lu singles %lu singles_corrected %lu doubles "
      "%lu doubles_accepted %lu\n",
      run.clean, run.corrected, run.refused, run.bad_stop, run.ticks, run.singles, run.singles_corrected,
      run.doubles, run.doubles_accepted);
  return 0;
}
