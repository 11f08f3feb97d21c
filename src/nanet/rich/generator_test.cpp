// SPDX-License-Identifier: Apache-2.0
// Tests of the toy Monte Carlo: check values of the physics, published means, reproducibility by seed.
#include "nanet/rich/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "nanet/rich/pm_finder.hpp"
#include "nanet/rich/random.hpp"

namespace nanet::rich {
namespace {

TEST(Generator, RadiiAndThresholds) {
  const double momenta[] = {15, 20, 25, 30, 35, 50};
  const double muon[] = {148.4, 168.2, 176.7, 181.1, 183.7, 187.3};
  const double pion[] = {106.3, 149.3, 165.4, 173.5, 178.3, 184.7};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(ring_radius_mm(Particle::muon, momenta[i]), muon[i], 0.06);
    EXPECT_NEAR(ring_radius_mm(Particle::pion, momenta[i]), pion[i], 0.06);
  }
  EXPECT_NEAR(ring_radius_mm(Particle::electron, 60), 190.7, 0.06);
  EXPECT_NEAR(mean_photoelectrons(190.7), 13.9, 0.05);
  EXPECT_EQ(ring_radius_mm(Particle::muon, 9.42), 0);
  EXPECT_GT(ring_radius_mm(Particle::muon, 9.44), 0);
  EXPECT_EQ(ring_radius_mm(Particle::pion, 12.44), 0);
  EXPECT_GT(ring_radius_mm(Particle::pion, 12.46), 0);
  EXPECT_EQ(ring_radius_mm(Particle::kaon, 43.9), 0);
  EXPECT_GT(ring_radius_mm(Particle::kaon, 44.1), 0);
}

TEST(PmFinder, NearestWithinReach) {
  const Geometry g = Geometry::make();
  const PmFinder finder(g);
  Random random(2);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(random.uniform(-330, 330)),
               y = static_cast<float>(random.uniform(-330, 330));
    float nearest = 1e9f;
    for (int pm = 0; pm < pm_count / 2; ++pm)
      nearest = std::min(nearest, std::hypot(g.disk[pm].x - x, g.disk[pm].y - y));
    const int pm = finder.find(x, y);
    if (pm == no_pm) {
      EXPECT_GE(nearest, PmFinder::reach_mm - 1e-4f) << x << ' ' << y;
    } else {
      EXPECT_NEAR(std::hypot(g.disk[pm].x - x, g.disk[pm].y - y), nearest, 0.02) << x << ' ' << y;
      EXPECT_LE(nearest, PmFinder::reach_mm + 1e-4f);
    }
  }
  for (int pm = 0; pm < pm_count / 2; ++pm) EXPECT_EQ(finder.find(g.disk[pm].x + 3, g.disk[pm].y - 3), pm);
  EXPECT_EQ(finder.find(NAN, 0), no_pm);
}

TEST(NearestPm, AgreesWithTheLattice) {
  const Geometry g = Geometry::make();
  const PmFinder lattice(g);
  const NearestPm nearest(g);
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(random.uniform(-350, 350)),
               y = static_cast<float>(random.uniform(-350, 350));
    const int pm = lattice.find(x, y), other = nearest.find(0, x, y), second = nearest.find(1, x, y);
    EXPECT_EQ(second, other == no_pm ? no_pm : other + pm_count / 2);
    if (pm == other) continue;  // else close to a midpoint or to the reach: the lattice is rounded
    const auto distance = [&](int n) {
      return n == no_pm ? PmFinder::reach_mm : std::hypot(g.disk[n].x - x, g.disk[n].y - y);
    };
    EXPECT_NEAR(distance(pm), distance(other), 0.02) << x << ' ' << y;
  }
  EXPECT_EQ(nearest.find(0, NAN, 0), no_pm);
  EXPECT_EQ(nearest.find(0, 1e30f, 0), no_pm);
}

// Every PM of a detector gets photons, on its board's clock, with disks in equal shares.
TEST(Generator, AnyDetector) {
  Geometry g;
  g.shift = {{10, 0}, {-10, 0}, {0, 0}};
  g.first_of_board = {0, 1000, 3000};
  g.disk_of.clear();
  for (unsigned pm = 0; pm < 3000; ++pm) {
    const unsigned column = pm % 1000 % 40, row = pm % 1000 / 40;
    const Point at{static_cast<float>(column) * 12 - 240, static_cast<float>(row) * 12 - 144};
    const Point shift = g.shift[pm / 1000];
    g.disk.push_back(at);
    g.common.push_back({at.x - shift.x, at.y - shift.y});
    g.disk_of.push_back(static_cast<std::uint8_t>(pm / 1000));
  }
  g.monte_carlo.centre_x = 0;
  g.monte_carlo.particle_shares = {0, 0, 0, 1};
  g.monte_carlo.momentum_low = 50;
  g.monte_carlo.momentum_high = 70;
  Generator generator({.noise = 0}, g);
  TrueEvent event;
  std::vector<unsigned> of_disk(3);
  for (int i = 0; i < 20000; ++i) {
    generator.next(event);
    for (const TrueRing& ring : event.rings) EXPECT_EQ(ring.particle, Particle::kaon);
    for (const TrueHit& hit : event.hits) {
      ASSERT_LT(hit.pm, 3000);
      ASSERT_LT(hit.owner, event.rings.size());
      const TrueRing& ring = event.rings[hit.owner];
      const Point& p = g.common[hit.pm];
      EXPECT_LT(std::fabs(std::hypot(p.x - ring.x, p.y - ring.y) - ring.r), 17);
      ++of_disk[hit.pm / 1000];
    }
  }
  for (const unsigned hits : of_disk) EXPECT_NEAR(hits, of_disk[0], 0.02 * of_disk[0]);
}

TEST(Generator, TheMix) {
  Generator generator({}, Geometry::make());
  TrueEvent event;
  constexpr int n = 40000;
  double hits = 0, ring_hits = 0, rings = 0, last = 0, residual = 0, residual2 = 0, owned = 0, muons = 0,
         pions = 0;
  int with[5] = {}, noise = 0;
  const Geometry g = Geometry::make();
  for (int i = 0; i < n; ++i) {
    generator.next(event);
    EXPECT_EQ(event.number, static_cast<std::uint64_t>(i));
    EXPECT_GT(event.time_ns, last);
    last = event.time_ns;
    hits += event.distinct_hits;
    ASSERT_LE(event.rings.size(), 4u);
    ++with[event.rings.size()];
    unsigned counted[256] = {}, distinct = 0;
    int before = -1, before_owner = -1;
    for (const TrueHit& hit : event.hits) {
      ASSERT_TRUE(hit.pm > before || (hit.pm == before && hit.owner > before_owner));
      distinct += hit.pm != before;
      before = hit.pm;
      before_owner = hit.owner;
      ++counted[hit.owner];
      EXPECT_LT(std::fabs(hit.time_ns - event.time_ns), 1.0 + 0.3 * 7);
      if (hit.owner == noise_owner) continue;
      const TrueRing& ring = event.rings[hit.owner];
      const float d = std::hypot(g.common[hit.pm].x - ring.x, g.common[hit.pm].y - ring.y) - ring.r;
      residual += static_cast<double>(d);
      residual2 += static_cast<double>(d) * static_cast<double>(d);
      ++owned;
    }
    EXPECT_EQ(distinct, event.distinct_hits);
    noise += static_cast<int>(counted[noise_owner]);
    for (std::size_t r = 0; r < event.rings.size(); ++r) {
      EXPECT_EQ(counted[r], event.rings[r].hits);
      EXPECT_LE(event.rings[r].r, 190.75f);
      ring_hits += event.rings[r].hits;
      ++rings;
      muons += event.rings[r].particle == Particle::muon;
      pions += event.rings[r].particle == Particle::pion;
    }
  }
  EXPECT_NEAR(hits / n, 19.7, 0.3);
  EXPECT_NEAR(ring_hits / rings, 10.8, 0.15);
  EXPECT_NEAR(last / n, 100.0, 2.0);  // ns between events at 10 MHz
  EXPECT_NEAR(noise / double{n}, 1.0, 0.02);
  EXPECT_NEAR(muons / rings, 0.55, 0.01);
  EXPECT_NEAR(pions / rings, 0.35, 0.01);
  const double share[] = {0.05, 0.45, 0.27, 0.18, 0.05};
  for (int k = 0; k < 5; ++k) EXPECT_NEAR(with[k] / double{n}, share[k], 0.01);
  // Spread of hits around the ring: 4.85 mm, from PM size and optics.
  EXPECT_NEAR(residual / owned, 0, 0.2);
  EXPECT_NEAR(std::sqrt(residual2 / owned), 4.85, 0.1);
}

TEST(Generator, OptionsAreKept) {
  GeneratorOptions options;
  options.rings = 2;
  options.noise = 0;
  options.rate = 1e6;
  Generator generator(options, Geometry::make());
  TrueEvent event;
  for (int i = 0; i < 2000; ++i) {
    generator.next(event);
    ASSERT_EQ(event.rings.size(), 2u);
    for (const TrueHit& hit : event.hits) ASSERT_LT(hit.owner, 2);
  }
  EXPECT_NEAR(event.time_ns / 2000, 1000, 80);
}

TEST(Generator, SeedFixesEverything) {
  GeneratorOptions other;
  other.seed = 2;
  const Geometry g = Geometry::make();
  Generator a({}, g), b({}, g), c(other, g);
  TrueEvent x, y, z;
  int differ = 0;
  for (int i = 0; i < 1000; ++i) {
    a.next(x);
    b.next(y);
    c.next(z);
    ASSERT_EQ(x.time_ns, y.time_ns);
    ASSERT_EQ(x.hits.size(), y.hits.size());
    for (std::size_t k = 0; k < x.hits.size(); ++k) {
      ASSERT_EQ(x.hits[k].pm, y.hits[k].pm);
      ASSERT_EQ(x.hits[k].time_ns, y.hits[k].time_ns);
    }
    differ += x.time_ns != z.time_ns;
  }
  EXPECT_EQ(differ, 1000);
}

// Same bits on all machines, compilers and optimisation levels: FNV-1a over 3000 events.
TEST(Generator, Pinned) {
  GeneratorOptions options;
  options.seed = 7;
  Generator generator(options, Geometry::make());
  TrueEvent event;
  std::uint64_t hash = 1469598103934665603ull;
  const auto mix = [&](const auto& value) {
    unsigned char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ull;
  };
  for (int i = 0; i < 3000; ++i) {
    generator.next(event);
    mix(event.time_ns);
    for (const TrueRing& ring : event.rings) {
      mix(ring.x);
      mix(ring.y);
      mix(ring.r);
    }
    for (const TrueHit& hit : event.hits) {
      mix(hit.pm);
      mix(hit.owner);
      mix(hit.time_ns);
    }
  }
  EXPECT_EQ(hash, 0xfda8be49cbeba46aull);
}

}  // namespace
}  // namespace nanet::rich
