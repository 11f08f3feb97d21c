// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_receiver: a line with bursts, missing edges, gaps and a wrong rate. Times without the mark
// `lost` are right. Above 100 missing edges in 10^6 a false start bit before a frame can make a false SOB, as
// the code protects words and not their framing; the harness then requires losses only. Arguments: bursts,
// periods of a burst, missing edges in 10^6, clock difference in ppm, seed.
#include <cmath>
#include <deque>
#include <vector>

#include "harness.hpp"
#include "nanet/ttc/code.hpp"

int main(int argc, char** argv) {
  using namespace nanet::ttc;
  const auto bursts = bench::argument(argc, argv, 1), length = bench::argument(argc, argv, 2);
  const double errors = 1e-6 * static_cast<double>(bench::argument(argc, argv, 3));
  const double ppm = std::atof(argv[4]);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 5)};
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> noise(0, 0.1);
  const double half = 1e9 / 40'078'458.0 / 4, sample_ns = 1.6 * (1 + 1e-6 * ppm);

  dut->offset = 18;  // 15 periods from the start bit of the SOB to its stop bit, 3 to its decoding
  dut->orbit = 0;
  dut->samples = 0;
  dut.reset();

  std::deque<double> edges;
  std::deque<std::pair<double, std::int64_t>> starts;  // line time of each period, period since SOB
  double line = 20, time = 0;
  bool level = false;
  std::uint64_t sobs = 0, eobs = 0, wrong = 0, right = 0, lost_ticks = 0, gaps = 0, corrected = 0,
                refused = 0;
  std::int64_t since = -1;  // period since the SOB's start bit; -1 before the first
  std::int64_t shift = 1000;
  std::uint64_t sobs_before = 0, missed = 0;  // an SOB that is refused leaves the time of the burst before
  const auto edge = [&](double at) {
    if (uniform(random) >= errors) edges.push_back(at + noise(random));  // an error: the edge is missing
  };
  const auto bit = [&](bool value) {
    edge(line);
    if (value) edge(line + half);
    line += 2 * half;
  };
  const auto sample = [&] {
    while (time < line - 60) {
      unsigned samples = 0;
      for (unsigned i = 0; i < 4; ++i, time += sample_ns) {
        while (!edges.empty() && edges.front() <= time) {
          edges.pop_front();
          level = !level;
        }
        samples |= static_cast<unsigned>(level) << i;
      }
      dut->samples = static_cast<CData>(samples);
      dut.cycle();
      sobs += dut->sob;
      eobs += dut->eob;
      const unsigned counts = dut->frame_counts;
      corrected += counts >> 2 & 1;
      refused += counts >> 1 & 1;
      while (starts.size() > 1 && starts[1].first <= time) starts.pop_front();
      if (dut->now_tick) {
        const std::uint64_t now = dut->now;
        const bool lost = now >> 52 & 1;
        if (lost) {
          ++lost_ticks;
        } else if (!starts.empty() && starts.front().second >= 40 && sobs > sobs_before) {
          // Period on the line less the receiver's: the delay of samples and registers, one or two periods.
          const std::int64_t delay =
              starts.front().second - static_cast<std::int64_t>(static_cast<std::uint32_t>(now));
          if (shift == 1000) shift = delay;
          const bool good = std::llabs(delay - shift) <= 1;
          right += good;
          wrong += !good;
        }
      }
    }
  };
  const auto period = [&](bool a, bool b) {
    starts.emplace_back(line, since);
    bit(a);
    bit(b);
    if (since >= 0) ++since;
    sample();
  };
  const auto send = [&](const Command& command, bool resets) {
    const std::uint64_t bits = encode(command);
    if (resets) since = 0;
    for (unsigned i = bits_of(command.addressed); i-- > 0;) period(false, bits >> i & 1);
  };
  const auto idle = [&](unsigned long count) {
    for (unsigned long i = 0; i < count; ++i) period(i % 4 == 1 && random() % 2, true);
  };
  idle(400);
  for (unsigned long burst = 0; burst < bursts; ++burst) {
    idle(200);
    missed += burst > 0 && sobs == sobs_before;
    sobs_before = sobs;
    send({false, start_of_burst}, true);
    for (unsigned long at = 0; at < length; at += 100) {
      if (random() % 4 == 0) send(type_command(random() & 63), false);
      idle(80);
      if (errors > 0 && random() % 2000 == 0) {  // the line is gone for 20 periods
        ++gaps;
        line += 80 * half;
        if (since >= 0) since += 20;
      }
    }
    if (burst % 3 != 2) send({false, end_of_burst}, false);  // every third burst has no EOB
  }
  idle(200);
  if (errors == 0) {
    CHECK(sobs == bursts && eobs == bursts - bursts / 3, "%lu SOB, %lu EOB", sobs, eobs);
    CHECK(lost_ticks < 900 && refused == 0 && corrected == 0, "%lu periods lost", lost_ticks);
  }
  CHECK(right > 0 && (errors < 1e-4 ? wrong * 1000 <= right : lost_ticks > right),
        "%lu wrong times, %lu right", wrong, right);
  CHECK(errors > 0 || wrong == 0, "%lu wrong times", wrong);
  std::printf("sob %lu eob %lu right %lu wrong %lu lost %lu missed %lu gaps %lu corrected %lu refused %lu\n",
              sobs, eobs, right, wrong, lost_ticks, missed, gaps, corrected, refused);
  return 0;
}
