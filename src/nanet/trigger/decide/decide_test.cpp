// SPDX-License-Identifier: Apache-2.0
// Tests of the trigger decision: bits by hits, rings and chi2.
#include "nanet/trigger/decide/decide.hpp"

#include <gtest/gtest.h>

namespace nanet::trigger {
namespace {

namespace bit = primitive_bit;

rich::Rings one(float r, float chi2_ndf = 1.0f) {
  rich::Rings rings;
  rings.count = 1;
  rings.ring[0] = {0, 0, r, chi2_ndf, 10};
  return rings;
}

TEST(Decide, WithoutRings) {
  EXPECT_EQ(decide({}, 0, false, {}), bit::valid);
  EXPECT_EQ(decide({}, 23, false, {}), bit::valid);
  EXPECT_EQ(decide({}, 24, false, {}), bit::valid | bit::multiplicity);
  EXPECT_EQ(decide({}, 3, true, {}), bit::valid | bit::incomplete);
}

TEST(Decide, BitsAtTheirEdges) {
  const auto bits = [](float r, float chi2 = 1.0f) { return decide(one(r, chi2), 10, false, {}) & ~0x3F; };
  EXPECT_EQ(bits(185.0f), bit::valid | 1 << 12 | bit::saturated);
  EXPECT_EQ(bits(184.99f), bit::valid | 1 << 12);
  EXPECT_EQ(bits(180.0f), bit::valid | 1 << 12);
  EXPECT_EQ(bits(179.99f), bit::valid | 1 << 12 | bit::small);
  EXPECT_EQ(bits(182.0f, 3.0f), bit::valid | 1 << 12);
  EXPECT_EQ(bits(182.0f, 3.01f), bit::valid | 1 << 12 | bit::poor);
}

TEST(Decide, RadiusCode) {
  EXPECT_EQ(radius_code(60.0f), 0);
  EXPECT_EQ(radius_code(20.0f), 0);
  EXPECT_EQ(radius_code(61.12f), 0);
  EXPECT_EQ(radius_code(61.13f), 1);
  EXPECT_EQ(radius_code(190.7f), 58);
  EXPECT_EQ(radius_code(201.7f), 63);
  EXPECT_EQ(radius_code(1e9f), 63);
}

TEST(Decide, SeveralRings) {
  rich::Rings rings = one(190.0f);
  rings.ambiguous = true;
  for (unsigned count = 2; count <= rich::max_rings; ++count) {
    rings.count = static_cast<std::uint8_t>(count);
    rings.ring[count - 1] = {0, 0, 100.0f, 9.0f, 5};  // chi2 counts for the leading ring only
    const std::uint16_t id = decide(rings, 30, false, {});
    EXPECT_EQ(id >> 12 & 3, count < 3 ? count : 3);
    EXPECT_EQ(id & ~0x303F, bit::valid | bit::saturated | bit::small | bit::multiplicity | bit::ambiguous);
    EXPECT_EQ(id & 0x3F, radius_code(190.0f));
  }
}

TEST(Decide, NeverZeroAboveTheFineTime) {
  EXPECT_NE(decide({}, 0, false, {}) >> 8, 0);  // a zero upper byte would mark a timestamp word
}

}  // namespace
}  // namespace nanet::trigger
