// SPDX-License-Identifier: Apache-2.0
// Tests of HOUGH: histogram against counting, peak rule, rings partly outside the plane.
#include "nanet/rich/hough.hpp"

#include <gtest/gtest.h>

#include <random>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

using L = HostLanes;

TEST(RadiusHistogram, CountsAndFindsTheFirstHighestPeak) {
  std::minstd_rand random(4);
  std::uniform_real_distribution<float> anywhere(-300, 300);
  const RadiusBins bins(50, 201, 1);
  for (const int n : {0, 1, 3, 17, 32, 90, 128}) {
    Hits hits{};
    for (int i = 0; i < n; ++i) {
      hits.x[i] = i < 100 ? anywhere(random) : 120.0f;  // many in one bin of lane 0
      hits.y[i] = i < 100 ? anywhere(random) : 0.0f;
    }
    const L::F x = L::to_float(L::lane()) * 10.0f, y = L::to_float(L::lane()) * -7.0f;
    RadiusHistogram<L> histogram;
    histogram.fill(hits, n, bins, x, y);
    Peak<L> peak;
    histogram.find_peak(L::lane() + L::I(5), L::lane() < L::I(31), peak);
    BestPeak highest;
    for (int lane = 0; lane < 32; ++lane) {
      int count[radius_bins] = {};
      for (int i = 0; i < std::min(n, max_votes); ++i) {
        const float dx = hits.x[i] - L::at(x, lane), dy = hits.y[i] - L::at(y, lane);
        const float place = (std::sqrt(std::fma(dx, dx, dy * dy)) - bins.low) * bins.per_width;
        if (place >= 0 && place < radius_bins) ++count[static_cast<int>(place)];
      }
      int score = 0, code = 0;
      for (int b = 2; b < radius_bins - 2; ++b) {
        ASSERT_EQ((L::at(histogram.word[b / 4], lane) >> (8 * (b % 4))) & 0xFF, count[b]);
        const int here = count[b - 2] + 2 * count[b - 1] + 3 * count[b] + 2 * count[b + 1] + count[b + 2];
        if (here <= score) continue;
        score = here;
        code = (lane + 5) * radius_bins + b;
      }
      if (lane == 31) score = code = 0;  // not valid
      EXPECT_EQ(L::at(peak.score, lane), score);
      EXPECT_EQ(L::at(peak.code, lane), code);
      if (score > highest.score) highest = {score, code};
    }
    const BestPeak best = best_peak<L>(peak);
    EXPECT_EQ(best.score, highest.score);
    if (highest.score) {
      EXPECT_EQ(best.code, highest.code);
    }
  }
}

TEST(RadiusHistogram, BinsCoverTheRadii) {
  for (const float wider : {1.0f, 2.0f}) {
    const RadiusBins bins(50, 201, wider);
    EXPECT_LE(bins.middle(2), 50.1f);  // the lowest and the highest possible peak
    EXPECT_GE(bins.middle(radius_bins - 3), 195.0f);
  }
}

// The ring centre is far from the hit centroid: half of the ring misses the PMs.
TEST(Hough, HalfARing) {
  const Geometry g = Geometry::make();
  TestEvents events;
  std::vector<TrueRing> truth;
  for (int turn = 0; turn < 12; ++turn) {
    const double x = -152 + 20 * turn, y = 4 * turn, r = 180;
    std::vector<PmId> hits;
    for (int i = -4; i <= 4; ++i) {  // an arc of 160 degrees
      const double phi = 3.14159265 + 0.35 * i;
      int nearest = 0;
      double least = 1e9;
      for (int pm = 0; pm < pm_count; ++pm) {
        const double d =
            std::hypot(g.common[pm].x - x - r * std::cos(phi), g.common[pm].y - y - r * std::sin(phi));
        if (d < least) {
          least = d;
          nearest = pm;
        }
      }
      hits.push_back(static_cast<PmId>(nearest));
    }
    std::sort(hits.begin(), hits.end());
    events.add(hits);
    truth.push_back(
        {static_cast<float>(x), static_cast<float>(y), static_cast<float>(r), 30, Particle::pion, 9});
  }
  const auto rings = events.reconstruct(*make_reconstructor("hough", {}, g));
  for (std::size_t i = 0; i < rings.size(); ++i)
    EXPECT_TRUE(rings[i].count == 1 && matches(truth[i], rings[i].ring[0])) << i;
}

}  // namespace
}  // namespace nanet::rich
