// SPDX-License-Identifier: Apache-2.0
// Mailbox: low-latency lines beside a CLOP (docs/formats.md, Mailbox). Every 16 B unit carries its own
// validity mark, so one load finds data and validity together, without a fence. The card writes event lines
// and segments, where possible in GPU memory; the consumer writes answers in host memory. CLOP, event queue
// and send ring hold the same data in full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/contract/layout.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#define NANET_HAS_MAILBOX 1
#endif

namespace nanet::wire::mgp {
struct Header;
}

namespace nanet::contract {

inline constexpr std::size_t unit_bytes = 16, unit_data_bytes = 12, line_bytes = 64;
inline constexpr std::uint32_t units_per_line = line_bytes / unit_bytes;

// Data of an event line: 4 units of 12 B.
struct EventLine {
  std::array<std::uint32_t, 7> event{};  // contract::Event without its lap
  std::uint16_t bytes[max_boards] = {};  // of each board, as in FrameHeader
  std::uint32_t flags = 0;
  static constexpr std::uint32_t segments = 1;  // all segments are in the mailbox
  static constexpr std::uint32_t indexed = 2;   // so are their indices; bytes[4 + b]: fragments of board b
  static constexpr std::uint32_t merged = 4;    // rows and hits are; bytes[0], bytes[1]: how many
};
static_assert(sizeof(EventLine) == units_per_line * unit_data_bytes);

// Words of an event line, as a reader assembles them from its units.
struct LineWords {
  std::uint32_t word[sizeof(EventLine) / 4];

  NANET_HD constexpr std::uint32_t bytes(unsigned board) const {
    return word[offsetof(EventLine, bytes) / 4 + board / 2] >> (board % 2 ? 16 : 0) & 0xFFFF;
  }
  NANET_HD constexpr std::uint32_t flags() const { return word[offsetof(EventLine, flags) / 4]; }
};
// Reads of a unit that the event line promises, until it counts as missing: the card has stored it before the
// line, so that it is at most a few accesses away.
inline constexpr unsigned most_unit_reads = 4096;

// Bytes of each board that a mailbox holds; longer segments are read from the CLOP. A frame at 20 MHz has
// 2.3 kB of each board.
inline constexpr std::uint32_t mailbox_segment_bytes = 4032;

// Index of a segment (fragment_index.hpp), of devices with at most this many boards: entries, and the units
// that hold them, in whole lines. A frame at 20 MHz has 120 fragments of each board; consumers number them
// with 8 bits.
inline constexpr unsigned index_boards = 4;
inline constexpr std::uint32_t index_entries = 252, index_units = 84;
inline constexpr std::uint32_t entries_per_unit = unit_data_bytes / sizeof(std::uint32_t);
static_assert(index_units * entries_per_unit >= index_entries && index_units % units_per_line == 0);

// Answer: unit 0 holds its length in bytes, the units after it hold the bytes.
inline constexpr std::size_t answer_line_bytes = 2048;
static_assert((send_buffer_bytes / unit_data_bytes + 2) * unit_bytes <= answer_line_bytes);

// Units that hold this many bytes.
NANET_HD constexpr std::uint32_t units_for(std::uint32_t bytes) {
  return (bytes + static_cast<std::uint32_t>(unit_data_bytes) - 1) /
         static_cast<std::uint32_t>(unit_data_bytes);
}
// Mark of the segments and the answer of number n; 0: this number does not use the mailbox.
NANET_HD constexpr std::uint32_t mailbox_mark(std::uint64_t n) {
  return static_cast<std::uint32_t>(n + 1);
}

// Sizes of one device's mailbox.
struct MailboxShape {
  std::uint32_t events = 0, buffers = 0, boards = 0, segment_bytes = 0;  // segment_bytes: of data

  static MailboxShape of(const Shape& shape) {
    const std::uint32_t line = units_per_line * static_cast<std::uint32_t>(unit_data_bytes);
    const std::uint32_t most =
        shape.segment_bytes < mailbox_segment_bytes ? shape.segment_bytes : mailbox_segment_bytes;
    return {shape.events, shape.buffers, shape.boards, most / line * line};
  }
  NANET_HD constexpr std::size_t segment_stride() const {
    return std::size_t{segment_bytes} / unit_data_bytes * unit_bytes;
  }
  NANET_HD constexpr std::size_t index_stride() const {
    return boards <= index_boards ? index_units * unit_bytes : 0;
  }
  NANET_HD constexpr std::size_t segments_at() const { return std::size_t{events} * line_bytes; }
  // Written by the card.
  NANET_HD constexpr std::size_t input_bytes() const { return segment(buffers, 0); }
  // Written by the consumer.
  NANET_HD constexpr std::size_t answer_bytes() const { return answer_line_bytes * buffers; }
  NANET_HD constexpr std::size_t segment(std::uint32_t buffer, unsigned board) const {
    return segments_at() + (segment_stride() + index_stride()) * (std::size_t{buffer} * boards + board);
  }
  // Rows, then hits of a merged buffer: from segment(buffer, 0), at most this many.
  NANET_HD constexpr std::uint32_t merged_bytes() const {
    return static_cast<std::uint32_t>((segment_stride() + index_stride()) * boards / unit_bytes *
                                      unit_data_bytes);
  }
  NANET_HD constexpr std::size_t index(std::uint32_t buffer, unsigned board) const {
    return segment(buffer, board) + segment_stride();
  }
};

// One device's mailbox, as addresses of one side. input is null where there is none.
struct Mailbox {
  MailboxShape shape;
  std::byte* input = nullptr;
  std::byte* answers = nullptr;
};

#ifdef NANET_HAS_MAILBOX

inline constexpr bool has_mailbox = true;

// An aligned 16 B store or load is one access to memory on x86-64 processors with AVX (Intel SDM 3A 9.1.1,
// AMD APM 2 7.3.2); PCIe carries it in one packet. In assembly: compilers split intrinsics into smaller
// accesses (g++ 12 does).
#ifdef __AVX__
#define NANET_MOVE_UNIT "vmovdqa %1, %0"
#else
#define NANET_MOVE_UNIT "movdqa %1, %0"
#endif
inline void store_unit(std::byte* at, __m128i unit) noexcept {
  asm volatile(NANET_MOVE_UNIT : "=m"(*reinterpret_cast<__m128i*>(at)) : "x"(unit));
}
inline void store_unit(std::byte* at, const std::byte* data, std::uint32_t mark) noexcept {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  const __m128i keep = _mm_set_epi32(0, -1, -1, -1);
  const __m128i flag = _mm_set_epi32(static_cast<int>(mark), 0, 0, 0);
  store_unit(at, _mm_or_si128(_mm_and_si128(bytes, keep), flag));
}
// The same from three words in registers: a load of words that have just been stored one by one would wait
// for them.
inline void store_unit(std::byte* at, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                       std::uint32_t mark) noexcept {
  store_unit(at, _mm_set_epi32(static_cast<int>(mark), static_cast<int>(z), static_cast<int>(y),
                               static_cast<int>(x)));
}
// Copies the data of a unit; returns its mark.
inline std::uint32_t load_unit(const std::byte* at, std::byte* data) noexcept {
  __m128i unit;
  asm volatile(NANET_MOVE_UNIT : "=x"(unit) : "m"(*reinterpret_cast<const __m128i*>(at)));
  alignas(16) std::uint32_t word[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(word), unit);
  std::memcpy(data, word, unit_data_bytes);
  return word[3];
}
#undef NANET_MOVE_UNIT
// Writes out combined stores to memory of a device.
inline void flush_lines() noexcept {
  _mm_sfence();
}

#else

inline constexpr bool has_mailbox = false;
inline void store_unit(std::byte*, const std::byte*, std::uint32_t) noexcept {}
inline void store_unit(std::byte*, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t) noexcept {}
inline std::uint32_t load_unit(const std::byte*, std::byte*) noexcept {
  return 0;
}
inline void flush_lines() noexcept {}

#endif

// Copies the data of a unit with this mark; returns false if it has another.
inline bool load_unit(const std::byte* at, std::uint32_t mark, std::byte* data) noexcept {
  return load_unit(at, data) == mark;
}

// Card's side of a mailbox. Without one, every call returns at once.
class MailboxWriter {
 public:
  MailboxWriter() = default;
  explicit MailboxWriter(const Mailbox& mailbox) : mailbox_(mailbox) {}
  explicit operator bool() const noexcept { return mailbox_.input != nullptr; }

  // Writes the units of a segment from `units` on that end at or before `bytes`; segment: its begin in the
  // CLOP, readable 8 B beyond. Returns the number of units written so far. The last one, which the next
  // packet may extend, is written with whole = true.
  std::uint32_t segment(std::uint64_t n, std::uint32_t buffer, unsigned board, const std::byte* segment,
                        std::uint32_t units, std::uint32_t bytes, bool whole) noexcept;
  bool holds(std::uint32_t bytes) const noexcept { return bytes <= mailbox_.shape.segment_bytes; }
  // Index of a segment whose packets come with their entries (wire::mgp::Checked::index).
  struct Index {
    std::uint8_t packets = 0, fragments = 0;
    enum class State : std::uint8_t { listed, none, unlisted } state = State::listed;
    Sequence newest = 0;
    std::array<std::uint32_t, entries_per_unit - 1> rest{};  // entries of the unit that is not full
  };
  // Adds a packet, at offset `at` of the segment, and writes the units that it fills. entries: nullptr if the
  // packet is not listed.
  void add(std::uint64_t n, std::uint32_t buffer, unsigned board, Index& index, std::uint32_t at,
           const wire::mgp::Header& header, const std::uint32_t* entries) noexcept;
  // Writes the last unit of an index whose segment is complete. Returns the number of fragments, or no_index.
  // State `unlisted`: as index().
  std::uint32_t finish(std::uint64_t n, std::uint32_t buffer, unsigned board, const Index& index,
                       const std::byte* segment, std::uint32_t bytes) noexcept;
  // Writes the index of a segment of the CLOP that is complete, from its bytes. Returns its number of
  // fragments, or no_index.
  std::uint32_t index(std::uint64_t n, std::uint32_t buffer, unsigned board, const std::byte* segment,
                      std::uint32_t bytes) noexcept;

  // Writes the rows and hits of a merged buffer, in place of segments; from: its header. Returns false, and
  // writes nothing, if they are too large.
  bool merged(std::uint64_t n, std::uint32_t buffer, const std::byte* from) noexcept;

  // Writes the event line of an entry; lap: of that entry.
  void event(const Event& event, std::uint32_t index, std::uint32_t lap, const EventLine& rest) noexcept;

  // Whether the answer of n has begun to arrive.
  bool answered(std::uint64_t n, std::uint32_t buffer) const noexcept {
    std::byte head[unit_data_bytes];
    return load_unit(mailbox_.answers + answer_line_bytes * buffer, mailbox_mark(n), head);
  }
  // Copies the answer of n to `out`, of send_buffer_bytes + unit_data_bytes; returns its length, 0 if it is
  // not there.
  std::uint32_t answer(std::uint64_t n, std::uint32_t buffer, std::byte* out) const noexcept {
    const std::uint32_t mark = mailbox_mark(n);
    const std::byte* const from = mailbox_.answers + answer_line_bytes * buffer;
    std::uint32_t head[3];
    if (mark == 0 || !load_unit(from, mark, reinterpret_cast<std::byte*>(head))) return 0;
    const std::uint32_t bytes = head[0];
    if (bytes == 0 || bytes > send_buffer_bytes) return 0;
    for (std::uint32_t u = 0; u < units_for(bytes); ++u)
      if (!load_unit(from + unit_bytes * (u + 1), mark, out + unit_data_bytes * u)) return 0;
    return bytes;
  }

 private:
  Mailbox mailbox_;
};

// Consumer's side of an answer, for consumers on the CPU and for tests.
inline void put_answer(const Mailbox& mailbox, std::uint64_t n, std::uint32_t buffer, const std::byte* answer,
                       std::uint32_t bytes) noexcept {
  const std::uint32_t mark = mailbox_mark(n);
  if (mark == 0) return;
  std::byte* const to = mailbox.answers + answer_line_bytes * buffer;
  alignas(16) std::byte unit[unit_bytes] = {};
  for (std::uint32_t u = units_for(bytes); u-- > 0;) {
    const std::uint32_t from = u * static_cast<std::uint32_t>(unit_data_bytes);
    const std::uint32_t left = bytes - from;
    std::memcpy(unit, answer + from, left < unit_data_bytes ? left : unit_data_bytes);
    store_unit(to + unit_bytes * (u + 1), unit, mark);
  }
  std::memset(unit, 0, sizeof unit);
  std::memcpy(unit, &bytes, sizeof bytes);
  store_unit(to, unit, mark);
}

}  // namespace nanet::contract
