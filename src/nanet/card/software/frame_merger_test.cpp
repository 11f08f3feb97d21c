// SPDX-License-Identifier: Apache-2.0
// Tests of the frame merger: the bytes of a small frame, frames that stay segments, and arbitrary bytes.
#include "nanet/card/software/frame_merger.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {
namespace {

using contract::Layout;
using contract::MergedRow;
using contract::Unmerged;

struct Part {
  std::uint16_t time;
  std::vector<std::uint16_t> words;
  bool truncated = false;
};

class Buffer {
 public:
  Buffer() : bytes_(shape_.buffer_bytes() + contract::tail_bytes) {}
  void packet(unsigned board, Sequence sequence, const std::vector<Part>& parts, bool fixed = false) {
    wire::mgp::Header h;
    h.board = static_cast<BoardId>(board);
    h.sequence = sequence;
    h.flags = fixed ? mgp_flag::fixed : 0;
    std::byte* const at = segment(board) + header.board[board].bytes;
    wire::mgp::PacketWriter writer(at, shape_.segment_bytes - header.board[board].bytes, h);
    for (const Part& part : parts)
      ASSERT_TRUE(writer.add(part.time >> 8, static_cast<FineTime>(part.time), part.words,
                             static_cast<std::uint8_t>(part.words.size() + part.truncated)));
    header.board[board].bytes =
        static_cast<std::uint16_t>(header.board[board].bytes + (writer.finish() + 15) / 16 * 16);
  }
  std::byte* segment(unsigned board) {
    return bytes_.data() + contract::frame_header_bytes + std::size_t{board} * shape_.segment_bytes;
  }
  std::uint32_t merge() { return FrameMerger(shape_, 41)(bytes_.data(), header); }
  MergedRow row(unsigned i) const {
    MergedRow r;
    std::memcpy(&r, &bytes_[contract::frame_header_bytes + sizeof r * i], sizeof r);
    return r;
  }
  std::uint16_t hit(unsigned i) const {
    return wire::mgp::load<std::uint16_t>(&bytes_[64 + 16 * 512 + 2 * i]);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::byte* data() { return bytes_.data(); }
  contract::FrameHeader header;

 private:
  contract::Shape shape_;
  std::vector<std::byte> bytes_;
};

std::uint16_t word(unsigned pm, int lsb) {
  return wire::mgp::hit_word(static_cast<PmId>(pm), lsb / 4);
}

TEST(FrameMerger, WritesRowsAndHits) {
  Buffer buffer;
  buffer.packet(0, 1, {{1000, {word(3, 4), word(9, -8)}}, {1030, {word(4, 0)}, true}});
  buffer.packet(2, 7, {{990, {word(1030, 60), word(1029, -64), word(1031, 0)}}}, true);
  buffer.packet(2, 8, {{1031, {}}}, true);
  EXPECT_EQ(buffer.merge(), 64u + 2 * 16 + 6 * 2);
  const auto& h = buffer.header;
  EXPECT_EQ(h.layout, Layout::merged);
  EXPECT_EQ(h.unmerged, Unmerged::none);
  EXPECT_EQ(std::make_tuple(h.events, h.fragments, h.hits, h.rows), std::make_tuple(2, 4, 6, 512));
  const MergedRow one = buffer.row(0), two = buffer.row(1);
  EXPECT_EQ(std::make_tuple(one.first, one.sum, one.opened, one.boards, one.flags),
            std::make_tuple(0, 1 - 2 + 15 - 16, 990, 5, MergedRow::disordered));
  EXPECT_EQ(std::make_tuple(one.hits[0], one.hits[2], one.delay[0], one.delay[2]),
            std::make_tuple(2, 3, 10, 0));
  EXPECT_EQ(std::make_tuple(two.first, two.sum, two.opened, two.boards, two.flags),
            std::make_tuple(5, 0, 1030, 5, MergedRow::truncated));
  EXPECT_EQ(std::make_tuple(two.hits[0], two.hits[2], two.delay[0], two.delay[2]),
            std::make_tuple(1, 0, 0, 1));
  const std::uint16_t hits[] = {word(3, 4),      word(9, -8),   word(1030, 60),
                                word(1029, -64), word(1031, 0), word(4, 0)};
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(buffer.hit(i), hits[i]) << i;
}

TEST(FrameMerger, AnEmptyFrame) {
  Buffer buffer;
  EXPECT_EQ(buffer.merge(), 64u);
  EXPECT_EQ(buffer.header.layout, Layout::merged);
  EXPECT_EQ(buffer.header.events, 0);
}

void expect_segments(Buffer& buffer, Unmerged reason) {
  const auto before = buffer.bytes();
  EXPECT_EQ(buffer.merge(), 0u);
  EXPECT_EQ(buffer.header.layout, Layout::segments);
  EXPECT_EQ(buffer.header.unmerged, reason);
  EXPECT_EQ(buffer.header.rows, 512);  // merging is on
  EXPECT_EQ(buffer.header.events, 0);
  EXPECT_EQ(buffer.bytes(), before);
}

TEST(FrameMerger, LeavesFragmentsOutOfOrder) {
  Buffer times, sequences;
  times.packet(1, 1, {{1000, {word(600, 0)}}, {999, {}}});
  expect_segments(times, Unmerged::disordered);
  sequences.packet(1, 2, {{1000, {word(600, 0)}}});
  sequences.packet(1, 1, {{1000, {word(600, 0)}}});
  expect_segments(sequences, Unmerged::disordered);
}

TEST(FrameMerger, LeavesFramesBeyondItsRows) {
  for (const unsigned events : {512u, 513u}) {
    Buffer buffer;
    for (unsigned from = 0; from < events; from += 200) {
      std::vector<Part> parts;
      for (unsigned i = from; i < std::min(events, from + 200); ++i)
        parts.push_back({static_cast<std::uint16_t>(100 * i), {}});
      buffer.packet(3, from + 1, parts);
    }
    if (events == 512)
      EXPECT_EQ(buffer.merge(), 64u + 512 * 16);
    else
      expect_segments(buffer, Unmerged::events);
  }
}

TEST(FrameMerger, LeavesFramesBeyondItsHits) {
  for (const unsigned more : {0u, 1u}) {
    Buffer buffer;
    const std::vector<std::uint16_t> full(32, word(1, 0));
    for (unsigned board = 0; board < 4; ++board) {  // 64 fragments of 32 hits each
      std::vector<Part> parts;
      for (unsigned i = 0; i < 64; ++i) parts.push_back({static_cast<std::uint16_t>(100 * i), full});
      if (board == 0 && more) parts.push_back({60000, {word(1, 0)}});
      buffer.packet(board, 1, parts);
    }
    if (more)
      expect_segments(buffer, Unmerged::hits);
    else
      EXPECT_EQ(buffer.merge(), 64u + 64 * 16 + 8192 * 2);
  }
}

TEST(FrameMerger, IsSafeOnAnyBytes) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 500; ++round) {
    Buffer buffer;
    for (unsigned board = 0; board < 4; ++board) {
      std::vector<Part> parts;
      for (unsigned i = 0, time = 0; i < random() % 60; ++i)
        parts.push_back({static_cast<std::uint16_t>(time += static_cast<unsigned>(random() % 300)),
                         std::vector<std::uint16_t>(random() % 33, static_cast<std::uint16_t>(random()))});
      buffer.packet(board, 1, parts);
    }
    for (unsigned i = static_cast<unsigned>(random() % 30); i > 0; --i)
      buffer.data()[64 + random() % (4 * 8192)] = std::byte(random());
    if (random() % 4 == 0) buffer.header.board[random() % 4].bytes = static_cast<std::uint16_t>(random());
    const std::uint32_t bytes = buffer.merge();
    EXPECT_EQ(bytes != 0, buffer.header.layout == Layout::merged);
    EXPECT_LE(bytes, contract::merged_buffer_bytes);
  }
}

TEST(FrameMerger, TheReceiverWritesMergedBuffers) {
  ClopOptions options = rig_options();
  options.merge = true;
  options.rules.boards = 3;
  options.segment_bytes = 16384;
  Rig rig(options);
  rig.sobs(first_burst, 2);
  for (unsigned b = 0; b < 2; ++b) rig.feed({.board = static_cast<BoardId>(b), .frame = 0, .events = 2});
  for (const unsigned index : {1u, 0u})  // packets of board 0 out of order
    rig.feed({.board = 0, .frame = 1, .index = index, .last = index == 1, .sequence = 2 + index});
  rig.feed({.board = 1, .frame = 1});
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(rig.header(events[0]).layout, Layout::merged);
  EXPECT_EQ(rig.header(events[0]).events, 2);
  EXPECT_EQ(events[0].bytes, 64u + 2 * 16 + 12 * 2);
  EXPECT_EQ(rig.header(events[1]).layout, Layout::segments);
  EXPECT_EQ(rig.header(events[1]).unmerged, Unmerged::disordered);
  EXPECT_EQ(events[1].bytes, 3u * 32);  // as without merging
  EXPECT_EQ(rig.stream.counters().frames_unmerged, 1u);
  for (const Event& e : events) rig.answer(e);
  rig.finish();
}

TEST(FrameMerger, UnfitOptionsAreRefused) {
  const contract::Shape shape;
  EXPECT_NO_THROW(check_merging(shape, 0xF, 255));
  EXPECT_THROW(check_merging(shape, 0xF, 256), std::invalid_argument);
  EXPECT_THROW(check_merging(shape, 0, 41), std::invalid_argument);
  contract::Shape other = shape;
  other.boards = 5;
  EXPECT_THROW(check_merging(other, 0x1F, 41), std::invalid_argument);
  other = shape;
  other.segment_bytes = 4096;
  EXPECT_THROW(check_merging(other, 0xF, 41), std::invalid_argument);
  other = shape;
  other.gather = contract::Gather::packets;
  EXPECT_THROW(check_merging(other, 0xF, 41), std::invalid_argument);
  // The named remedy is enough, and the next smaller step is not.
  for (other = shape, other.boards = 1; other.boards <= 3; ++other.boards) {
    other.segment_bytes = static_cast<std::uint32_t>(merging_segment(other.boards));
    EXPECT_NO_THROW(check_merging(other, 0x7, 41));
    other.segment_bytes -= 1024;
    EXPECT_THROW(check_merging(other, 0x7, 41), std::invalid_argument);
  }
}

}  // namespace
}  // namespace nanet::card
