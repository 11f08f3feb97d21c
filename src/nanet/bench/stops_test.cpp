// SPDX-License-Identifier: Apache-2.0
// Tests of the stops of a spinning loop: limits, shares and percentiles of constructed gaps; a run.
#include "nanet/bench/stops.hpp"

#include <gtest/gtest.h>

#include "nanet/os/clock.hpp"

namespace nanet::bench {
namespace {

TEST(GapRecord, LimitsAreExclusive) {
  GapRecord record;
  record.gap(0, 1'000);
  EXPECT_EQ(record.count(), 0u);
  record.gap(0, 1'001);
  record.gap(0, 10'000);
  EXPECT_EQ(record.count(), 2u);
  EXPECT_EQ(record.above(0).count, 0u);
  EXPECT_TRUE(record.listed().empty());
  record.gap(5, 10'006);
  record.gap(100, 50'101);
  record.gap(1'000, 101'001);
  EXPECT_EQ(record.above(0).count, 3u);
  EXPECT_EQ(record.above(1).count, 2u);
  EXPECT_EQ(record.above(2).count, 1u);
  EXPECT_EQ(record.above(2).time, 100'001);
  EXPECT_EQ(record.longest(), 100'001);
  ASSERT_EQ(record.listed().size(), 3u);
  EXPECT_EQ(record.listed()[0].begin, 5);
  EXPECT_EQ(record.listed()[0].end, 10'006);
}

TEST(GapRecord, SharesAndPercentilesAreOfTheTime) {
  GapRecord record;
  EXPECT_EQ(record.percentile(0.5), 0);
  EXPECT_EQ(record.share_above(0), 0);
  for (int i = 0; i < 10; ++i) record.gap(0, 2'000);  // 2 % of the time
  record.gap(0, 60'000);                              // 6 %
  record.ran(400'000);
  record.ran(600'000);  // runs add up
  EXPECT_EQ(record.percentile(0.5), 1'000);
  EXPECT_EQ(record.percentile(0.92), 1'000);
  EXPECT_NEAR(record.percentile(0.93), 2'000, 2);
  EXPECT_NEAR(record.percentile(0.95), 60'000, 60);
  EXPECT_EQ(record.percentile(1.0), 60'000);
  EXPECT_DOUBLE_EQ(record.share_above(0), 0.06);
  EXPECT_DOUBLE_EQ(record.share_above(2), 0);
}

TEST(StopProbe, RecordsUntilStopped) {
  StopProbe probe;
  for (int run = 0; run < 2; ++run) {
    const Nanoseconds began = os::monotonic_now(), before = probe.record().elapsed();
    probe.start();
    while (os::monotonic_now() - began < 5'000'000) {
    }
    probe.stop();
    EXPECT_GT(probe.record().elapsed(), before);
    EXPECT_LE(probe.record().elapsed() - before, os::monotonic_now() - began);
  }
  EXPECT_LE(probe.record().listed().size(), probe.record().above(0).count);
}

}  // namespace
}  // namespace nanet::bench
