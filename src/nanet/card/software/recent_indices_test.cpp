// SPDX-License-Identifier: Apache-2.0
// Tests of the indices that the receiver keeps for a consumer in its thread.
#include "nanet/contract/recent_indices.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/fragment_index.hpp"

namespace nanet::card {
namespace {

using contract::IndexEntry;
using contract::RecentIndices;

TEST(RecentIndices, AreThoseOfThePlacedPackets) {
  Rig rig;
  const RecentIndices* const indices = rig.stream.keep_indices();
  ASSERT_NE(indices, nullptr);
  rig.sobs();
  rig.feed({.board = 1, .frame = 0, .last = false, .events = 2, .hits = 1});
  rig.feed({.board = 1, .frame = 0, .last = false, .events = 1, .hits = 2});  // index 0 again: not placed
  rig.feed({.board = 1, .frame = 0, .index = 1, .events = 0});
  rig.feed({.board = 2, .frame = 0, .flags = mgp_flag::fixed});
  EXPECT_EQ(rig.stream.counters().lost[static_cast<std::size_t>(Lost::duplicate)], 1u);
  const auto entries = indices->of(0, 1);
  EXPECT_EQ(std::vector<std::uint32_t>(entries.begin(), entries.end()),
            (std::vector<std::uint32_t>{IndexEntry::of(16, 0), IndexEntry::of(26, 0x0101),
                                        RecentIndices::end_of_packet(36), RecentIndices::end_of_packet(16)}));
  EXPECT_TRUE(indices->of(0, 0).empty());
  EXPECT_TRUE(indices->of(0, 2).empty());  // fixed slots are not listed
}

TEST(RecentIndices, LeaveOutSegmentsWithTruncatedFragments) {
  Rig rig;
  const RecentIndices* const indices = rig.stream.keep_indices();
  rig.sobs();
  const auto seen = [](std::vector<std::byte> packet, unsigned hits) {
    packet[wire::mgp::header_bytes + 6] = std::byte(hits);
    return packet;
  };
  rig.raw(seen(build({.board = 0, .frame = 0, .hits = 3}, 1), 3));
  rig.raw(seen(build({.board = 1, .frame = 0, .hits = 3}, 1), 4));
  auto marked = build({.board = 2, .frame = 0, .hits = 3}, 1);
  marked[wire::mgp::header_bytes + 7] = std::byte{1};
  rig.raw(marked);
  EXPECT_EQ(indices->of(0, 0).size(), 2u);
  EXPECT_TRUE(indices->of(0, 1).empty());
  EXPECT_TRUE(indices->of(0, 2).empty());
}

TEST(RecentIndices, AreOfSegmentsAlone) {
  ClopOptions packets = rig_options();
  packets.gather = contract::Gather::packets;
  EXPECT_EQ(Rig(packets).stream.keep_indices(), nullptr);
  ClopOptions merging = rig_options();
  merging.merge = true;
  EXPECT_EQ(Rig(merging).stream.keep_indices(), nullptr);
}

}  // namespace
}  // namespace nanet::card
