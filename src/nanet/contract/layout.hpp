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
  std::uint8_t zero[24] = {};
};
static_assert(sizeof(FrameHeader) == 64 && offsetof(FrameHeader, board) == 8);

inline constexpr std::size_t frame_header_bytes = sizeof(FrameHeader);
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
