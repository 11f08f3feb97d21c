// SPDX-License-Identifier: Apache-2.0
// Tests of frame alignment: gaps, bursts, packets out of order, duplicated, or late in a gap.
#include "nanet/l0tp/aligner.hpp"

#include <gtest/gtest.h>

namespace nanet::l0tp {
namespace {

TEST(Aligner, CountsFramesAndGaps) {
  Aligner a;
  EXPECT_EQ(a.see(0), Arrival::first);
  EXPECT_EQ(a.see(1), Arrival::in_order);
  EXPECT_EQ(a.gap(), 0u);
  EXPECT_EQ(a.see(5), Arrival::in_order);
  EXPECT_EQ(a.gap(), 3u);
  EXPECT_EQ(a.frames(), 3u);
  EXPECT_EQ(a.missing(), 3u);
  EXPECT_EQ(a.bursts(), 1u);
}

TEST(Aligner, AFrameThatStillComesIsNotMissing) {
  Aligner a;
  for (Frame f : {0u, 1u, 4u}) a.see(f);
  EXPECT_EQ(a.see(2), Arrival::out_of_order);
  EXPECT_EQ(a.missing(), 1u);
  EXPECT_EQ(a.see(2), Arrival::duplicate);
  EXPECT_EQ(a.see(4), Arrival::duplicate);
  EXPECT_EQ(a.see(3), Arrival::out_of_order);
  EXPECT_EQ(a.missing(), 0u);
  EXPECT_EQ(a.frames(), 5u);
}

TEST(Aligner, OnlyAFallByMoreThan1024IsANewBurst) {
  Aligner a;
  for (Frame f = 0; f <= 2000; ++f) a.see(f);
  EXPECT_EQ(a.see(2000 - 1024), Arrival::duplicate);
  EXPECT_EQ(a.bursts(), 1u);
  EXPECT_EQ(a.see(2000 - 1025), Arrival::new_burst);
  EXPECT_EQ(a.bursts(), 2u);
  EXPECT_EQ(a.missing(), 975u);  // frames 0 to 974 of a burst that was not joined late
  EXPECT_EQ(a.run_frame(975), 2001u + 975u);
}

TEST(Aligner, LongBurstsKeepTheirWindowClean) {
  Aligner a;
  for (Frame f = 0; f < 5000; ++f) ASSERT_NE(a.see(f), Arrival::duplicate) << f;
  EXPECT_EQ(a.see(0), Arrival::new_burst);
  for (Frame f = 1; f < 5000; ++f) ASSERT_EQ(a.see(f), Arrival::in_order) << f;
  EXPECT_EQ(a.missing(), 0u);
  EXPECT_EQ(a.frames(), 10'000u);
  EXPECT_EQ(a.run_frame(1), 5001u);
}

TEST(Aligner, AGapWiderThanTheWindow) {
  Aligner a;
  for (Frame f = 0; f < 10; ++f) a.see(f);
  EXPECT_EQ(a.see(10'000), Arrival::in_order);
  EXPECT_EQ(a.missing(), 9990u);
  EXPECT_EQ(a.see(9'999), Arrival::out_of_order);
  EXPECT_EQ(a.see(9'000), Arrival::out_of_order);
  EXPECT_EQ(a.missing(), 9988u);
}

TEST(Aligner, JoinedLateNothingIsOwedBefore) {
  Aligner a;
  EXPECT_EQ(a.see(500), Arrival::first);
  EXPECT_EQ(a.see(501), Arrival::in_order);
  EXPECT_EQ(a.missing(), 0u);
  EXPECT_EQ(a.see(499), Arrival::out_of_order);
  EXPECT_EQ(a.missing(), 0u);
  EXPECT_EQ(a.run_frame(501), 501u);
}

TEST(Aligner, KnownBurstLengthCountsFramesAcrossALostEnd) {
  Aligner a(3000);
  for (Frame f = 0; f < 2900; ++f) a.see(f);  // the last hundred never arrive
  a.see(0);
  EXPECT_EQ(a.run_frame(7), 3007u);
}

}  // namespace
}  // namespace nanet::l0tp
