// SPDX-License-Identifier: Apache-2.0
// Tests of MATH: exact sums in any order, on ideal circles, no ring from degenerate hits, same bits in a
// batch as alone.
#include "nanet/rich/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/reconstructor.hpp"

namespace nanet::rich {
namespace {

struct Events {
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  void add(const std::set<PmId>& hits) {
    pm.insert(pm.end(), hits.begin(), hits.end());
    first.push_back(static_cast<std::uint32_t>(pm.size()));
  }
  EventBatch batch() const { return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()}; }
};

std::uint32_t bits(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

void expect_same(const Rings& batch, const Rings& single, std::uint32_t event) {
  ASSERT_EQ(batch.count, single.count) << event;
  EXPECT_EQ(batch.ambiguous, single.ambiguous);
  for (unsigned i = 0; i < single.count; ++i) {
    EXPECT_EQ(bits(batch.ring[i].x), bits(single.ring[i].x)) << event;
    EXPECT_EQ(bits(batch.ring[i].y), bits(single.ring[i].y)) << event;
    EXPECT_EQ(bits(batch.ring[i].r), bits(single.ring[i].r)) << event;
    EXPECT_EQ(bits(batch.ring[i].chi2_ndf), bits(single.ring[i].chi2_ndf)) << event;
    EXPECT_EQ(batch.ring[i].hits, single.ring[i].hits) << event;
    EXPECT_TRUE(
        std::isfinite(single.ring[i].x + single.ring[i].y + single.ring[i].r + single.ring[i].chi2_ndf));
  }
}

// Hits near a circle, or uniformly distributed.
std::set<PmId> draw(std::mt19937& random, const Geometry& g, unsigned hits, bool ring) {
  std::set<PmId> out;
  std::uniform_int_distribution<int> any(0, pm_count - 1);
  std::uniform_real_distribution<float> centre(-60, 60), radius(100, 190), angle(0, 6.2831853f);
  const float x = centre(random) - 152, y = centre(random), r = radius(random);
  while (out.size() < hits) {
    if (!ring || out.size() % 8 == 7) {
      out.insert(static_cast<PmId>(any(random)));
      continue;
    }
    const float phi = angle(random), px = x + r * std::cos(phi), py = y + r * std::sin(phi);
    int best = any(random);
    float nearest = 1e9f;
    for (int pm = 0; pm < pm_count; ++pm) {
      const float d = std::hypot(g.common[pm].x - px, g.common[pm].y - py);
      if (d < nearest && !out.count(static_cast<PmId>(pm))) {
        nearest = d;
        best = pm;
      }
    }
    out.insert(static_cast<PmId>(best));
  }
  return out;
}

TEST(Math, BatchGivesTheBitsOfTheSingleEvent) {
  const Geometry g = Geometry::make();
  std::mt19937 random(7);
  for (const double min_hits : {3.0, 4.0, 20.0}) {
    const auto reconstructor =
        make_reconstructor("math", {{"min_hits", min_hits}, {"r_min", 0}, {"r_max", 500}}, g);
    const auto copy = reconstructor->clone();
    Math math;
    math.parameters = {static_cast<std::uint32_t>(min_hits), 0, 500, {}};
    Events events;
    for (unsigned hits = 0; hits <= max_event_hits; ++hits) {
      for (int again = 0; again < 6; ++again) events.add(draw(random, g, hits, again % 2 == 0));
    }
    // All groupings: batches of odd sizes from each start, in the random order of generation.
    const EventBatch all = events.batch();
    std::vector<Rings> rings(all.events);
    for (std::uint32_t size : {1u, 15u, 16u, 17u, 64u, 257u, all.events}) {
      for (std::uint32_t from = 0; from < all.events; from += size) {
        (*copy)({std::min(size, all.events - from), all.first + from, all.pm}, rings.data() + from);
      }
      for (std::uint32_t i = 0; i < all.events; ++i)
        expect_same(rings[i], math(all.view(i), g.common.data()), i);
    }
  }
}

TEST(Math, IdealCircle) {
  // Artificial plane: a table of points on a circle.
  std::vector<Point> plane(20);
  std::vector<PmId> pm(20);
  for (unsigned i = 0; i < 20; ++i) {
    const double phi = 0.3 * i;
    plane[i] = {static_cast<float>(-150 + 175 * std::cos(phi)), static_cast<float>(12 + 175 * std::sin(phi))};
    pm[i] = static_cast<PmId>(i);
  }
  const Rings rings = Math{}({pm.data(), 20}, plane.data());
  ASSERT_EQ(rings.count, 1);
  EXPECT_NEAR(rings.ring[0].x, -150, 1e-3);
  EXPECT_NEAR(rings.ring[0].y, 12, 1e-3);
  EXPECT_NEAR(rings.ring[0].r, 175, 1e-3);
  EXPECT_GE(rings.ring[0].chi2_ndf, 0);
  EXPECT_NEAR(rings.ring[0].chi2_ndf, 0, 1e-3);  // rounding errors of sums of fourth powers
  EXPECT_EQ(rings.ring[0].hits, 20);
}

Math prepared(const Geometry& g) {
  Math math;
  math.parameters = {3, 0, 1000, {}};
  math.use(g);
  return math;
}

// Rings of the batch reconstructor without limits.
std::vector<Rings> batch_of(const Geometry& g, const Events& events) {
  const auto reconstructor = make_reconstructor("math", {{"min_hits", 3}, {"r_min", 0}, {"r_max", 1000}}, g);
  std::vector<Rings> rings(events.batch().events);
  (*reconstructor)(events.batch(), rings.data());
  return rings;
}

void expect_batch_as_alone(const Geometry& g, const Events& events) {
  const Math math = prepared(g);
  std::vector<Math::Position> table(plane_table_size);
  for (std::uint32_t pm = 0; pm < g.channels(); ++pm) math.set(table.data(), pm, g.common[pm]);
  // From the table, as a GPU does: the hits in parts.
  const auto of_table = [&](const EventView& event) {
    if (!math.whole) return math.ring(math.moments(event, table.data()), event.hits);
    Math::WholeSums part[4];
    Math::PairSums<std::int64_t> all;
    std::int32_t words[Math::words] = {};
    for (std::uint32_t i = 0; i < Math::fitted(event.hits); ++i) {
      part[i % 4].add(Math::pairs(table.data())[event.pm[i]]);
      all.add(Math::pairs(table.data())[event.pm[i]]);
    }
    for (const Math::WholeSums& s : part)
      for (unsigned w = 0; w < Math::words; ++w) words[w] += Math::word(s, w);
    const Rings rings = math.ring(Math::moments(words), event.hits);
    expect_same(rings, math.ring(Math::moments(all), event.hits), 0);
    return rings;
  };
  const std::vector<Rings> rings = batch_of(g, events);
  for (std::uint32_t i = 0; i < rings.size(); ++i) {
    const Rings alone = math(events.batch().view(i), g.common.data());
    expect_same(rings[i], alone, i);
    expect_same(of_table(events.batch().view(i)), alone, i);
  }
}

Events random_events(const Geometry& g, unsigned seed, unsigned step = 1) {
  std::mt19937 random(seed);
  Events events;
  for (unsigned hits = 0; hits <= max_event_hits; hits += step)
    events.add(draw(random, g, hits, hits % 2 == 0));
  return events;
}

TEST(Math, PositionsAreWholeNumbers) {
  const Geometry g = Geometry::make();
  const Math math = prepared(g);
  EXPECT_TRUE(math.whole);
  EXPECT_EQ(math.scale, 0);
  for (const Point& p : g.common) {
    const Math::Position q = math.position(p);
    const std::uint32_t pair = Math::pair(q);
    const int x = static_cast<std::int16_t>(pair), k = static_cast<std::int32_t>(pair) >> 16;
    EXPECT_EQ(static_cast<float>(x) + Math::origin_x, p.x);
    EXPECT_EQ(static_cast<float>(k) * row_mm, p.y);
    EXPECT_EQ(q.z, (x * x + 243 * k * k) * 64);
    EXPECT_EQ(q.w, q.z - 32768 * 64);
    EXPECT_TRUE(Math::is_whole(q));
  }
}

TEST(Math, AnyOrderOfHitsGivesTheSameBits) {
  Geometry moved = Geometry::make();
  for (Point& p : moved.common) p = {p.x + 0.3f, p.y - 7.7f};
  for (const Geometry& g : {Geometry::make(), moved}) {
    std::mt19937 random(5);
    const Events events = random_events(g, 5);
    const std::vector<Rings> rings = batch_of(g, events);
    for (int again = 0; again < 4; ++again) {
      Events shuffled = events;
      for (std::uint32_t i = 0; i + 1 < events.first.size(); ++i)
        std::shuffle(shuffled.pm.begin() + events.first[i], shuffled.pm.begin() + events.first[i + 1],
                     random);
      const std::vector<Rings> other = batch_of(g, shuffled);
      for (std::uint32_t i = 0; i < rings.size(); ++i) expect_same(other[i], rings[i], i);
    }
  }
}

// The largest events: 128 times the same PM, and the PMs with the largest terms.
TEST(Math, SumsOf128HitsFitTheirTypes) {
  const Geometry g = Geometry::make();
  Events events;
  std::mt19937 random(8);
  for (PmId pm = 0; pm < pm_count; ++pm) {
    events.pm.insert(events.pm.end(), max_event_hits - 2, pm);
    for (int i = 0; i < 2; ++i) events.pm.push_back(static_cast<PmId>(random() % pm_count));
    events.first.push_back(static_cast<std::uint32_t>(events.pm.size()));
  }
  expect_batch_as_alone(g, events);
}

// The same on artificial planes of whole numbers at the bounds of is_whole().
TEST(Math, WholeNumbersAtTheirBounds) {
  Math math;
  std::vector<std::pair<std::int64_t, Point>> inside;
  std::size_t outside = 0;
  for (int x = -520; x <= 520; ++x) {
    for (int k = -33; k <= 33; ++k) {
      const Point p{static_cast<float>(x) + Math::origin_x, static_cast<float>(k) * row_mm};
      if (!Math::is_whole(math.position(p))) {
        ++outside;
        continue;
      }
      inside.push_back({-std::int64_t{x * x + 243 * k * k}, p});
    }
  }
  EXPECT_GT(outside, 20'000u);
  std::ranges::sort(inside, {}, [](const auto& entry) { return entry.first; });
  Geometry g = Geometry::make();
  for (std::size_t pm = 0; pm < pm_count; ++pm) g.common[pm] = inside[pm].second;
  ASSERT_TRUE(prepared(g).whole);
  Events events = random_events(g, 9);
  for (PmId pm = 0; pm < pm_count; pm += 3) {
    for (unsigned i = 0; i < max_event_hits; ++i)
      events.pm.push_back(static_cast<PmId>(i % 16 == 3 ? (pm + 7 * i) % pm_count : pm));
    events.first.push_back(static_cast<std::uint32_t>(events.pm.size()));
  }
  expect_batch_as_alone(g, events);
  g.common[5].x = 360.0f;  // 512 mm from the origin
  EXPECT_FALSE(prepared(g).whole);
}

TEST(Math, DetectorsOfOtherNumbersAndSizes) {
  for (const float factor : {0.37f, 1.0f, 3.0f, 16.0f, 512.0f}) {
    Geometry g = Geometry::make();
    for (Point& p : g.common) p = {(p.x + 152) * factor - 152 + 0.1f, p.y * factor};
    const Math math = prepared(g);
    EXPECT_FALSE(math.whole);
    EXPECT_EQ(math.scale > 0, factor > 3);
    expect_batch_as_alone(g, random_events(Geometry::make(), 10, 3));
    Events events = random_events(Geometry::make(), 11, 3);
    events.pm.insert(events.pm.end(), max_event_hits, PmId{1951});
    events.first.push_back(static_cast<std::uint32_t>(events.pm.size()));
    expect_batch_as_alone(g, events);
  }
  for (const float far : {2e6f, INFINITY, NAN}) {
    Geometry g = Geometry::make();
    g.common[1000].y = far;
    EXPECT_THROW(make_reconstructor("math", {}, g), std::invalid_argument);
  }
}

// Free points at PMs give the bits of the PMs, at any scale of the event.
TEST(Math, FreePoints) {
  Geometry moved = Geometry::make();
  for (Point& p : moved.common) p = {p.x * 4 + 0.3f, p.y * 4};
  for (const Geometry& g : {Geometry::make(), moved}) {
    const auto math = make_reconstructor("math", {{"min_hits", 3}, {"r_min", 0}, {"r_max", 1000}}, g);
    const Events events = random_events(g, 12);
    std::vector<float> x, y;
    for (const PmId pm : events.pm) {
      x.push_back(g.common[pm].x);
      y.push_back(g.common[pm].y);
    }
    const std::vector<Rings> of_pms = batch_of(g, events);
    std::vector<Rings> rings(of_pms.size());
    (*math)(PointBatch{events.batch().events, events.first.data(), x.data(), y.data()}, rings.data());
    for (std::uint32_t i = 0; i < rings.size(); ++i) expect_same(rings[i], of_pms[i], i);
  }
  // A circle far away and large; then points of no place.
  const auto math = make_reconstructor("math", {{"r_max", 1000}}, Geometry::make());
  for (const float far : {0.0f, 3e4f, 5e5f, 2e6f, 1e30f, INFINITY, NAN}) {
    std::vector<float> x, y;
    for (unsigned i = 0; i < 12; ++i) {
      x.push_back(900 * std::cos(0.5f * static_cast<float>(i)) + far);
      y.push_back(900 * std::sin(0.5f * static_cast<float>(i)));
    }
    const std::uint32_t first[] = {0, 12};
    Rings rings;
    (*math)(PointBatch{1, first, x.data(), y.data()}, &rings);
    if (far == 0.0f) {
      ASSERT_EQ(rings.count, 1);
      EXPECT_NEAR(rings.ring[0].r, 900, 2e-3);
    }
    if (rings.count) {
      EXPECT_TRUE(std::isfinite(rings.ring[0].x + rings.ring[0].chi2_ndf)) << far;
    }
    if (!(far < 1.1e6f)) {
      EXPECT_EQ(rings.count, 0) << far;
    }
  }
}

// Four adjacent hits: the circle is exact.
TEST(Math, ExactOnTheLattice) {
  const Geometry g = Geometry::make();
  const PmId pm[] = {200, 204, 296, 297};
  const Rings rings = Math{}({pm, 4}, g.common.data());
  ASSERT_EQ(rings.count, 1);
  EXPECT_EQ(rings.ring[0].x, -208.0f);
  EXPECT_FLOAT_EQ(rings.ring[0].y, 6 * row_mm);
  EXPECT_FLOAT_EQ(rings.ring[0].r, 6 * row_mm);
}

TEST(Math, NoRingWhereThereIsNone) {
  const Geometry g = Geometry::make();
  Math math;
  math.parameters = {3, 0.0f, 1e9f, {}};
  const auto count = [&](const std::vector<PmId>& pm) {
    return int{math({pm.data(), static_cast<std::uint32_t>(pm.size())}, g.common.data()).count};
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count({5}), 0);
  EXPECT_EQ(count({5, 600}), 0);
  EXPECT_EQ(count({5, 5, 5, 5, 5}), 0);           // all at one position
  EXPECT_EQ(count({5, 5, 900, 900, 900}), 0);     // at two positions
  EXPECT_EQ(count({0, 1, 2, 976, 977, 978}), 0);  // one line of PMs, on both disks
  std::vector<PmId> diagonal;                     // the supercells of a row lie on one line
  for (unsigned cell = 0; cell < 12; ++cell) diagonal.push_back(static_cast<PmId>(8 * cell));
  EXPECT_EQ(count(diagonal), 0);
  EXPECT_EQ(count({0, 1, 3}), 1);  // a triangle fixes a circle
}

TEST(Math, Limits) {
  const Geometry g = Geometry::make();
  std::mt19937 random(3);
  Events events;
  for (int i = 0; i < 500; ++i) events.add(draw(random, g, 2 + static_cast<unsigned>(i % 20), i % 3 != 0));
  const auto reconstructor = make_reconstructor("math", {{"min_hits", 6}, {"r_min", 120}, {"r_max", 170}}, g);
  const EventBatch all = events.batch();
  std::vector<Rings> rings(all.events);
  (*reconstructor)(all, rings.data());
  int found = 0;
  for (std::uint32_t i = 0; i < all.events; ++i) {
    if (!rings[i].count) continue;
    ++found;
    EXPECT_GE(all.view(i).hits, 6u);
    EXPECT_GE(rings[i].ring[0].r, 120);
    EXPECT_LE(rings[i].ring[0].r, 170);
  }
  EXPECT_GT(found, 50);
}

TEST(Algorithms, ErrorsNameKeyValueAndRemedy) {
  const Geometry g = Geometry::make();
  const auto text = [&](std::string_view name, const Parameters& parameters) -> std::string {
    try {
      make_reconstructor(name, parameters, g);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text("math", {}), "");
  std::string known;
  for (const std::string& name : algorithm_names()) known += ' ' + name;
  EXPECT_EQ(text("maths", {}), "algorithm: 'maths' is not known; choose one of:" + known);
  EXPECT_EQ(text("math", {{"hits", 3}}),
            "algorithm.math.hits = 3: no such parameter; choose one of: min_hits r_min r_max");
  EXPECT_EQ(text("math", {{"min_hits", 2}}), "algorithm.math.min_hits = 2: must be from 3 to 128");
  EXPECT_EQ(text("math", {{"r_min", NAN}}), "algorithm.math.r_min = nan: must be from 0 to 1000");
  EXPECT_EQ(text("math", {{"min_hits", 3.5}}), "algorithm.math.min_hits = 3.5: must be a whole number");
  EXPECT_EQ(text("tripl", {{"r_min", 90}, {"r_max", 90}}),
            "algorithm.tripl.r_min = 90: must be less than r_max");
}

}  // namespace
}  // namespace nanet::rich
