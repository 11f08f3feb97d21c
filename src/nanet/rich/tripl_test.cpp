// SPDX-License-Identifier: Apache-2.0
// Tests of TRIPL: triplets are distinct hits and cover all hits evenly; circle through three points.
#include "nanet/rich/tripl.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

using L = HostLanes;

TEST(Triplets, ThreeDifferentHitsAndEachAsOftenAsTheOthers) {
  for (std::int32_t n = 3; n <= static_cast<std::int32_t>(max_event_hits); ++n) {
    std::map<int, int> used;
    std::set<std::set<int>> different;
    for (std::int32_t first = 0; first < 512; first += 32) {
      const Triplet<L> t = choose_triplet<L>(n, first);
      for (int lane = 0; lane < 32; ++lane) {
        const std::set<int> hits{L::at(t.a, lane), L::at(t.b, lane), L::at(t.c, lane)};
        ASSERT_EQ(hits.size(), 3u) << n;
        ASSERT_GE(*hits.begin(), 0);
        ASSERT_LT(*hits.rbegin(), n);
        for (int hit : hits) ++used[hit];
        different.insert(hits);
      }
    }
    EXPECT_EQ(used.size(), static_cast<std::size_t>(n));
    const double even = 3.0 * 512 / n;
    for (const auto& [hit, times] : used) {
      EXPECT_GT(times, 0.5 * even - 4) << n << ' ' << hit;
      EXPECT_LT(times, 1.5 * even + 4) << n << ' ' << hit;
    }
    const double all = n * (n - 1.0) * (n - 2.0) / 6;
    EXPECT_GT(static_cast<double>(different.size()), std::min(0.7 * all, 300.0)) << n;
  }
}

TEST(Triplets, CircleThroughThreePoints) {
  // A 3-4-5 triangle: the centre is the midpoint of the hypotenuse.
  const auto circle = [](float separation, float cx, float cy) {
    return circle_through<L>(10.0f, 20.0f, 70.0f, 20.0f, cx, cy, separation);
  };
  const TripletCircle<L> right = circle(60.0f, 10.0f, 100.0f);
  EXPECT_FLOAT_EQ(L::at(right.x, 9), 40);
  EXPECT_FLOAT_EQ(L::at(right.y, 9), 60);
  EXPECT_FLOAT_EQ(L::at(right.r, 9), 50);
  EXPECT_EQ(L::ballot(right.good), ~0u);
  EXPECT_EQ(L::ballot(circle(60.1f, 10.0f, 100.0f).good), 0u) << "two of them too close";
  EXPECT_EQ(L::ballot(circle(0.0f, 130.0f, 20.0f).good), 0u) << "on a line";
  EXPECT_EQ(L::ballot(circle(0.0f, 10.0f, 20.0f).good), 0u) << "one spot twice";
  const TripletCircle<L> equal = circle(0.0f, 40.0f, 20.0f + 51.9615242f);
  EXPECT_NEAR(L::at(equal.quality, 0), 1, 1e-5);
}

// More than half of the hits are noise: an average over all triplets would be meaningless.
TEST(Tripl, MostTripletsAreWrong) {
  const TestEvents events = TestEvents::generate(1, 8, 1500, 9);
  const auto tripl = make_reconstructor("tripl", {}, Geometry::make());
  EXPECT_GE(quality(events, events.reconstruct(*tripl), 1).efficiency, 0.85);
}

}  // namespace
}  // namespace nanet::rich
