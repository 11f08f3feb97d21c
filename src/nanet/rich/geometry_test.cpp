// SPDX-License-Identifier: Apache-2.0
// Tests of the PM lattice: pinned positions.
#include "nanet/rich/geometry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace nanet::rich {
namespace {

TEST(Geometry, ExtentsAndDistinctPositions) {
  const Geometry g = Geometry::make();
  std::set<std::pair<int, int>> positions;
  float x = 0, y = 0, radius = 0;
  for (const Point& p : g.disk) {
    positions.insert({static_cast<int>(std::lround(p.x * 10)), static_cast<int>(std::lround(p.y * 10))});
    x = std::max(x, std::fabs(p.x));
    y = std::max(y, std::fabs(p.y));
    radius = std::max(radius, std::hypot(p.x, p.y));
  }
  EXPECT_EQ(g.disk.size(), 1952u);
  EXPECT_EQ(positions.size(), 976u);
  EXPECT_NEAR(x, 297.0, 0.05);
  EXPECT_NEAR(y, 296.2, 0.05);
  EXPECT_NEAR(radius, 313.5, 0.05);
}

TEST(Geometry, BothDisksAlikeAndHalvesApart) {
  const Geometry g = Geometry::make();
  for (unsigned i = 0; i < 976; ++i) {
    EXPECT_EQ(g.disk[i].x, g.disk[i + 976].x);
    EXPECT_EQ(g.disk[i].y, g.disk[i + 976].y);
  }
  EXPECT_FLOAT_EQ(g.disk[0].x, -261.0f);                           // first supercell, first PM
  EXPECT_NEAR(g.disk[0].y, 93.532, 0.005);                         // the published table has two decimals
  EXPECT_FLOAT_EQ(g.disk[976 + 488 + 8 + 4].x, -252.0f + 45 + 9);  // Saleve, down, second supercell, fifth PM
  EXPECT_NEAR(g.disk[976 + 488 + 8 + 4].y, 62.35 - 15.588, 0.005);
}

// The nearest neighbour is one pitch away: hexagonal lattice without seams between supercells or halves.
TEST(Geometry, Pitch) {
  const Geometry g = Geometry::make();
  for (unsigned i = 0; i < 976; ++i) {
    float nearest = 1e9f;
    for (unsigned k = 0; k < 976; ++k) {
      if (k != i)
        nearest = std::min(nearest, std::hypot(g.disk[i].x - g.disk[k].x, g.disk[i].y - g.disk[k].y));
    }
    EXPECT_NEAR(nearest, 18.0, 0.02) << i;
  }
}

// Precondition of exact float32 sums of x and x^2, and of the table with two small integers per PM.
TEST(Geometry, WholeMillimetresAndRows) {
  const Geometry g = Geometry::make();
  for (const Point& p : g.common) {
    EXPECT_EQ(p.x, std::round(p.x));
    const float row = std::round(p.y / row_mm);
    EXPECT_EQ(p.y, row * row_mm);
    EXPECT_LE(std::fabs(row), 19.0f);
  }
}

TEST(Geometry, CommonPlane) {
  const Geometry g = Geometry::make();
  EXPECT_FLOAT_EQ(g.common[0].x, g.disk[0].x - 127);
  EXPECT_FLOAT_EQ(g.common[976].x, g.disk[976].x - 177);
  EXPECT_FLOAT_EQ(g.common[976].y, g.disk[976].y);
}

}  // namespace
}  // namespace nanet::rich
