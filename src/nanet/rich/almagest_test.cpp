// SPDX-License-Identifier: Apache-2.0
// Tests of ALMAGEST: separation of rings that cross, touch or share a centre, at most one ring per hit,
// efficiency on generated events.
#include "nanet/rich/almagest.hpp"

#include <gtest/gtest.h>

#include <numbers>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

struct Drawn {
  double x, y, r;
  int hits;
};

// Points on circles, in an artificial plane.
Rings find(const std::vector<Drawn>& circles, const Parameters& parameters = {}) {
  Geometry g = Geometry::make();
  std::vector<PmId> hits;
  for (const Drawn& c : circles) {
    for (int i = 0; i < c.hits; ++i) {
      const double phi = 2 * std::numbers::pi * (i + 0.3 * (i % 2) + 0.1 * c.hits) / c.hits;
      const auto pm = static_cast<PmId>(37 * hits.size());
      g.common[pm] = {static_cast<float>(c.x + c.r * std::cos(phi)),
                      static_cast<float>(c.y + c.r * std::sin(phi))};
      hits.push_back(pm);
    }
  }
  TestEvents events;
  events.add(hits);
  return events.reconstruct(*make_reconstructor("almagest", parameters, g))[0];
}

void expect_all(const std::vector<Drawn>& circles) {  // most hits first
  const Rings rings = find(circles);
  ASSERT_EQ(rings.count, circles.size());
  for (std::size_t i = 0; i < circles.size(); ++i) {
    EXPECT_NEAR(rings.ring[i].x, circles[i].x, 0.05);
    EXPECT_NEAR(rings.ring[i].y, circles[i].y, 0.05);
    EXPECT_NEAR(rings.ring[i].r, circles[i].r, 0.05);
    EXPECT_EQ(rings.ring[i].hits, circles[i].hits);
    EXPECT_NEAR(rings.ring[i].chi2_ndf, 0, 1e-3);
  }
}

TEST(Almagest, RingsApartCrossingAndConcentric) {
  expect_all({{-150, 10, 170, 12}});
  expect_all({{-260, 10, 180, 13}, {-40, -20, 160, 9}});
  expect_all({{-150, 0, 185, 14}, {-150, 0, 120, 9}});
  expect_all({{-150, 0, 185, 14}, {-100, 20, 150, 11}, {-220, -20, 130, 8}});
  expect_all({{-300, 60, 190, 14}, {-40, 80, 180, 12}, {-150, -90, 150, 10}, {-170, 20, 90, 7}});
}

TEST(Almagest, NoMoreRingsThanRequested) {
  const std::vector<Drawn> circles{{-260, 10, 180, 13}, {-40, -20, 160, 9}};
  const Rings one = find(circles, {{"max_rings", 1}});
  ASSERT_EQ(one.count, 1);
  EXPECT_NEAR(one.ring[0].r, 180, 6) << "the fuller one";
  EXPECT_EQ(find(circles, {{"min_hits", 10}}).count, 1);
  EXPECT_EQ(find(circles, {{"r_max", 170}}).count, 1);
}

TEST(Almagest, SeedsAreApart) {
  // Three of four hits are within 90 mm of one another: no seed.
  Geometry g = Geometry::make();
  const float x[] = {0, 30, 60, 300}, y[] = {0, 25, 0, -100};
  TestEvents events;
  for (int i = 0; i < 4; ++i) g.common[i] = {x[i], y[i]};
  events.add({0, 1, 2, 3});
  EXPECT_EQ(events.reconstruct(*make_reconstructor("almagest", {{"r_max", 1000}}, g))[0].count, 0);
}

TEST(Almagest, AHitBelongsToOneRing) {
  const TestEvents events = TestEvents::generate(ring_mix, 2, test_rounds(3000), 6);
  const auto rings = events.reconstruct(*make_reconstructor("almagest", {}, Geometry::make()));
  int several = 0;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    unsigned hits = 0, fewest = 128;
    for (unsigned k = 0; k < rings[i].count; ++k) {
      hits += rings[i].ring[k].hits;
      fewest = std::min<unsigned>(fewest, rings[i].ring[k].hits);
    }
    EXPECT_LE(hits, events.first[i + 1] - events.first[i]);
    EXPECT_EQ(rings[i].ambiguous, rings[i].count && fewest == 4);
    several += rings[i].count > 1;
  }
  EXPECT_GT(several, test_rounds(1000));
}

TEST(Almagest, FindsTheGeneratorsRings) {
  const auto almagest = make_reconstructor("almagest", {}, Geometry::make());
  const double least[] = {0, 0.955, 0.88, 0.79, 0.70}, fakes[] = {0.005, 0.03, 0.09, 0.23, 0.45};
  for (int rings = 0; rings <= 4; ++rings) {
    const TestEvents events =
        TestEvents::generate(rings, 1, test_rounds(3000), 40 + static_cast<unsigned>(rings));
    const Quality q = quality(events, events.reconstruct(*almagest), rings);
    EXPECT_GE(q.efficiency, least[rings]) << rings;
    EXPECT_LE(q.fakes, fakes[rings]) << rings;
    RecordProperty("efficiency_" + std::to_string(rings), std::to_string(q.efficiency));
    RecordProperty("fakes_" + std::to_string(rings), std::to_string(q.fakes));
  }
}

}  // namespace
}  // namespace nanet::rich
