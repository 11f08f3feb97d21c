// SPDX-License-Identifier: Apache-2.0
// Tests of the truth table: sorted, by burst or periodic.
#include "nanet/l0tp/truth_table.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace nanet::l0tp {
namespace {

std::vector<std::uint16_t> get(const TruthTable& table, std::uint64_t burst, Frame frame) {
  const auto times = table.at(burst, frame);
  return {times.begin(), times.end()};
}
constexpr Timestamp stamp(Frame frame, unsigned period) {
  return frame << 8 | period;
}

TEST(TruthTable, ByBurstAndFrame) {
  const std::vector<std::uint16_t> burst = {4, 4, 4, 5};
  const std::vector<Timestamp> timestamp = {stamp(2, 7), stamp(2, 1), stamp(0, 255), stamp(1, 0)};
  const std::vector<FineTime> fine = {9, 200, 255, 3};
  const TruthTable table(burst, timestamp, fine, 0);
  EXPECT_EQ(table.events(), 4u);
  EXPECT_EQ(get(table, 0, 0), (std::vector<std::uint16_t>{65535}));
  EXPECT_EQ(get(table, 0, 1), (std::vector<std::uint16_t>{}));
  EXPECT_EQ(get(table, 0, 2), (std::vector<std::uint16_t>{456, 1801}));  // ascending
  EXPECT_EQ(get(table, 0, 3), (std::vector<std::uint16_t>{}));
  EXPECT_EQ(get(table, 1, 1), (std::vector<std::uint16_t>{3}));
  EXPECT_EQ(get(table, 1, 2), (std::vector<std::uint16_t>{}));
  EXPECT_EQ(get(table, 2, 0), (std::vector<std::uint16_t>{}));
}

TEST(TruthTable, WithAPeriodEveryBurstRepeatsIt) {
  const std::vector<std::uint16_t> burst = {0, 0};
  const std::vector<Timestamp> timestamp = {stamp(0, 1), stamp(2, 2)};
  const std::vector<FineTime> fine = {0, 0};
  const TruthTable table(burst, timestamp, fine, 3);
  for (const std::uint64_t b : {0u, 1u, 300u}) {
    EXPECT_EQ(get(table, b, 0), (std::vector<std::uint16_t>{256}));
    EXPECT_EQ(get(table, b, 3), (std::vector<std::uint16_t>{256}));
    EXPECT_EQ(get(table, b, 751'499), (std::vector<std::uint16_t>{512}));  // 751499 mod 3 = 2
    EXPECT_EQ(get(table, b, 4), (std::vector<std::uint16_t>{}));
  }
  EXPECT_THROW(TruthTable(burst, timestamp, fine, 2), std::invalid_argument);
}

TEST(TruthTable, EmptyAndUneven) {
  const TruthTable table({}, {}, {}, 0);
  EXPECT_EQ(get(table, 0, 0), (std::vector<std::uint16_t>{}));
  const std::vector<std::uint16_t> burst = {0};
  EXPECT_THROW(TruthTable(burst, {}, {}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace nanet::l0tp
