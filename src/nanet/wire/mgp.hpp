// SPDX-License-Identifier: Apache-2.0
// MGP, the multi-event GPU packet from readout board to card. A format of nanet; layout: docs/formats.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "nanet/units.hpp"

namespace nanet::wire::mgp {

inline constexpr std::size_t header_bytes = 16;
inline constexpr std::size_t event_header_bytes = 8;
inline constexpr std::size_t fixed_event_bytes = event_header_bytes + 2 * max_fragment_hits;  // 72
inline constexpr std::size_t eob_bytes = header_bytes + 24;
inline constexpr std::uint16_t default_max_payload = 1472;
inline constexpr unsigned max_packets_per_frame = 16;  // per board: a four-bit index
inline constexpr std::size_t max_fragments = 255;      // per packet: an eight-bit count
inline constexpr std::uint8_t version = 1;
inline constexpr std::uint16_t default_port = 58913;

namespace flag {
inline constexpr std::uint8_t sob = 1u << 0;
inline constexpr std::uint8_t eob = 1u << 1;
inline constexpr std::uint8_t truncated = 1u << 2;  // the board truncated this frame
inline constexpr std::uint8_t error = 1u << 3;      // board error
inline constexpr std::uint8_t fixed = 1u << 4;      // fixed 32-hit slots
inline constexpr std::uint8_t last = 1u << 5;       // last packet of the frame
inline constexpr std::uint8_t padded = 1u << 6;     // bytes after `length` are padding, ignored
}  // namespace flag

struct Header {
  std::uint8_t source = rich_source;
  BoardId board = 0;
  std::uint8_t version = mgp::version;
  std::uint8_t flags = 0;
  std::uint16_t length = 0;  // bytes, including this header, without padding
  std::uint8_t events = 0;
  std::uint8_t index = 0;     // b3:0 of byte 7
  std::uint8_t encoding = 0;  // b7:4 of byte 7
  Sequence sequence = 0;
  Frame frame = 0;
  std::uint8_t burst = 0;

  bool has(std::uint8_t mask) const { return (flags & mask) != 0; }
  bool operator==(const Header&) const = default;
};

// Little-endian loads and stores of unaligned bytes.
template <class T>
NANET_HD inline T load(const std::byte* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
NANET_HD inline void store(std::byte* at, T value) {
  memcpy(at, &value, sizeof value);
}

// Decodes the 16 bytes at `at`; every bit pattern is a Header.
inline Header decode_header(const std::byte* at) {
  const auto first = load<std::uint64_t>(at);
  const auto frame_burst = load<std::uint32_t>(at + 12);
  Header h;
  h.source = static_cast<std::uint8_t>(first);
  h.board = static_cast<BoardId>(first >> 8);
  h.version = static_cast<std::uint8_t>(first >> 16);
  h.flags = static_cast<std::uint8_t>(first >> 24);
  h.length = static_cast<std::uint16_t>(first >> 32);
  h.events = static_cast<std::uint8_t>(first >> 48);
  h.index = static_cast<std::uint8_t>((first >> 56) & 0xF);
  h.encoding = static_cast<std::uint8_t>(first >> 60);
  h.sequence = load<std::uint32_t>(at + 8);
  h.frame = frame_burst & 0xFFFFFF;
  h.burst = static_cast<std::uint8_t>(frame_burst >> 24);
  return h;
}
// Writes 16 bytes at `at`.
void encode_header(std::byte* at, const Header& header);

// Counts of an EOB: packets (SOB and EOB included), events and hits that the board sent in the burst.
struct EobCounts {
  std::uint32_t frames = 0;
  std::uint32_t packets = 0;
  std::uint64_t events = 0;
  std::uint64_t hits = 0;
  bool operator==(const EobCounts&) const = default;
};
EobCounts decode_eob(const std::byte* datagram);
void encode_eob(std::byte* datagram, const EobCounts& counts);  // writes bytes 16 - 39

// Reason for refusing a packet. Only the first applicable reason is counted (docs/formats.md, Refusals).
enum class Refusal : std::uint8_t {
  short_header,
  bad_version,
  bad_source,
  bad_board,
  bad_encoding,
  length_mismatch,
  oversized,
  sob_eob_with_events,
  event_past_end,
  trailing_bytes,
  timestamp_outside_frame,
  hits_above_32,
  seen_below_stored,
  pm_out_of_range,
  pm_of_other_board,
  frame_beyond_spill,
  wrong_burst,
  none,  // valid packet; equals the number of reasons
};
inline constexpr std::size_t refusal_count = static_cast<std::size_t>(Refusal::none);
std::string_view name(Refusal refusal);

// Hit encodings of the header. The wide one is for detectors with more than pm_count PMs.
inline constexpr std::uint8_t hit_encoding = 0;       // PM IDs of 11 bits, times
inline constexpr std::uint8_t wide_hit_encoding = 1;  // PM IDs of 16 bits, no times

// Configuration of validation.
struct Rules {
  std::uint8_t source = rich_source;
  std::uint8_t boards = 0xF;  // bit b set: board b is configured; 0: one merged stream, board 0xFF alone
  std::uint16_t max_payload = default_max_payload;
  Frame max_frames = default_max_frames;
  std::uint8_t encoding = hit_encoding;
  // First PM ID of each board of the detector, and its number of PMs for every board beyond.
  std::array<std::uint32_t, max_boards + 1> first_pm = {0,        512,      1024,     1536,    pm_count,
                                                        pm_count, pm_count, pm_count, pm_count};
  bool operator==(const Rules&) const = default;
};

struct Checked {
  Header header;
  Refusal refusal = Refusal::none;
  std::uint32_t fragments = 0;  // events in the packet; set if valid
  std::uint32_t hits = 0;       // hits stored in the packet; set if valid
  // Where the fragments are, in order: offset in the packet (b15:0) and time within the frame (b31:16), as in
  // the index of a mailbox. nullptr: not listed.
  const std::uint32_t* index = nullptr;
  bool truncated = false;  // a listed fragment was truncated by its board
};

// Validates one complete UDP payload. Reads only `datagram`, allocates nothing, never throws. Never returns
// `wrong_burst`, which depends on earlier packets. header is valid unless refusal is short_header.
Checked validate(std::span<const std::byte> datagram, const Rules& rules) noexcept;
// The same, and lists the fragments of a valid packet in `room` if they fit; packets of fixed slots are not
// listed.
Checked validate(std::span<const std::byte> datagram, const Rules& rules,
                 std::span<std::uint32_t> room) noexcept;

// One event of a packet: a board's fragment of a physics event, or the whole event in a merged stream.
struct Fragment {
  Timestamp timestamp = 0;
  FineTime fine = 0;
  std::uint8_t stored = 0;          // hits, at most 32
  std::uint8_t seen = 0;            // hits before truncation, saturating
  std::uint8_t flags = 0;           // b0 truncated
  const std::byte* hits = nullptr;  // stored x u16, unaligned
};
// One hit word: b10:0 PM ID, b15:11 signed time difference to the event in units of 4 LSB.
NANET_HD inline PmId hit_pm(std::uint16_t word) {
  return static_cast<PmId>(word & 0x7FF);
}
NANET_HD inline std::int32_t hit_lsb(std::uint16_t word) {
  return (static_cast<std::int16_t>(word) >> 11) * 4;
}
// The same for a hit encoding of a header.
inline PmId hit_pm(std::uint16_t word, std::uint8_t encoding) {
  return encoding == wide_hit_encoding ? word : hit_pm(word);
}
inline std::int32_t hit_lsb(std::uint16_t word, std::uint8_t encoding) {
  return encoding == wide_hit_encoding ? 0 : hit_lsb(word);
}
NANET_HD inline std::uint16_t hit_word(PmId pm, std::int32_t quarter) {
  return static_cast<std::uint16_t>((pm & 0x7FF) | (static_cast<std::uint32_t>(quarter) << 11));
}

// Iterates over the fragments of a payload; safe on any bytes. Stops at header.events or before the first
// fragment that would exceed min(length, size). `at`: packet header; `size` bytes are readable.
class FragmentReader {
 public:
  FragmentReader() = default;  // no fragments
  FragmentReader(const std::byte* at, std::size_t size, const Header& header)
      : at_(at + header_bytes),
        end_(at + (header.length < size ? header.length : size)),
        left_(header.events),
        fixed_(header.has(flag::fixed)) {}

  bool next(Fragment& f) {
    if (left_ == 0 || end_ - at_ < static_cast<std::ptrdiff_t>(event_header_bytes)) return false;
    const auto word = load<std::uint64_t>(at_);
    f.timestamp = static_cast<Timestamp>(word);
    f.fine = static_cast<FineTime>(word >> 32);
    f.stored = static_cast<std::uint8_t>(word >> 40);
    f.seen = static_cast<std::uint8_t>(word >> 48);
    f.flags = static_cast<std::uint8_t>(word >> 56);
    if (f.stored > max_fragment_hits) return false;
    const std::ptrdiff_t bytes = fixed_ ? static_cast<std::ptrdiff_t>(fixed_event_bytes)
                                        : static_cast<std::ptrdiff_t>(event_header_bytes) + 2 * f.stored;
    if (end_ - at_ < bytes) return false;
    f.hits = at_ + event_header_bytes;
    at_ += bytes;
    --left_;
    return true;
  }

 private:
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  unsigned left_ = 0;
  bool fixed_ = false;
};

// Builds one packet in a caller's buffer. add() refuses fragments beyond the size limit or max_fragments.
class PacketWriter {
 public:
  // limit: largest `length` of the packet; the buffer holds at least as many bytes.
  PacketWriter(std::byte* buffer, std::size_t limit, const Header& header);
  // hits: at most 32 hit words, stored in this order. Returns false and leaves the packet unchanged if the
  // fragment does not fit.
  bool add(Timestamp timestamp, FineTime fine, std::span<const std::uint16_t> hits, std::uint8_t seen,
           std::uint8_t flags = 0);
  // Writes the header with final length and count; ORs in the `extra` flags. Returns `length` in bytes.
  std::size_t finish(std::uint8_t extra = 0);
  unsigned events() const { return header_.events; }
  std::size_t size() const { return used_; }

 private:
  std::byte* buffer_;
  std::size_t limit_;
  std::size_t used_ = header_bytes;
  Header header_;
};

}  // namespace nanet::wire::mgp
