// SPDX-License-Identifier: Apache-2.0
// Tests of the sampled TTC line: cells by the distance of edges, frames in their periods, no drift.
#include "nanet/ttc/line.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace nanet::ttc {
namespace {

constexpr double samples_per_period = 15.5944;

TEST(Line, SendsFramesFromTheirPeriodsOn) {
  Line line(samples_per_period);
  line.send({false, start_of_burst}, 100);
  line.send({true, 0x12345678}, 110);  // the frame before lasts until 116
  line.send({false, end_of_burst}, 300);
  // Bits of the line: a long interval between edges is a 0, two short ones are a 1.
  std::vector<bool> bits;
  bool level = false, half = false, first = true;
  std::uint64_t since = 0;
  for (unsigned cycle = 0; cycle < 2000; ++cycle) {
    const unsigned word = line.samples(4);
    for (unsigned i = 0; i < 4; ++i, ++since) {
      if ((word >> i & 1) == static_cast<unsigned>(level)) continue;
      level = !level;
      const auto interval = std::exchange(since, 0);
      if (std::exchange(first, false)) continue;  // the first cell begins
      if (interval > 5) {
        EXPECT_FALSE(half);
        bits.push_back(false);
      } else if (half) {
        bits.push_back(true);
      }
      half = interval <= 5 && !half;
    }
  }
  FrameReceiver receiver;
  std::vector<std::pair<std::uint64_t, Command>> seen;
  for (std::size_t period = 0; 2 * period + 1 < bits.size(); ++period) {
    EXPECT_FALSE(bits[2 * period]) << "A channel of period " << period;
    Command command;
    const auto outcome = receiver.push(bits[2 * period + 1], command);
    if (outcome == FrameReceiver::Outcome::clean) seen.emplace_back(period, command);
  }
  const std::vector<std::pair<std::uint64_t, Command>> sent = {
      {115, {false, start_of_burst}}, {157, {true, 0x12345678}}, {315, {false, end_of_burst}}};
  EXPECT_EQ(seen, sent);
}

TEST(Line, KeepsItsRate) {
  Line line(samples_per_period);
  constexpr std::uint64_t cycles = 1'000'000;
  for (std::uint64_t i = 0; i < cycles; ++i) line.samples(4);
  EXPECT_NEAR(line.begin_of(line.period()), 4.0 * cycles, samples_per_period);
  EXPECT_NEAR(line.begin_of(1'000'000), samples_per_period * 1e6, 50);  // 3 ppm
}

}  // namespace
}  // namespace nanet::ttc
