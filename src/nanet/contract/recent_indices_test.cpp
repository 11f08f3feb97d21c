// SPDX-License-Identifier: Apache-2.0
// Tests of the indices of the newest frames: whose entries they are, and which segments have none.
#include "nanet/contract/recent_indices.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace nanet::contract {
namespace {

using Entries = std::vector<std::uint32_t>;

Entries index(const RecentIndices& indices, std::uint64_t n, unsigned board) {
  const auto entries = indices.of(n, board);
  return {entries.begin(), entries.end()};
}

TEST(RecentIndices, HaveThePacketsOfASegmentInOrderOfArrival) {
  RecentIndices indices;
  const Entries first = {IndexEntry::of(16, 3), IndexEntry::of(30, 5)}, second = {IndexEntry::of(16, 1)};
  indices.add(7, 2, true, first, 44);
  indices.add(7, 1, true, {}, 16);
  indices.add(7, 2, false, second, 24);
  EXPECT_EQ(index(indices, 7, 2),
            (Entries{IndexEntry::of(16, 3), IndexEntry::of(30, 5), IndexEntry::of(44, 0xFFFF),
                     IndexEntry::of(16, 1), IndexEntry::of(24, 0xFFFF)}));
  EXPECT_EQ(index(indices, 7, 1), Entries{RecentIndices::end_of_packet(16)});
  for (const unsigned board : {0u, 3u, RecentIndices::boards, 7u})
    EXPECT_TRUE(index(indices, 7, board).empty());
  EXPECT_TRUE(index(indices, 8, 2).empty());
}

TEST(RecentIndices, ALaterNumberTakesThePlaceOfAnEarlierOne) {
  RecentIndices indices;
  const Entries entries = {IndexEntry::of(16, 3)};
  for (std::uint64_t n = 0; n < 3 * RecentIndices::frames; ++n) indices.add(n, 0, true, entries, 24);
  const std::uint64_t last = 3 * RecentIndices::frames - 1;
  for (std::uint64_t n = 0; n <= last; ++n)
    EXPECT_EQ(index(indices, n, 0).size(), n > last - RecentIndices::frames ? 2u : 0u) << n;
  indices.add(last - RecentIndices::frames, 0, false, entries, 24);  // of a frame whose place is taken
  EXPECT_TRUE(index(indices, last - RecentIndices::frames, 0).empty());
  EXPECT_EQ(index(indices, last, 0).size(), 2u);
}

TEST(RecentIndices, ASegmentWithAPacketThatIsNotListedHasNone) {
  RecentIndices indices;
  const Entries entries = {IndexEntry::of(16, 3)};
  indices.add(7, 0, true, entries, 24);
  indices.remove(7, 0);
  indices.add(7, 0, false, entries, 24);
  EXPECT_TRUE(index(indices, 7, 0).empty());
  indices.add(7, 0, true, entries, 24);
  EXPECT_EQ(index(indices, 7, 0).size(), 2u);

  const Entries half(RecentIndices::entries / 2 - 1, IndexEntry::of(16, 3));
  indices.add(7, 1, true, half, 24);
  indices.add(7, 1, false, half, 24);
  EXPECT_EQ(index(indices, 7, 1).size(), RecentIndices::entries);
  indices.add(7, 1, false, {}, 16);
  EXPECT_TRUE(index(indices, 7, 1).empty());
}

}  // namespace
}  // namespace nanet::contract
