// SPDX-License-Identifier: Apache-2.0
// Tests of DOMH: trial centres at the PM positions, peak equal to plain counting.
#include "nanet/rich/domh.hpp"

#include <gtest/gtest.h>

#include <random>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

TEST(PmCentres, MidwayBetweenTheMirrors) {
  const Geometry g = Geometry::make();
  for (std::int32_t i = 0; i < g.rings.centres; ++i) {
    const Point p = pm_centre(g.common.data(), g.rings, i);
    EXPECT_NEAR(p.x, g.disk[i].x - 152, 1e-3);
    EXPECT_NEAR(p.y, g.disk[i].y, 1e-3);
  }
}

// Two rings: the fuller ring is selected, independent of the trial order.
TEST(Domh, TheFullerRing) {
  const auto ring = [](Geometry& g, int first, int hits, float x, float y, float r) {
    std::vector<PmId> pm;
    for (int i = 0; i < hits; ++i) {
      const float phi = 6.2831853f * static_cast<float>(i) / static_cast<float>(hits);
      g.common[first + i] = {x + r * std::cos(phi), y + r * std::sin(phi)};
      pm.push_back(static_cast<PmId>(first + i));
    }
    return pm;
  };
  for (const int left : {9, 12}) {
    // The trial centres of these PMs move with their points; the others are unchanged.
    Geometry g = Geometry::make();
    std::vector<PmId> hits = ring(g, 400, left, -260, 10, 120), right = ring(g, 500, 21 - left, -60, 0, 170);
    hits.insert(hits.end(), right.begin(), right.end());
    TestEvents events;
    events.add(hits);
    const Rings rings = events.reconstruct(*make_reconstructor("domh", {}, g))[0];
    ASSERT_EQ(rings.count, 1);
    EXPECT_NEAR(rings.ring[0].x, left == 9 ? -60 : -260, 6);
    EXPECT_NEAR(rings.ring[0].r, left == 9 ? 170 : 120, 6);
  }
}

}  // namespace
}  // namespace nanet::rich
