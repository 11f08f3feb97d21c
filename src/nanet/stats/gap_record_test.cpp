// SPDX-License-Identifier: Apache-2.0
// Tests of the gap record: limits, shares and percentiles of constructed gaps; bound of the list.
#include "nanet/stats/gap_record.hpp"

#include <gtest/gtest.h>

namespace nanet::stats {
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
  EXPECT_EQ(record.above(2).time, 100'001u);
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

TEST(GapRecord, TheListIsBoundedAndTheCountsAreNot) {
  GapRecord record;
  const auto many = static_cast<Nanoseconds>(GapRecord::most_listed);
  for (Nanoseconds i = 0; i < many + 2; ++i) record.gap(i * 20'000, i * 20'000 + 10'001);
  ASSERT_EQ(record.listed().size(), GapRecord::most_listed);
  EXPECT_EQ(record.listed().back().begin, (many - 1) * 20'000);
  EXPECT_EQ(record.above(0).count, GapRecord::most_listed + 2);
}

}  // namespace
}  // namespace nanet::stats
