// SPDX-License-Identifier: Apache-2.0
// Tests of the CPU variants: every algorithm gives the same bits in each of them; refusals name key, value,
// remedy.
#include "nanet/rich/simd.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "nanet/rich/test_events.hpp"

namespace nanet::rich {
namespace {

class EveryVariant : public testing::TestWithParam<std::string> {};

TEST_P(EveryVariant, GivesTheSameBits) {
  const Geometry geometry = Geometry::make();
  TestEvents events = TestEvents::generate(ring_mix, 2, test_rounds(600), 31);
  std::minstd_rand random(9);
  for (std::uint32_t hits = 0; hits < 140; ++hits) {  // hits without a ring, with duplicates
    std::vector<PmId> pm;
    for (std::uint32_t i = 0; i < hits; ++i) pm.push_back(static_cast<PmId>(random() % pm_count));
    events.add(pm);
  }
  // The same hits at free positions, off the lattice.
  std::vector<float> x, y;
  for (const PmId pm : events.pm) {
    x.push_back(geometry.common[pm].x + 0.37f);
    y.push_back(geometry.common[pm].y - 1.9f);
  }
  const EventBatch batch = events.batch();
  const PointBatch points{batch.events, batch.first, x.data(), y.data()};
  const auto rings_of = [&](const std::string& variant) {
    const auto reconstructor = make_reconstructor(GetParam(), {}, geometry, variant);
    std::vector<Rings> rings(2 * batch.events);
    (*reconstructor)(batch, rings.data());
    (*reconstructor->clone())(points, rings.data() + batch.events);
    return rings;
  };
  const std::vector<Rings> usual = rings_of("");
  unsigned found = 0;
  for (const Rings& rings : usual) found += rings.count;
  EXPECT_GT(found, batch.events / 4);
  for (const std::string& variant : simd_names()) {
    const std::vector<Rings> rings = rings_of(variant);
    for (std::size_t i = 0; i < usual.size(); ++i)
      ASSERT_TRUE(same_bits(rings[i], usual[i]) && rings[i].primitive == usual[i].primitive)
          << variant << ", event " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(List, EveryVariant, testing::ValuesIn(algorithm_names()),
                         [](const auto& of) { return of.param; });

std::string refusal(std::string_view name, std::span<const SimdVariant> variants) {
  try {
    return "chosen: " + std::string(choose_simd(name, variants).name);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(Simd, ChoosesTheFastestThatRunsOrTheNamedOne) {
  const SimdVariant variants[] = {{"avx2", "", nullptr}, {"avx512", "", nullptr}};
  EXPECT_EQ(refusal("", variants), "chosen: avx512");
  EXPECT_EQ(refusal("avx2", variants), "chosen: avx2");
  const SimdVariant old[] = {{"avx2", "", nullptr}, {"avx512", "avx512f avx512vl", nullptr}};
  EXPECT_EQ(refusal("", old), "chosen: avx2");
}

TEST(Simd, RefusalsNameKeyValueAndRemedy) {
  const SimdVariant variants[] = {{"avx2", "", nullptr}, {"avx512", "avx512f avx512vl", nullptr}};
  EXPECT_EQ(refusal("avx512", variants),
            "NANET_SIMD = avx512: this CPU lacks avx512f avx512vl; unset it, or choose one of: avx2");
  EXPECT_EQ(refusal("sse", variants),
            "NANET_SIMD = sse: is not in this build; unset it, or choose one of: avx2");
  const SimdVariant none[] = {{"avx2", "avx2 fma", nullptr}};
  EXPECT_EQ(refusal("", none),
            "NANET_SIMD: no variant of this build runs on this CPU, which lacks avx2 fma; build with "
            "-DNANET_ARCH=x86-64");
}

TEST(Simd, VariantOfTheProcess) {
  const char* const name = std::getenv("NANET_SIMD");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(simd().name, name && *name ? std::string(name) : simd_names().back());
}

}  // namespace
}  // namespace nanet::rich
