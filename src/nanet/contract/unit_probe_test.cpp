// SPDX-License-Identifier: Apache-2.0
// Tests of the probe of units: it counts new and torn units; stores of this host do not tear.
#include "nanet/contract/unit_probe.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace nanet::contract {
namespace {

struct alignas(64) Input {
  std::byte bytes[UnitWriter::shape.input_bytes()] = {};
};

TEST(UnitProbe, CountsNewAndTornUnits) {
  if (!has_mailbox) GTEST_SKIP();
  const auto input = std::make_unique<Input>();
  UnitWriter writer(input->bytes);
  UnitReader reader(UnitWriter::units_in(input->bytes), UnitWriter::units);
  reader.read();
  EXPECT_EQ(reader.counts().read, 0u);
  writer.write();
  reader.read();
  reader.read();
  EXPECT_EQ(reader.counts().read, UnitWriter::units);
  EXPECT_EQ(reader.counts().torn, 0u);
  std::byte* const third = input->bytes + UnitWriter::shape.segment(0, 0) + 3 * unit_bytes;
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{8}}) {
    writer.write();
    third[at] ^= std::byte{1};
    reader.read();
    third[at] ^= std::byte{1};
  }
  EXPECT_EQ(reader.counts().read, 4 * UnitWriter::units);
  EXPECT_EQ(reader.counts().torn, 3u);
}

TEST(UnitProbe, FindsNoTornUnitBetweenTwoThreads) {
  if (!has_mailbox) GTEST_SKIP();
  UnitCounts all;
  while (all.read < 100'000) {
    const UnitCounts counts = probe_units(10'000'000);
    all.read += counts.read;
    all.torn += counts.torn;
  }
  EXPECT_EQ(all.torn, 0u);
}

}  // namespace
}  // namespace nanet::contract
