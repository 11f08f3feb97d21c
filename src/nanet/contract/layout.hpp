// SPDX-License-Identifier: Apache-2.0
// Memory layout of the contract between card and consumer, byte for byte (docs/formats.md). Identical for all
// cards and consumers, host or GPU; independent of sockets, threads and algorithms.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::contract {

enum class Gather : std::uint8_t { frame, packets };

enum class EventType : std::uint8_t {
  receive_done = 1,
  send_done = 2,
  error = 3,
  burst_begins = 4,
  burst_ends = 5
};

namespace event_flag {
inline constexpr std::uint16_t complete = 1u << 0;
inline constexpr std::uint16_t timed_out = 1u << 1;
inline constexpr std::uint16_t truncated = 1u << 2;
inline constexpr std::uint16_t overrun = 1u << 3;
inline constexpr std::uint16_t late = 1u << 4;
inline constexpr unsigned missing_shift = 8;  // b15:8: mask of missing boards
}  // namespace event_flag

struct alignas(32) Event {
  std::uint8_t type = 0;
  std::uint8_t stream = 0;
  std::uint16_t flags = 0;
  std::uint32_t buffer = 0;  // receive: index; send: token; burst begins: base, low word
  std::uint32_t bytes = 0;   // receive: sum over the boards (frame), of lengths (packets); overrun: how many
                             // frames; burst begins: base, high word
  std::uint32_t frame = 0;   // burst begins: burst number; burst ends: last frame
  std::uint64_t time_ns = 0;
  std::uint32_t n = 0;    // low word
  std::uint32_t lap = 0;  // validity mark, written last
};
static_assert(sizeof(Event) == 32 && offsetof(Event, time_ns) == 16 && offsetof(Event, lap) == 28);

struct alignas(32) Descriptor {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t destination = 0;  // index into the card's table of UDP endpoints
  std::uint32_t token = 0;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
  std::uint32_t lap = 0;  // written last
};
static_assert(sizeof(Descriptor) == 32 && offsetof(Descriptor, destination) == 12 &&
              offsetof(Descriptor, lap) == 28);

// Content of a buffer in gather mode `frame`.
enum class Layout : std::uint8_t { segments = 0, merged = 1 };

// Reason why a merging card wrote segments; the first that applies.
enum class Unmerged : std::uint8_t {
  none = 0,
  disordered = 1,  // fragments of a board are not in order of sequence number and time
  hits = 2,        // more than merged_hits
  events = 3,      // more than merged_rows
  room = 4         // the card's memory was full
};

// First 64 B of a buffer in gather mode `frame`.
struct FrameHeader {
  std::uint32_t frame = 0;
  std::uint8_t complete = 0;  // mask of boards
  std::uint8_t expected = 0;  // mask of boards
  std::uint16_t flags = 0;    // as in the event
  struct Board {
    std::uint16_t bytes = 0;  // end of the last payload, rounded up to 16
    std::uint8_t packets = 0;
    std::uint8_t flags = 0;  // OR of the packets' header flags
  } board[max_boards];
  // Zero unless the card merges (docs/formats.md, Merged buffer).
  Layout layout = Layout::segments;
  std::uint8_t ttc = 0;                               // b0 locked, b1 in a burst, b2 lost since SOB
  std::uint16_t events = 0, fragments = 0, hits = 0;  // layout merged
  std::uint16_t rows = 0;                             // rows there is room for; hits follow them
  Unmerged unmerged = Unmerged::none;                 // reason for segments
  std::uint8_t zero[5] = {};
  std::uint32_t first_period = 0, close_period = 0;  // TTC times of the first packet and of closing
};
static_assert(sizeof(FrameHeader) == 64 && offsetof(FrameHeader, board) == 8 &&
              offsetof(FrameHeader, layout) == 40 && offsetof(FrameHeader, events) == 42 &&
              offsetof(FrameHeader, rows) == 48 && offsetof(FrameHeader, first_period) == 56);

// Event of a merged buffer; rows begin after the header, in order of opening.
struct MergedRow {
  static constexpr std::uint8_t truncated = 1u << 0;   // a fragment was truncated by its board
  static constexpr std::uint8_t disordered = 1u << 1;  // the PM IDs of a fragment do not ascend

  std::uint16_t first = 0;   // index of its first hit word
  std::int16_t sum = 0;      // sum of the hits' time differences, units of 4 LSB
  std::uint16_t opened = 0;  // time of the first fragment, LSB within the frame
  std::uint8_t boards = 0;   // mask
  std::uint8_t flags = 0;
  std::uint8_t hits[4] = {};   // of each board
  std::uint8_t delay[4] = {};  // fragment time - opened of each board
};
static_assert(sizeof(MergedRow) == 16 && offsetof(MergedRow, hits) == 8);

inline constexpr unsigned merged_boards = 4;
inline constexpr std::uint32_t merged_rows = 512, merged_hits = 8192;
inline constexpr std::int32_t merged_window_lsb = 255;  // largest merging window: delays have 8 bits

inline constexpr std::size_t frame_header_bytes = sizeof(FrameHeader);

// Part of a merged buffer that consumers read, whatever its header says: rows, hit words, offset of the
// hits.
struct MergedExtent {
  std::uint32_t rows = 0, hits = 0;
  std::size_t hits_at = frame_header_bytes;

  // events, room, hits: fields `events`, `rows` and `hits` of the header.
  NANET_HD static constexpr MergedExtent of(std::uint32_t events, std::uint32_t room, std::uint32_t hits,
                                            std::size_t buffer_bytes) {
    MergedExtent e;
    e.hits_at = frame_header_bytes + sizeof(MergedRow) * room;
    if (e.hits_at > buffer_bytes) return {};
    const auto words = static_cast<std::uint32_t>((buffer_bytes - e.hits_at) / sizeof(std::uint16_t));
    e.rows = events < room ? events : room;
    e.rows = e.rows < merged_rows ? e.rows : merged_rows;
    e.hits = hits < words ? hits : words;
    e.hits = e.hits < merged_hits ? e.hits : merged_hits;
    return e;
  }
};
// Whether consumers take a row: its hits are those of packets, follow the hits of the row before, and lie
// within the extent. A frame's events end before the first row that breaks the rule. excess: a board has more
// than max_fragment_hits; end: of the hits of the row before; within: MergedExtent::hits.
NANET_HD constexpr bool sound_row(std::uint32_t first, std::uint32_t hits, bool excess, std::uint32_t end,
                                  std::uint32_t within) {
  return !excess && first >= end && first + hits <= within;
}

inline constexpr std::size_t merged_buffer_bytes =
    frame_header_bytes + sizeof(MergedRow) * merged_rows + sizeof(std::uint16_t) * merged_hits;
inline constexpr std::size_t payload_alignment = 16;  // of payloads within a segment
inline constexpr std::uint32_t send_buffer_bytes = 1472;
// Readable bytes after the CLOP, so that a consumer may load whole vectors at the end of the last payload.
inline constexpr std::size_t tail_bytes = 128;

// Exponent of a power of two. Counts are powers of two, so that n, lap and index are shifts and masks.
NANET_HD constexpr unsigned exponent(std::uint32_t power) {
#ifdef __CUDA_ARCH__
  return 31 - static_cast<unsigned>(__clz(static_cast<int>(power)));
#else
  return static_cast<unsigned>(std::countr_zero(power));
#endif
}

// Sizes of one device's memory. All counts are powers of two.
struct Shape {
  Gather gather = Gather::frame;
  std::uint32_t boards = 4;            // segments per buffer (frame)
  std::uint32_t segment_bytes = 8192;  // frame
  std::uint32_t packets = 1;           // payload slots per buffer (packets)
  std::uint32_t slot_bytes = 1472;     // stride of a payload slot (packets)
  std::uint32_t buffers = 2048;        // N
  std::uint32_t descriptors = 2048;    // entries of the send ring, at least N
  std::uint32_t events = 8192;         // entries of the event queue, at least 2 (buffers + descriptors)
  std::uint32_t devices = 1;           // G: consumer devices that share the numbering

  NANET_HD constexpr std::size_t buffer_bytes() const {
    const std::size_t bytes = gather == Gather::frame
                                  ? frame_header_bytes + std::size_t{boards} * segment_bytes
                                  : std::size_t{packets} * slot_bytes;
    return (bytes + 63) / 64 * 64;
  }
};

// Addresses of one device's structures, for the CPU. Plain pointers; translate them for kernels.
struct View {
  Shape shape;
  std::byte* clop = nullptr;          // begin of the region
  std::size_t bytes = 0;              // of the region
  std::uint32_t* returned = nullptr;  // return slots, one per buffer
  Event* queue = nullptr;
  std::uint64_t* finished = nullptr;  // events the consumer has finished
  Descriptor* ring = nullptr;
  std::byte* send_buffers = nullptr;
  std::uint32_t* doorbell = nullptr;

  std::uint32_t buffer_of(std::uint64_t n) const {
    return static_cast<std::uint32_t>(n >> exponent(shape.devices)) & (shape.buffers - 1);
  }
  std::byte* buffer(std::uint32_t index) const { return clop + shape.buffer_bytes() * index; }
  std::byte* segment(std::uint32_t index, unsigned board) const {
    return buffer(index) + frame_header_bytes + std::size_t{board} * shape.segment_bytes;
  }
  std::byte* send_buffer(std::uint32_t index) const {
    return send_buffers + std::size_t{send_buffer_bytes} * index;
  }
  Descriptor& descriptor(std::uint64_t n) const {
    return ring[static_cast<std::uint32_t>(n >> exponent(shape.devices)) & (shape.descriptors - 1)];
  }
  std::uint32_t descriptor_lap(std::uint64_t n) const {
    return static_cast<std::uint32_t>(n >> (exponent(shape.devices) + exponent(shape.descriptors))) + 1;
  }
};

}  // namespace nanet::contract
