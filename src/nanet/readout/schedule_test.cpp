// SPDX-License-Identifier: Apache-2.0
// Tests of the schedule: bursts, gaps, speeds.
#include "nanet/readout/schedule.hpp"

#include <gtest/gtest.h>

namespace nanet::readout {
namespace {

TEST(Schedule, FrameTimesFollowTheConstantWithoutDrift) {
  const Schedule one(1.0, default_max_frames, 0);
  EXPECT_EQ(one.due(0), 0);
  EXPECT_EQ(one.due(1), 6388);  // 6387.449 ns, rounded up
  EXPECT_EQ(one.due(1'000'000), static_cast<Nanoseconds>(std::ceil(1e6 * frame_ns)));
  const Schedule tenth(0.1, default_max_frames, 0);
  EXPECT_EQ(tenth.due(1), 63875);
  for (std::uint64_t i : {1ull, 7ull, 751'499ull, 751'500ull, 100'000'000ull})
    EXPECT_GE(static_cast<double>(tenth.due(i)), static_cast<double>(i) * frame_ns / 0.1);
}

TEST(Schedule, BurstsAndGaps) {
  const Schedule s(1.0, 100, 1e6);
  EXPECT_EQ(s.burst(99), 0u);
  EXPECT_EQ(s.burst(100), 1u);
  EXPECT_EQ(s.frame(250), 50u);
  EXPECT_TRUE(s.first_of_burst(200));
  EXPECT_FALSE(s.first_of_burst(201));
  EXPECT_EQ(s.burst_end(0), 100u);
  EXPECT_EQ(s.burst_end(199), 200u);
  // The gap lies between the end of frame 99 and the start of frame 100.
  EXPECT_EQ(s.due(100) - s.end(99), 1'000'000);
  EXPECT_EQ(s.due(1), s.end(0));
}

TEST(Schedule, FramesWithinADurationAreThoseDueBeforeItsEnd) {
  for (const double speed : {0.01, 0.3, 1.0, 3.7}) {
    for (const double gap : {0.0, 123'456.0}) {
      const Schedule s(speed, 100, gap);
      for (const Nanoseconds duration :
           {1ll, 6387ll, 6388ll, 638'745ll, 638'746ll, 800'000ll, 5'000'000'000ll}) {
        const std::uint64_t n = s.frames_within(duration);
        ASSERT_GT(n, 0u);
        EXPECT_LT(s.due(n - 1), duration) << speed << ' ' << gap << ' ' << duration;
        EXPECT_GE(s.due(n), duration) << speed << ' ' << gap << ' ' << duration;
      }
      EXPECT_EQ(s.frames_within(0), 0u);
    }
  }
}

TEST(Schedule, BatchesAreNoLargerThanTheirTime) {
  EXPECT_EQ(Schedule(1.0, 100, 0).batch(100'000, 64), 15u);  // 15 frames are 95.8 us
  EXPECT_EQ(Schedule(0.05, 100, 0).batch(100'000, 64), 1u);  // each frame leaves when it is due
  EXPECT_EQ(Schedule(100.0, 100, 0).batch(100'000, 64), 64u);
  EXPECT_EQ(Schedule(1.0, 100, 0).batch(0, 64), 1u);
}

}  // namespace
}  // namespace nanet::readout
