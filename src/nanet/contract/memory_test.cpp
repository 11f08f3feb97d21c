// SPDX-License-Identifier: Apache-2.0
// Tests of the contract's layout: structures byte by byte against the golden vectors, and device regions.
#include "nanet/contract/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanet/contract/mailbox.hpp"
#include "nanet/wire/golden_test.hpp"

namespace nanet::contract {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
void fill(T& field, const Golden& golden, const std::string& key) {
  field = static_cast<T>(golden.number(key));
}

TEST(Layout, EventIsTheGoldenVector) {
  const Golden golden = read_golden("contract_event");
  Event e;
  fill(e.type, golden, "type");
  fill(e.stream, golden, "stream");
  fill(e.flags, golden, "flags");
  fill(e.buffer, golden, "buffer");
  fill(e.bytes, golden, "bytes");
  fill(e.frame, golden, "frame");
  fill(e.time_ns, golden, "time_ns");
  fill(e.n, golden, "n");
  fill(e.lap, golden, "lap");
  EXPECT_EQ(bytes_of(e), golden.bytes);
  EXPECT_EQ(e.flags, event_flag::timed_out | 1u << (event_flag::missing_shift + 3));
}

// Aligned as a mailbox.
struct alignas(64) Lines {
  std::byte bytes[2 * answer_line_bytes] = {};
};

TEST(Layout, EventLineIsTheGoldenVector) {
  if (!has_mailbox) GTEST_SKIP();
  const Golden golden = read_golden("contract_event_line");
  const Golden event = read_golden("contract_event");
  Event e;
  std::memcpy(&e, event.bytes.data(), sizeof e);
  EventLine line;
  const auto boards = golden.all("board");
  ASSERT_EQ(boards.size(), max_boards);
  for (unsigned b = 0; b < max_boards; ++b) line.bytes[b] = static_cast<std::uint16_t>(std::stoul(boards[b]));
  fill(line.flags, golden, "line_flags");
  auto lines = std::make_unique<Lines>();
  MailboxWriter writer({{8, 8, 4, 2016}, lines->bytes, nullptr});
  writer.event(e, 3, static_cast<std::uint32_t>(golden.number("lap")), line);
  EXPECT_EQ(std::vector(lines->bytes + 3 * line_bytes, lines->bytes + 4 * line_bytes), golden.bytes);
}

TEST(Layout, AnswerUnitsAreTheGoldenVector) {
  if (!has_mailbox) GTEST_SKIP();
  const Golden golden = read_golden("contract_answer_units");
  std::vector<std::byte> answer(golden.number("size"));
  for (std::size_t i = 0; i < answer.size(); ++i) answer[i] = static_cast<std::byte>(0x20 + i);
  auto lines = std::make_unique<Lines>();
  const Mailbox mailbox{{8, 8, 4, 2016}, nullptr, lines->bytes};
  put_answer(mailbox, golden.number("n"), 1, answer.data(), static_cast<std::uint32_t>(answer.size()));
  const std::byte* const at = lines->bytes + answer_line_bytes;
  EXPECT_EQ(std::vector(at, at + golden.bytes.size()), golden.bytes);
}

TEST(Layout, DescriptorIsTheGoldenVector) {
  const Golden golden = read_golden("contract_descriptor");
  Descriptor d;
  fill(d.address, golden, "address");
  fill(d.bytes, golden, "size");
  fill(d.destination, golden, "destination");
  fill(d.token, golden, "token");
  fill(d.flags, golden, "flags");
  fill(d.reserved, golden, "reserved");
  fill(d.lap, golden, "lap");
  EXPECT_EQ(bytes_of(d), golden.bytes);
}

void fill_boards(FrameHeader& h, const Golden& golden) {
  const auto boards = golden.all("board");
  ASSERT_EQ(boards.size(), max_boards);
  for (unsigned b = 0; b < max_boards; ++b) {
    std::istringstream words(boards[b]);
    unsigned bytes, packets, flags;
    words >> bytes >> packets >> flags;
    h.board[b] = {static_cast<std::uint16_t>(bytes), static_cast<std::uint8_t>(packets),
                  static_cast<std::uint8_t>(flags)};
  }
}

TEST(Layout, FrameHeaderIsTheGoldenVector) {
  const Golden golden = read_golden("contract_frame_header");
  FrameHeader h;
  fill(h.frame, golden, "frame");
  fill(h.complete, golden, "complete");
  fill(h.expected, golden, "expected");
  fill(h.flags, golden, "flags");
  fill_boards(h, golden);
  EXPECT_EQ(bytes_of(h), golden.bytes);
}

TEST(Layout, MergedHeaderIsTheGoldenVector) {
  const Golden golden = read_golden("contract_merged_header");
  FrameHeader h;
  fill(h.frame, golden, "frame");
  fill(h.complete, golden, "complete");
  fill(h.expected, golden, "expected");
  fill(h.flags, golden, "flags");
  fill_boards(h, golden);
  h.layout = Layout::merged;
  fill(h.ttc, golden, "ttc");
  fill(h.events, golden, "events");
  fill(h.fragments, golden, "fragments");
  fill(h.hits, golden, "hits");
  fill(h.rows, golden, "rows");
  fill(h.first_period, golden, "first_period");
  fill(h.close_period, golden, "close_period");
  EXPECT_EQ(bytes_of(h), golden.bytes);
}

TEST(Layout, MergedRowIsTheGoldenVector) {
  const Golden golden = read_golden("contract_merged_row");
  MergedRow r;
  fill(r.first, golden, "first");
  r.sum = static_cast<std::int16_t>(std::stoi(golden.all("sum")[0]));
  fill(r.opened, golden, "opened");
  fill(r.boards, golden, "boards");
  fill(r.flags, golden, "flags");
  const auto boards = golden.all("board");
  ASSERT_EQ(boards.size(), merged_boards);
  for (unsigned b = 0; b < merged_boards; ++b) {
    std::istringstream words(boards[b]);
    unsigned hits, delay;
    words >> hits >> delay;
    r.hits[b] = static_cast<std::uint8_t>(hits);
    r.delay[b] = static_cast<std::uint8_t>(delay);
  }
  EXPECT_EQ(bytes_of(r), golden.bytes);
}

TEST(Layout, MergedUnitsAreTheGoldenVector) {
  if (!has_mailbox) GTEST_SKIP();
  const Golden golden = read_golden("contract_merged_units"), row = read_golden("contract_merged_row");
  std::vector<std::uint16_t> hits;
  for (const std::string& hit : golden.all("hit"))
    hits.push_back(static_cast<std::uint16_t>(std::stoul(hit)));
  FrameHeader h;
  h.layout = Layout::merged;
  h.events = 1;
  h.rows = 2;
  h.hits = static_cast<std::uint16_t>(hits.size());
  std::vector<std::byte> buffer(sizeof h + sizeof(MergedRow) * h.rows + 2 * hits.size());
  std::memcpy(buffer.data(), &h, sizeof h);
  std::memcpy(buffer.data() + sizeof h, row.bytes.data(), sizeof(MergedRow));
  std::memcpy(buffer.data() + sizeof h + sizeof(MergedRow) * h.rows, hits.data(), 2 * hits.size());
  auto lines = std::make_unique<Lines>();
  const Mailbox mailbox{{8, 1, 1, 48}, lines->bytes, nullptr};
  ASSERT_LE(mailbox.shape.input_bytes(), sizeof *lines + 0u);
  MailboxWriter writer(mailbox);
  ASSERT_TRUE(writer.merged(golden.number("n"), 0, buffer.data()));
  const std::byte* const at = lines->bytes + mailbox.shape.segment(0, 0);
  EXPECT_EQ(std::vector(at, at + golden.bytes.size()), golden.bytes);
  EXPECT_EQ(at[golden.bytes.size() + 12], std::byte{});  // no further unit
  h.hits = static_cast<std::uint16_t>(mailbox.shape.merged_bytes() / 2);
  buffer.resize(buffer.size() + mailbox.shape.merged_bytes());
  std::memcpy(buffer.data(), &h, sizeof h);
  EXPECT_FALSE(writer.merged(golden.number("n") + 1, 0, buffer.data()));  // too large by a row
  EXPECT_EQ(std::vector(at, at + golden.bytes.size()), golden.bytes);
}

// Headers of any content give an extent within buffer and limits.
TEST(Layout, AMergedExtentLiesInTheBuffer) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 20'000; ++round) {
    const auto any = [&] { return static_cast<std::uint32_t>(random() % (random() % 2 ? 65536 : 600)); };
    const std::size_t bytes = random() % 3 ? merged_buffer_bytes : 64 + random() % 30'000;
    const std::uint32_t events = any(), room = any(), hits = any();
    const MergedExtent extent = MergedExtent::of(events, room, hits, bytes);
    ASSERT_LE(extent.rows, std::min({events, room, merged_rows}));
    ASSERT_LE(extent.hits, std::min(hits, merged_hits));
    ASSERT_LE(frame_header_bytes + sizeof(MergedRow) * extent.rows, extent.hits_at);
    ASSERT_LE(extent.hits_at + sizeof(std::uint16_t) * extent.hits, bytes);
  }
  const MergedExtent full = MergedExtent::of(512, 512, 8192, merged_buffer_bytes);
  EXPECT_EQ(full.rows, 512u);
  EXPECT_EQ(full.hits, 8192u);
}

Shape small() {
  Shape s;
  s.buffers = 8;
  s.descriptors = 8;
  s.events = 32;
  s.segment_bytes = 1024;
  return s;
}

TEST(Memory, PartsDoNotOverlapAndLieInTheRegion) {
  for (const Gather gather : {Gather::frame, Gather::packets}) {
    Shape shape = small();
    shape.gather = gather;
    shape.packets = 3;
    const Memory memory(shape);
    const View& v = memory.view();
    std::vector<int> owner(memory.bytes(), 0);
    const auto claim = [&](const void* at, std::size_t bytes) {
      const std::size_t from = static_cast<std::size_t>(static_cast<const std::byte*>(at) - memory.region());
      ASSERT_LE(from + bytes, memory.bytes());
      for (std::size_t i = from; i < from + bytes; ++i) ASSERT_EQ(owner[i]++, 0) << i;
    };
    for (std::uint32_t i = 0; i < shape.buffers; ++i) {
      claim(v.buffer(i), shape.buffer_bytes());
      claim(v.send_buffer(i), send_buffer_bytes);
    }
    claim(v.clop + shape.buffers * shape.buffer_bytes(), tail_bytes);
    claim(v.returned, 4 * shape.buffers);
    claim(v.queue, sizeof(Event) * shape.events);
    claim(v.ring, sizeof(Descriptor) * shape.descriptors);
    claim(v.finished, 8);
    claim(v.doorbell, 4);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(v.clop) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(v.queue) % 64, 0u);
    EXPECT_NE(reinterpret_cast<std::uintptr_t>(v.finished) / 64,
              reinterpret_cast<std::uintptr_t>(v.doorbell) / 64);
  }
}

TEST(Memory, BuffersAndSegmentsLieWhereTheFormatSays) {
  const Memory memory(small());
  const View& v = memory.view();
  EXPECT_EQ(v.buffer(1) - v.buffer(0), 64 + 4 * 1024);
  EXPECT_EQ(v.segment(2, 3) - v.clop, 2 * (64 + 4 * 1024) + 64 + 3 * 1024);
  Shape packets = small();
  packets.gather = Gather::packets;
  packets.packets = 4;
  EXPECT_EQ(packets.buffer_bytes(), 4u * 1472);
  EXPECT_EQ(Shape{}.segment_bytes, 8192u);
}

TEST(Memory, NumbersMapToDeviceBufferDescriptorAndLap) {
  Shape shape = small();
  shape.devices = 2;
  shape.descriptors = 16;
  shape.events = 64;
  const Memory memory(shape);
  const View& v = memory.view();
  for (std::uint64_t n = 0; n < 200; ++n) {
    EXPECT_EQ(v.buffer_of(n), n / 2 % 8);
    EXPECT_EQ(&v.descriptor(n) - v.ring, static_cast<std::ptrdiff_t>(n / 2 % 16));
    EXPECT_EQ(v.descriptor_lap(n), n / 2 / 16 + 1);
  }
}

TEST(Memory, ImpossibleShapesAreRefusedWithTheirName) {
  const auto refused = [](const char* word, const std::function<void(Shape&)>& change) {
    Shape shape = small();
    change(shape);
    try {
      const Memory memory(shape);
      ADD_FAILURE() << word;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused("buffers = 6", [](Shape& s) { s.buffers = 6; });
  refused("descriptors = 4", [](Shape& s) { s.descriptors = 4; });
  refused("events = 16", [](Shape& s) { s.events = 16; });
  refused("segment_bytes = 65536", [](Shape& s) { s.segment_bytes = 65536; });
  refused("segment_bytes = 100", [](Shape& s) { s.segment_bytes = 100; });
  refused("boards", [](Shape& s) { s.boards = 9; });
  refused("devices", [](Shape& s) { s.devices = 3; });
  refused("packets = 0", [](Shape& s) { s.packets = 0; });
  refused("slot_bytes", [](Shape& s) { s.slot_bytes = 1470; });
}

}  // namespace
}  // namespace nanet::contract
