// SPDX-License-Identifier: Apache-2.0
// Tests of MULTIRING beyond those of every algorithm: several rings, noise, priors, symmetry.
#include "nanet/rich/multiring.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

const Geometry& geometry() {
  static const Geometry g = Geometry::make();
  return g;
}

std::vector<Rings> reconstruct(const TestEvents& events, const Parameters& parameters = {},
                               const Geometry& g = geometry()) {
  return events.reconstruct(*make_reconstructor("multiring", parameters, g));
}

// The same bits with one vector as with 32 lanes.
template <class L>
std::vector<float> fixed_sums(const std::vector<float>& terms) {
  FixedSum<L, 18> sum;
  FixedSum<L, 16> squares;
  typename L::I eight[8];
  for (auto& each : eight) each = typename L::I(0);
  for (std::size_t i = 0; i < terms.size(); i += L::count) {
    const auto term = L::load(terms.data() + i);
    sum.add(term);
    squares.add(term, term);
    for (int k = 0; k < 8; ++k) eight[k] = L::add(eight[k], L::bits(term) << k);
  }
  const auto n = static_cast<std::int32_t>(terms.size());
  std::vector<float> result{sum.total(n), squares.total(n)};
  std::int32_t sums[8];
  L::sum(eight, sums);
  for (const std::int32_t each : sums) result.push_back(std::bit_cast<float>(each));
  return result;
}

TEST(Multiring, SumsInFixedPointDependOnTheTermsAlone) {
  std::minstd_rand random(3);
  std::vector<float> terms(128);
  double sum = 0, squares = 0;
  for (float& term : terms) {
    term = std::uniform_real_distribution<float>(-7.5f, 7.5f)(random);
    sum += double{term};
    squares += double{term} * double{term};
  }
  const std::vector<float> expected = fixed_sums<HostLanes>(terms);
  EXPECT_NEAR(expected[0], sum, 128.0 / (1 << 19));
  EXPECT_NEAR(expected[1], squares, 128.0 / (1 << 17) + 1e-3);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(terms.begin(), terms.end(), random);
    for (const std::vector<float>& found : {fixed_sums<HostLanes>(terms), fixed_sums<HostLanes::Row>(terms)})
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  }
}

TEST(Multiring, LanesPackedAndUnpacked) {
  using L = HostLanes;
  std::minstd_rand random(4);
  for (int i = 0; i < 200; ++i) {
    const auto word = static_cast<std::uint32_t>(random()) ^ static_cast<std::uint32_t>(random() << 9);
    alignas(64) float packed[2 * lane_count] = {};
    L::M where(false);
    for (int lane = 0; lane < 32; ++lane)
      where = where | ((L::lane() == L::I(lane)) & L::M((word >> lane & 1) != 0));
    ASSERT_EQ(L::ballot(where), word);
    L::append(packed, L::to_float(L::lane()), where, word);
    const L::I rank = L::rank_of_set(word);
    const L::F back = L::gather(packed, rank & L::I(31), 32), far = L::gather(packed, rank & L::I(31), 33);
    int n = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if (!(word >> lane & 1)) continue;
      EXPECT_EQ(packed[n], static_cast<float>(lane));
      EXPECT_EQ(L::at(rank, lane), n);
      EXPECT_EQ(L::at(back, lane), static_cast<float>(lane));
      EXPECT_EQ(L::at(far, lane), static_cast<float>(lane));
      ++n;
    }
  }
}

// Lanes of one width: the bits of comparison and selection, of plain sums, of each lane's column.
template <class L>
void expect_bits_of_lanes() {
  std::minstd_rand random(5);
  const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 3e38f, -3e38f, 1e-38f};
  for (int i = 0; i < 200; ++i) {
    alignas(64) float a[L::count], b[L::count];
    for (float* const values : {a, b})
      for (int lane = 0; lane < L::count; ++lane)
        values[lane] = random() % 3 ? special[random() % std::size(special)]
                                    : std::uniform_real_distribution<float>(-9.0f, 9.0f)(random);
    const typename L::F x = L::load(a), y = L::load(b), least = L::min(x, y), most = L::max(x, y);
    for (int lane = 0; lane < L::count; ++lane) {
      const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
      ASSERT_EQ(bits(L::at(least, lane)), bits(a[lane] < b[lane] ? a[lane] : b[lane]));
      ASSERT_EQ(bits(L::at(most, lane)), bits(a[lane] > b[lane] ? a[lane] : b[lane]));
      ASSERT_EQ(bits(L::at(L::fma(x, x, y), lane)), bits(__builtin_fmaf(a[lane], a[lane], b[lane])));
      ASSERT_EQ(bits(L::at(L::root(L::abs(x)), lane)), bits(std::sqrt(std::fabs(a[lane]))));
    }
  }
}

TEST(Multiring, LanesOfEveryWidthRoundAlike) {
  expect_bits_of_lanes<VectorLanes<4>>();
  expect_bits_of_lanes<VectorLanes<16>>();
  expect_bits_of_lanes<HostLanes>();
  std::int32_t rows[4][8];
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 8; ++j) rows[k][j] = 10 * k + j;
  VectorLanes<4>::I columns[8];
  VectorLanes<4>::columns(rows, columns);
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 8; ++j) EXPECT_EQ(VectorLanes<4>::at(columns[j], k), 10 * k + j);
  const HostLanes::F all = HostLanes::to_float(HostLanes::lane());
  for (int half = 0; half < 2; ++half) {
    const auto part = HostLanes::part<HostLanes::Half>(all, half);
    for (int lane = 0; lane < 16; ++lane)
      EXPECT_EQ(HostLanes::Half::at(part, lane), static_cast<float>(16 * half + lane));
  }
}

// Adds the PMs nearest to points of a circle, alternating between the disks.
void add_ring(std::vector<PmId>& hits, double x, double y, double r, int points, double phase = 0) {
  for (int i = 0; i < points; ++i) {
    const double phi = phase + 2 * 3.14159265358979 * i / points;
    const unsigned disk = i % 2;
    unsigned best = 0;
    double least = 1e9;
    for (unsigned pm = disk * 976; pm < (disk + 1) * 976; ++pm) {
      const Point p = geometry().common[pm];
      const double d = std::hypot(double{p.x} - x - r * std::cos(phi), double{p.y} - y - r * std::sin(phi));
      if (d < least) {
        least = d;
        best = pm;
      }
    }
    if (least < 10.4) hits.push_back(static_cast<PmId>(best));
  }
}

Rings of(std::vector<PmId> hits, const Parameters& parameters = {}) {
  std::sort(hits.begin(), hits.end());
  hits.erase(std::unique(hits.begin(), hits.end()), hits.end());
  TestEvents events;
  events.add(hits);
  return reconstruct(events, parameters)[0];
}

bool has(const Rings& rings, double x, double y, double r) {
  for (unsigned k = 0; k < rings.count; ++k)
    if (std::hypot(double{rings.ring[k].x} - x, double{rings.ring[k].y} - y) < 6 &&
        std::fabs(double{rings.ring[k].r} - r) < 5)
      return true;
  return false;
}

// Seeds 1 - 99 served for tuning.
TEST(Multiring, Quality) {
  const TestEvents mix = TestEvents::generate(ring_mix, 1, test_rounds(20000), 4242);
  const std::vector<Rings> found = reconstruct(mix);
  EXPECT_GE(quality(mix, found, 1).efficiency, 0.975);
  EXPECT_GE(quality(mix, found, 2).efficiency, 0.945);
  EXPECT_GE(quality(mix, found, 3).efficiency, 0.895);
  EXPECT_GE(quality(mix, found, 4).efficiency, 0.83);
  EXPECT_LE(quality(mix, found, 1).fakes, 0.03);
  const TestEvents quiet = TestEvents::generate(0, 1, 10000, 4243),
                   noise = TestEvents::generate(0, 5, 10000, 4243);
  EXPECT_LE(quality(quiet, reconstruct(quiet), 0).fakes, 0.01);
  EXPECT_LE(quality(noise, reconstruct(noise), 0).fakes, 0.06);
}

// The true value of `noise` finds no fewer rings than the default, and with more noise fewer fakes.
TEST(Multiring, TrueNoiseIsNoWorseThanTheDefault) {
  for (const double noise : {0.0, 0.5, 2.0, 3.0, 5.0})
    for (const int rings : {1, 2, 3, ring_mix}) {
      if (reduced() && noise != 3.0) continue;
      const TestEvents events = TestEvents::generate(rings, noise, 5000, 4251);
      const int of = rings == ring_mix ? 1 : rings;
      const Quality usual = quality(events, reconstruct(events), of),
                    known = quality(events, reconstruct(events, {{"noise", noise}}), of);
      EXPECT_GE(known.efficiency, usual.efficiency - 0.004) << rings << " rings, noise " << noise;
      if (noise > 1) {
        EXPECT_LE(known.fakes, usual.fakes + 0.004) << rings << " rings, noise " << noise;
      }
      // Wrong rings per event, missed or found in excess.
      const double wrong = of * (1 - known.efficiency) + known.fakes,
                   before = of * (1 - usual.efficiency) + usual.fakes;
      EXPECT_LE(wrong, before + 0.008) << rings << " rings, noise " << noise;
      if (noise == 0) {
        EXPECT_LT(wrong, before - 0.004 * (of - 1)) << rings << " rings without noise";
      }
      if (rings == 1 && noise == 5.0) {
        EXPECT_GE(known.efficiency, 0.94);
      }
    }
}

// Without noise the photons beyond a ring's profile would make rings.
TEST(Multiring, HardlyAnyNoiseCountsAsAQuarterOfAHit) {
  const TestEvents events = TestEvents::generate(ring_mix, 0, 2000, 4252);
  const std::vector<Rings> none = reconstruct(events, {{"noise", 0}}),
                           quarter = reconstruct(events, {{"noise", 0.25}}),
                           more = reconstruct(events, {{"noise", 0.3}});
  int changed = 0;
  for (std::size_t i = 0; i < none.size(); ++i) {
    EXPECT_TRUE(same_bits(none[i], quarter[i])) << i;
    changed += !same_bits(more[i], quarter[i]);
  }
  EXPECT_GT(changed, 100);
}

TEST(Multiring, RingsThatConcentricOverlapOrTouch) {
  std::vector<PmId> hits;
  add_ring(hits, -150, 0, 188, 14);
  add_ring(hits, -150, 0, 120, 10, 0.2);
  Rings rings = of(hits);
  EXPECT_EQ(rings.count, 2);
  EXPECT_TRUE(has(rings, -150, 0, 188) && has(rings, -150, 0, 120));

  hits.clear();
  add_ring(hits, -170, 15, 180, 15);
  add_ring(hits, -130, -15, 180, 15, 0.2);
  rings = of(hits);
  EXPECT_EQ(rings.count, 2) << "not one ring within another";
  EXPECT_TRUE(has(rings, -170, 15, 180) && has(rings, -130, -15, 180));

  hits.clear();
  add_ring(hits, -240, 0, 90, 9);
  add_ring(hits, -60, 0, 90, 9, 0.3);
  rings = of(hits);
  EXPECT_EQ(rings.count, 2);
  EXPECT_TRUE(has(rings, -240, 0, 90) && has(rings, -60, 0, 90));
}

TEST(Multiring, FourRings) {
  std::vector<PmId> hits;
  add_ring(hits, -190, 50, 187, 14);
  add_ring(hits, -110, -30, 170, 13, 0.1);
  add_ring(hits, -150, -90, 150, 12, 0.3);
  add_ring(hits, -60, 70, 120, 10, 0.2);
  const Rings rings = of(hits);
  EXPECT_EQ(rings.count, 4);
  EXPECT_TRUE(has(rings, -190, 50, 187) && has(rings, -110, -30, 170) && has(rings, -150, -90, 150) &&
              has(rings, -60, 70, 120));
}

TEST(Multiring, RadiusNeverAboveItsLimit) {
  std::vector<PmId> hits;
  add_ring(hits, -150, 0, 196, 16);
  const Rings rings = of(hits);
  ASSERT_GE(rings.count, 1);
  EXPECT_LE(rings.ring[0].r, 190.7f);
  EXPECT_TRUE(has(of(hits, {{"r_max", 205}}), -150, 0, 196));
}

TEST(Multiring, CostsDecideTheNumberOfRings) {
  const TestEvents mix = TestEvents::generate(ring_mix, 1, 1000, 5);
  const auto rings_of = [](const TestEvents& events, const Parameters& parameters) {
    int n = 0;
    for (const Rings& rings : reconstruct(events, parameters)) n += rings.count;
    return n;
  };
  const auto count = [&](const Parameters& parameters) { return rings_of(mix, parameters); };
  const int usual = count({});
  EXPECT_LT(count({{"ring_cost", 20}}), usual);
  EXPECT_LT(count({{"first_cost", 30}}), usual);
  EXPECT_GT(count({{"ring_cost", 5}}), usual);
  EXPECT_LE(count({{"ring_cost", 50}, {"first_cost", 20}}), 1000);
  const TestEvents noise = TestEvents::generate(0, 5, 2000, 5);
  EXPECT_LT(rings_of(noise, {{"noise", 5}}), rings_of(noise, {}));
}

TEST(Multiring, AmbiguousWhereTheNumberOfRingsIsACloseCall) {
  const TestEvents mix = TestEvents::generate(ring_mix, 1, 5000, 6);
  const std::vector<Rings> usual = reconstruct(mix), never = reconstruct(mix, {{"ambiguity_margin", 0}}),
                           often = reconstruct(mix, {{"ambiguity_margin", 5}});
  int flagged = 0, wrong_flagged = 0, wrong = 0, many = 0;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    const auto& truth = mix.truth[i];
    const auto rings =
        std::count_if(truth.begin(), truth.end(), [](const TrueRing& t) { return t.hits >= 4; });
    flagged += usual[i].ambiguous;
    wrong += usual[i].count != rings;
    wrong_flagged += usual[i].count != rings && usual[i].ambiguous;
    many += often[i].ambiguous;
    EXPECT_LE(usual[i].ambiguous, often[i].ambiguous);
  }
  EXPECT_GT(flagged, 0);
  EXPECT_LT(flagged, 500);
  EXPECT_GT(many, flagged);
  // Flagged events are wrong far more often than others.
  EXPECT_GT(wrong_flagged * (5000 - flagged), 3 * (wrong - wrong_flagged) * flagged);
  EXPECT_LT(std::count_if(never.begin(), never.end(), [](const Rings& r) { return r.ambiguous; }), flagged);
}

// The priors are symmetric in y and shift with centre_x.
TEST(Multiring, MirroredAndMoved) {
  const TestEvents events = TestEvents::generate(ring_mix, 1, 3000, 7);
  const std::vector<Rings> here = reconstruct(events);
  Geometry mirrored = geometry(), moved = geometry();
  for (Point& p : mirrored.common) p.y = -p.y;
  for (Point& p : moved.common) p.x += 256.0f;
  const std::vector<Rings> up = reconstruct(events, {}, mirrored);
  const std::vector<Rings> there = reconstruct(events, {{"centre_x", 104}}, moved);
  int same_up = 0, same_there = 0;
  const auto equal = [](const Rings& a, const Rings& b, float dx, float sign) {
    if (a.count != b.count) return false;
    for (unsigned k = 0; k < a.count; ++k)
      if (std::fabs(a.ring[k].x + dx - b.ring[k].x) > 0.5f ||
          std::fabs(sign * a.ring[k].y - b.ring[k].y) > 0.5f || std::fabs(a.ring[k].r - b.ring[k].r) > 0.5f)
        return false;
    return true;
  };
  for (std::size_t i = 0; i < here.size(); ++i) {
    same_up += equal(here[i], up[i], 0, -1);
    same_there += equal(here[i], there[i], 256, 1);
  }
  EXPECT_GE(same_up, 2850) << "the same but for which seeds are tried first";
  EXPECT_GE(same_there, 2990);
}

// A ring may be dropped at the end because of noise or too few hits. Its value from the search no longer
// applies.
TEST(Multiring, AmbiguousWithinTheMarginOnly) {
  for (const int rings : {0, ring_mix}) {
    const TestEvents events = TestEvents::generate(rings, 5, 3000, 9);
    for (const Rings& found : reconstruct(events, {{"ambiguity_margin", 0}})) EXPECT_FALSE(found.ambiguous);
    const std::vector<Rings> usual = reconstruct(events),
                             wide = reconstruct(events, {{"ambiguity_margin", 50}});
    const auto ambiguous = [](const std::vector<Rings>& all) {
      return std::count_if(all.begin(), all.end(), [](const Rings& r) { return r.ambiguous; });
    };
    EXPECT_GT(ambiguous(usual), 20);
    EXPECT_LT(ambiguous(usual), 600);
    EXPECT_GT(ambiguous(wide), ambiguous(usual));
  }
}

TEST(Multiring, AnyBreadth) {
  const TestEvents mix = TestEvents::generate(ring_mix, 1, 3000, 10);
  std::vector<int> rings;
  for (const int breadth : {1, 2, 3, 4}) {
    const std::vector<Rings> found = reconstruct(mix, {{"breadth", breadth}});
    rings.push_back(0);
    for (const Rings& r : found) rings.back() += r.count;
  }
  for (const int of : rings) EXPECT_NEAR(of, rings[2], 0.03 * rings[2]);
  EXPECT_NE(rings[0], rings[2]) << "one way only finds other rings now and then";
}

struct FirstSteps : MultiringEvent<HostLanes> {
  using MultiringEvent::MultiringEvent;
  using MultiringEvent::one_clean_ring;
};

// begin() does not try events with more hits than any ring and its strays can have.
TEST(Multiring, EventsWithoutATrialHoldNoCleanRing) {
  const TestEvents mix = TestEvents::generate(ring_mix, 1, 2000, 12);
  const auto scratch = std::make_unique<Multiring::Scratch>();
  std::vector<Point> plane(2048);
  std::copy(geometry().common.begin(), geometry().common.end(), plane.begin());
  int clean = 0;
  for (const float yield : {4.0f, 8.0f, 13.9f}) {
    MultiringParameters parameters;
    parameters.yield = yield;
    for (std::size_t i = 0; i + 1 < mix.first.size(); ++i) {
      const EventView event{mix.pm.data() + mix.first[i], mix.first[i + 1] - mix.first[i]};
      if (event.hits < parameters.min_hits) continue;
      FirstSteps steps(parameters, event, plane.data(), *scratch, scratch->board);
      const bool settled = steps.one_clean_ring();
      clean += settled;
      FirstSteps whole(parameters, event, plane.data(), *scratch, scratch->board);
      EXPECT_EQ(whole.begin(), !settled) << i;
    }
  }
  EXPECT_GT(clean, 100);
}

// The order of the hits determines the first triplets, but hardly the result.
TEST(Multiring, EventsWithMoreHitsThanARingHasAreSearched) {
  const Geometry geometry = Geometry::make();
  std::vector<Point> plane(geometry.common.begin(), geometry.common.end());
  EXPECT_EQ(hits_beyond_one_ring(Multiring::Parameters{}), 21u);
  Multiring::Parameters all[4];
  all[1].yield = 5.0f;
  all[2].min_hits = 40;
  all[3].yield = 90.0f;
  const auto scratch = std::make_unique<Multiring::Scratch>();
  for (const auto& parameters : all) {
    const std::uint32_t from = hits_beyond_one_ring(parameters);
    std::vector<PmId> pm;
    for (std::uint32_t hits = 1; hits <= max_event_hits + 2; ++hits) {
      pm.push_back(static_cast<PmId>(hits * 7));
      MultiringEvent<HostLanes> event(parameters, {pm.data(), hits}, plane.data(), *scratch, scratch->board);
      if (event.begin() || hits < from) continue;
      ADD_FAILURE() << hits << " of " << from;
    }
  }
}

TEST(Multiring, OrderOfHitsHardlyMatters) {
  const TestEvents events = TestEvents::generate(ring_mix, 1, 2000, 8);
  TestEvents shuffled;
  std::minstd_rand random(1);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    std::vector<PmId> hits(events.pm.begin() + events.first[i], events.pm.begin() + events.first[i + 1]);
    std::shuffle(hits.begin(), hits.end(), random);
    shuffled.add(hits);
  }
  const std::vector<Rings> one = reconstruct(events), other = reconstruct(shuffled);
  int same = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    bool equal = one[i].count == other[i].count;
    for (unsigned k = 0; equal && k < one[i].count; ++k)
      equal = has(other[i], one[i].ring[k].x, one[i].ring[k].y, one[i].ring[k].r);
    same += equal;
  }
  EXPECT_GE(same, 1880);
}

}  // namespace
}  // namespace nanet::rich
