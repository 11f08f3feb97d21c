// SPDX-License-Identifier: Apache-2.0
// Tests of every algorithm in algorithms.list: same bits in any batch, finite results within the limits, no
// ring from too few hits. Also invariance under translation and rotation.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

class EveryAlgorithm : public testing::TestWithParam<std::string> {
 protected:
  const Geometry geometry = Geometry::make();
  std::unique_ptr<Reconstructor> make(const Parameters& parameters = {}) const {
    return make_reconstructor(GetParam(), parameters, geometry);
  }
  int rings(const std::vector<PmId>& hits, const Parameters& parameters = {}) const {
    TestEvents events;
    events.add(hits);
    return int{events.reconstruct(*make(parameters))[0].count};
  }
};

// Random hits in random order, with duplicates.
TestEvents nonsense(int events, unsigned seed) {
  std::minstd_rand random(seed);
  TestEvents out;
  for (int i = 0; i < events; ++i) {
    const int hits = i < 140 ? i : static_cast<int>(random() % 140);
    const unsigned among = i % 3 == 0 ? 40 : pm_count;  // a corner of the plane, or the whole plane
    std::vector<PmId> pm;
    for (int k = 0; k < hits; ++k) pm.push_back(static_cast<PmId>(random() % among));
    if (i % 2) std::sort(pm.begin(), pm.end());
    out.add(pm);
  }
  return out;
}

TEST_P(EveryAlgorithm, GivesTheSameBitsInAnyBatch) {
  TestEvents events = TestEvents::generate(ring_mix, 2, test_rounds(400), 21);
  const TestEvents more = nonsense(test_rounds(200), 5);
  for (std::uint32_t i = 0; i + 1 < more.first.size(); ++i)
    events.add({more.pm.begin() + more.first[i], more.pm.begin() + more.first[i + 1]});
  const auto reconstructor = make();
  const std::vector<Rings> all = events.reconstruct(*reconstructor);
  const auto copy = reconstructor->clone();
  EXPECT_EQ(copy->name(), GetParam());
  for (std::uint32_t i = static_cast<std::uint32_t>(all.size()); i-- > 0;) {
    Rings alone;
    alone.count = 99;
    (*copy)({1, events.first.data() + i, events.pm.data()}, &alone);
    EXPECT_TRUE(same_bits(all[i], alone)) << i;
  }
}

TEST_P(EveryAlgorithm, IsFiniteAndWithinItsLimits) {
  const int many = test_rounds(1500);
  const TestEvents noise = nonsense(many, 1), mix = TestEvents::generate(ring_mix, 3, many, 4);
  const Parameters wide{{"min_hits", 3}, {"r_min", 5}, {"r_max", 1000}};
  const Parameters tight{{"min_hits", 6}, {"r_min", 120}, {"r_max", 170}};
  for (const Parameters& limits : {wide, Parameters{{"min_hits", 4}, {"r_min", 50}, {"r_max", 201}}, tight}) {
    const auto reconstructor = make(limits);
    int found = 0;
    for (const TestEvents* events : {&noise, &mix}) {
      const std::vector<Rings> rings = events->reconstruct(*reconstructor);
      for (std::size_t i = 0; i < rings.size(); ++i) {
        ASSERT_LE(rings[i].count, max_rings);
        for (unsigned k = 0; k < rings[i].count; ++k) {
          const Ring& ring = rings[i].ring[k];
          ++found;
          const std::uint32_t hits = events->first[i + 1] - events->first[i];
          ASSERT_TRUE(std::isfinite(ring.x + ring.y + ring.r + ring.chi2_ndf)) << "event " << i;
          ASSERT_GE(ring.chi2_ndf, 0) << "event " << i;
          ASSERT_GE(ring.r, limits.at("r_min")) << "event " << i;
          ASSERT_LE(ring.r, limits.at("r_max")) << "event " << i;
          ASSERT_GE(unsigned{ring.hits}, limits.at("min_hits")) << "event " << i;
          ASSERT_LE(unsigned{ring.hits}, std::min(hits, max_event_hits))
              << "event " << i << " of " << hits << " hits";
          if (k) {
            const Ring& before = rings[i].ring[k - 1];
            ASSERT_TRUE(before.hits > ring.hits || (before.hits == ring.hits && before.r >= ring.r))
                << "event " << i;
          }
        }
      }
    }
    EXPECT_GT(found, test_rounds(algorithm_traits(GetParam()).rejects_noise ? 200 : 100));
  }
}

TEST_P(EveryAlgorithm, NoRingWhereThereIsNone) {
  const Parameters wide{{"min_hits", 3}, {"r_min", 50}, {"r_max", 1000}};
  EXPECT_EQ(rings({}, wide), 0);
  EXPECT_EQ(rings({5}, wide), 0);
  EXPECT_EQ(rings({5, 600}, wide), 0);
  EXPECT_EQ(rings({100, 700, 1500}), 0) << "three hits always make a circle; the default minimum is four";
  if (!algorithm_traits(GetParam()).is_fit) return;
  EXPECT_EQ(rings(std::vector<PmId>(128, 5), wide), 0);  // all at one position
  EXPECT_EQ(rings({5, 5, 900, 900, 900}, wide), 0);      // at two positions
  if (!algorithm_traits(GetParam()).assumes_centre) {    // their likelihood prefers a short arc to noise
    EXPECT_EQ(rings({0, 1, 2, 976, 977, 978}), 0);       // one line of PMs, on both disks
  }
  EXPECT_EQ(rings({0, 3, 5, 6, 1, 2, 4, 7}), 0);  // one supercell
}

// An exact circle up to rounding, in an artificial plane.
TEST_P(EveryAlgorithm, IdealCircle) {
  if (!algorithm_traits(GetParam()).is_fit) GTEST_SKIP() << "is not a circle fit";
  for (const auto& [x, y, r] :
       {std::array{-150.0, 12.0, 175.0}, {-120.0, -80.0, 96.0}, {-200.0, 30.0, 188.0}}) {
    Geometry g = geometry;
    TestEvents events;
    std::vector<PmId> hits;
    for (unsigned i = 0; i < 14; ++i) {
      const double phi = 2 * 3.14159265358979 * i / 14 + 0.1 * (i % 3);
      g.common[70 * i] = {static_cast<float>(x + r * std::cos(phi)),
                          static_cast<float>(y + r * std::sin(phi))};
      hits.push_back(static_cast<PmId>(70 * i));
    }
    events.add(hits);
    const Rings rings = events.reconstruct(*make_reconstructor(GetParam(), {}, g))[0];
    ASSERT_EQ(rings.count, 1) << r;
    EXPECT_NEAR(rings.ring[0].x, x, 2e-2);
    EXPECT_NEAR(rings.ring[0].y, y, 2e-2);
    EXPECT_NEAR(rings.ring[0].r, r, 2e-2);
    EXPECT_NEAR(rings.ring[0].chi2_ndf, 0, 1e-4);
    EXPECT_EQ(rings.ring[0].hits, 14);
    EXPECT_FALSE(rings.ambiguous);
  }
}

// The plane is translated and rotated by 90 degrees; the rings follow. Not bit-identical: rounding differs,
// and near ties may be decided differently.
TEST_P(EveryAlgorithm, IsInvariantUnderTranslation) {
  if (algorithm_traits(GetParam()).assumes_centre)
    GTEST_SKIP() << "has a prior on ring centres; see the symmetries in its own test";
  const TestEvents events = TestEvents::generate(1, 1, test_rounds(1500), 33);
  Geometry moved = geometry;
  for (Point& p : moved.common) p = {-p.y + 140.0f, p.x - 60.0f};
  const std::vector<Rings> here = events.reconstruct(*make());
  const std::vector<Rings> there = events.reconstruct(*make_reconstructor(GetParam(), {}, moved));
  int with_ring = 0, same = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!here[i].count) continue;
    ++with_ring;
    const Ring &a = here[i].ring[0], &b = there[i].ring[0];
    same += there[i].count && std::fabs(-a.y + 140 - b.x) < 0.3 && std::fabs(a.x - 60 - b.y) < 0.3 &&
            std::fabs(a.r - b.r) < 0.3 && a.hits == b.hits;
  }
  EXPECT_GT(with_ring, test_rounds(1000));
  EXPECT_GE(same, 0.97 * with_ring);
}

INSTANTIATE_TEST_SUITE_P(List, EveryAlgorithm, testing::ValuesIn(algorithm_names()),
                         [](const auto& of) { return of.param; });

// Single-ring algorithms that reject noise: hits and chi2_ndf cover only the hits near the ring.
class RobustAlgorithm : public testing::TestWithParam<std::string> {};

TEST_P(RobustAlgorithm, CountsTheHitsNearTheRing) {
  const Geometry g = Geometry::make();
  const TestEvents events = TestEvents::generate(1, 2, test_rounds(1000), 12);
  const double cut = 11;
  const auto rings = events.reconstruct(*make_reconstructor(GetParam(), {{"cut", cut}}, g));
  const auto never =
      events.reconstruct(*make_reconstructor(GetParam(), {{"cut", cut}, {"ambiguity_margin", 0}}, g));
  int ambiguous = 0;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    if (!rings[i].count) continue;
    const Ring& ring = rings[i].ring[0];
    int hits = 0;
    double squares = 0;
    bool close_call = false;  // float and double may disagree on a hit at the cut
    for (std::uint32_t k = events.first[i]; k < events.first[i + 1]; ++k) {
      const Point p = g.common[events.pm[k]];
      const double off = std::hypot(double{p.x} - ring.x, double{p.y} - ring.y) - ring.r;
      close_call |= std::fabs(std::fabs(off) - cut) < 1e-3;
      if (std::fabs(off) >= cut) continue;
      ++hits;
      squares += off * off;
    }
    if (close_call) continue;
    EXPECT_EQ(ring.hits, hits);
    EXPECT_NEAR(ring.chi2_ndf, hits > 3 ? squares / (4.85 * 4.85) / (hits - 3) : 0, 1e-3);
    EXPECT_EQ(rings[i].ambiguous, hits == 4);
    EXPECT_FALSE(never[i].ambiguous);
    ambiguous += rings[i].ambiguous;
  }
  EXPECT_GT(ambiguous, test_rounds(4) - 1);
}

// Noise does not displace the ring, unlike with MATH.
TEST_P(RobustAlgorithm, NoiseDoesNotShiftTheRing) {
  const Geometry g = Geometry::make();
  const auto reconstructor = make_reconstructor(GetParam(), {}, g), math = make_reconstructor("math", {}, g);
  const int many = test_rounds(4000);
  const TestEvents clean = TestEvents::generate(1, 0, many, 71), noisy = TestEvents::generate(1, 2, many, 72);
  const double spread = reduced() ? 0.015 : 0;  // three standard deviations with a quarter of the events
  EXPECT_GE(quality(clean, clean.reconstruct(*reconstructor), 1).efficiency, 0.98 - spread);
  EXPECT_GE(quality(noisy, noisy.reconstruct(*reconstructor), 1).efficiency, 0.96 - spread);
  EXPECT_LE(quality(noisy, noisy.reconstruct(*math), 1).efficiency, 0.55);
}

std::vector<std::string> robust_names() {
  std::vector<std::string> names = algorithm_names();
  std::erase_if(names, [](const std::string& name) {
    const AlgorithmTraits traits = algorithm_traits(name);
    return !traits.rejects_noise || traits.most_rings > 1;
  });
  return names;
}
INSTANTIATE_TEST_SUITE_P(List, RobustAlgorithm, testing::ValuesIn(robust_names()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace nanet::rich
