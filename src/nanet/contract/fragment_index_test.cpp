// SPDX-License-Identifier: Apache-2.0
// Tests of the index of a segment: entries byte by byte against the golden vector, segments without an index,
// and any bytes.
#include "nanet/contract/fragment_index.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "nanet/contract/mailbox.hpp"
#include "nanet/wire/golden_test.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::contract {
namespace {

namespace mgp = wire::mgp;

struct Segment {
  std::vector<std::byte> bytes;

  // Appends a packet of fragments with these times within the frame and numbers of hits.
  void packet(Sequence sequence, const std::vector<std::pair<std::uint16_t, unsigned>>& fragments,
              std::uint8_t flags = 0) {
    mgp::Header header;
    header.flags = flags;
    header.frame = 5;
    header.sequence = sequence;
    const std::size_t at = bytes.size();
    bytes.resize(at + 8192);
    mgp::PacketWriter writer(bytes.data() + at, 8192, header);
    for (const auto& [time, hits] : fragments)
      writer.add(5u << 8 | time >> 8, static_cast<FineTime>(time), std::vector<std::uint16_t>(hits, 3),
                 static_cast<std::uint8_t>(hits));
    bytes.resize(at + (writer.finish() + 15) / 16 * 16);
  }
  std::vector<std::uint32_t> index(std::size_t room = index_entries) const {
    std::vector<std::uint32_t> entries(room);
    const std::uint32_t n = index_fragments(bytes.data(), static_cast<std::uint32_t>(bytes.size()), entries);
    if (n == no_index) return {no_index};
    entries.resize(n);
    return entries;
  }
};
std::vector<std::uint32_t> without() {
  return {no_index};
}

TEST(FragmentIndex, HasTheFragmentsOfAllPackets) {
  Segment segment;
  EXPECT_TRUE(segment.index().empty());
  segment.packet(3, {{0x0102, 2}, {0xFFFF, 0}, {0, 32}});
  EXPECT_EQ(segment.index(), (std::vector<std::uint32_t>{0x0102'0010, 0xFFFF'001C, 0x0000'0024}));
  segment.packet(4, {{7, 1}});
  EXPECT_EQ(segment.index().back(), IndexEntry::of(112 + 16, 7));
}

TEST(FragmentIndex, IsOfTheUsualSegmentsAlone) {
  Segment fixed, disordered, many, four, full;
  fixed.packet(1, {{1, 3}}, mgp::flag::fixed);
  EXPECT_EQ(fixed.index(), without());
  disordered.packet(2, {{1, 1}});
  disordered.packet(1, {{2, 1}});
  EXPECT_EQ(disordered.index(), without());
  many.packet(1, std::vector<std::pair<std::uint16_t, unsigned>>(20, {1, 0}));
  EXPECT_EQ(many.index(20).size(), 20u);
  EXPECT_EQ(many.index(19), without());
  for (Sequence s = 0; s < indexed_packets; ++s) four.packet(s, {{1, 1}});
  EXPECT_EQ(four.index().size(), indexed_packets);
  four.packet(indexed_packets, {{1, 1}});
  EXPECT_EQ(four.index(), without());
  full.packet(1, std::vector<std::pair<std::uint16_t, unsigned>>(index_entries, {1, 0}));
  EXPECT_EQ(full.index().size(), index_entries);
  full.packet(2, {{1, 1}});
  EXPECT_EQ(full.index(), without());
}

TEST(FragmentIndex, IsSafeOnAnyBytes) {
  std::mt19937 random(1);
  unsigned found = 0;
  for (unsigned round = 0; round < 5000; ++round) {
    Segment segment;
    segment.packet(1, std::vector<std::pair<std::uint16_t, unsigned>>(random() % 30, {9, random() % 33}));
    for (unsigned i = 0; i < 3; ++i)
      segment.bytes[random() % segment.bytes.size()] = static_cast<std::byte>(random());
    segment.bytes.resize(1 + random() % segment.bytes.size());
    segment.bytes.shrink_to_fit();  // sanitizers see what lies behind
    const auto entries = segment.index();
    if (entries == without()) continue;
    ++found;
    for (const std::uint32_t entry : entries) ASSERT_LE(IndexEntry::offset(entry) + 8, segment.bytes.size());
  }
  EXPECT_GT(found, 50u);
}

struct alignas(64) Lines {
  std::byte bytes[65536] = {};
};

// Units of the entries that validation listed, packet by packet, and of the walk through the segment. Returns
// whether there is an index.
bool expect_equal_units(const Segment& segment, const std::vector<std::uint32_t>& begins,
                        bool list_all = true) {
  auto added = std::make_unique<Lines>(), walked = std::make_unique<Lines>();
  const MailboxShape shape{8, 2, 4, mailbox_segment_bytes};
  EXPECT_LE(shape.input_bytes(), sizeof(Lines));
  const auto bytes = static_cast<std::uint32_t>(segment.bytes.size());
  MailboxWriter a({shape, added->bytes, nullptr}), b({shape, walked->bytes, nullptr});
  MailboxWriter::Index index;
  mgp::Rules rules;
  rules.max_payload = 8192;
  for (std::size_t p = 0; p < begins.size(); ++p) {
    const std::byte* const at = segment.bytes.data() + begins[p];
    std::array<std::uint32_t, mgp::max_fragments> room;
    const auto checked =
        mgp::validate({at, mgp::decode_header(at).length}, rules,
                      list_all || p == 0 ? std::span<std::uint32_t>(room) : std::span<std::uint32_t>());
    EXPECT_EQ(checked.refusal, mgp::Refusal::none);
    a.add(7, 0, 2, index, begins[p], checked.header, checked.index);
  }
  const std::uint32_t fragments = b.index(7, 0, 2, segment.bytes.data(), bytes);
  EXPECT_EQ(a.finish(7, 0, 2, index, segment.bytes.data(), bytes), fragments);
  if (fragments == no_index) return false;
  EXPECT_EQ(std::memcmp(added->bytes, walked->bytes, sizeof(Lines)), 0);
  return true;
}

TEST(FragmentIndex, UnitsAreTheGoldenVector) {
  if (!has_mailbox) GTEST_SKIP();
  const Golden golden = read_golden("contract_index_units");
  Segment segment;
  std::vector<std::pair<std::uint16_t, unsigned>> fragments;
  const auto times = golden.all("time"), hits = golden.all("hits");
  for (std::size_t i = 0; i < times.size(); ++i)
    fragments.emplace_back(std::stoul(times[i]), static_cast<unsigned>(std::stoul(hits[i])));
  segment.packet(1, fragments);
  auto lines = std::make_unique<Lines>();
  const Mailbox mailbox{{8, 2, 4, 960}, lines->bytes, nullptr};
  ASSERT_LE(mailbox.shape.input_bytes(), sizeof *lines - 0u);
  MailboxWriter writer(mailbox);
  EXPECT_EQ(writer.index(golden.number("n"), 0, 2, segment.bytes.data(),
                         static_cast<std::uint32_t>(segment.bytes.size())),
            fragments.size());
  const std::byte* const at = lines->bytes + mailbox.shape.index(0, 2);
  EXPECT_EQ(std::vector(at, at + golden.bytes.size()), golden.bytes);
  EXPECT_EQ(at[golden.bytes.size() + 12], std::byte{});  // no further unit
  EXPECT_TRUE(expect_equal_units(segment, {0}));
}

TEST(FragmentIndex, OfListedPacketsIsThatOfTheirSegment) {
  if (!has_mailbox) GTEST_SKIP();
  Segment full;  // no unit has room left
  full.packet(1, std::vector<std::pair<std::uint16_t, unsigned>>(index_entries, {1, 0}));
  EXPECT_TRUE(expect_equal_units(full, {0}));
  std::mt19937 random(2);
  unsigned indexed = 0;
  for (unsigned round = 0; round < 2000; ++round) {
    Segment segment;
    std::vector<std::uint32_t> begins;
    const unsigned packets = round % 97 == 0 ? 4 : 1 + random() % 3;
    for (unsigned p = 0; p < packets; ++p) {
      std::vector<std::pair<std::uint16_t, unsigned>> fragments(random() % (round % 5 ? 12 : 120));
      for (auto& [time, hits] : fragments) {
        time = static_cast<std::uint16_t>(random());
        hits = static_cast<unsigned>(random() % (round % 7 ? 6 : 33));
      }
      begins.push_back(static_cast<std::uint32_t>(segment.bytes.size()));
      const bool fixed = round % 89 == 0, disordered = round % 83 == 0;
      segment.packet(disordered ? 9 - p : p, fragments, fixed ? mgp::flag::fixed : std::uint8_t{0});
    }
    indexed += expect_equal_units(segment, begins, round % 11 != 0);
  }
  EXPECT_GT(indexed, 1000u);
  EXPECT_LT(indexed, 1990u);
}

}  // namespace
}  // namespace nanet::contract
