// SPDX-License-Identifier: Apache-2.0
// Tests of POMH: same bits as DOMH for any hits.
#include "nanet/rich/pomh.hpp"

#include <gtest/gtest.h>

#include <random>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

void expect_same(const TestEvents& events, const Parameters& parameters) {
  const Geometry g = Geometry::make();
  const auto pomh = events.reconstruct(*make_reconstructor("pomh", parameters, g));
  const auto domh = events.reconstruct(*make_reconstructor("domh", parameters, g));
  int found = 0;
  for (std::size_t i = 0; i < pomh.size(); ++i) {
    EXPECT_TRUE(same_bits(pomh[i], domh[i])) << i;
    found += pomh[i].count;
  }
  EXPECT_GT(found, 20);
}

TEST(Pomh, SameAsDomhOnGeneratedEvents) {
  expect_same(TestEvents::generate(ring_mix, 1, test_rounds(1000), 3), {});
  expect_same(TestEvents::generate(4, 5, test_rounds(200), 4), {{"r_min", 80}, {"r_max", 195}, {"cut", 10}});
}

TEST(Pomh, SameAsDomhOnAnyHits) {
  std::minstd_rand random(17);
  TestEvents events;
  for (int i = 0; i < 400; i += reduced() ? 3 : 1) {
    std::vector<PmId> hits;
    const int among = i % 4 ? pm_count : 30;
    for (int k = 0; k < i % 140; ++k) hits.push_back(static_cast<PmId>(random() % among));
    events.add(hits);
  }
  for (int spot : {0, 975, 1951}) events.add(std::vector<PmId>(128, static_cast<PmId>(spot)));
  expect_same(events, {});
  expect_same(events, {{"min_hits", 3}, {"r_min", 0}, {"r_max", 1000}});
}

}  // namespace
}  // namespace nanet::rich
