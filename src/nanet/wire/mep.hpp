// SPDX-License-Identifier: Apache-2.0
// MEP, the multi-event packet from a readout board to the farm: NA62's format (NA62-11-02), as read by the
// public farm library. Layout: docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nanet/units.hpp"

namespace nanet::wire::mep {

inline constexpr std::size_t header_bytes = 8;
inline constexpr std::size_t event_header_bytes = 8;
inline constexpr unsigned max_events = 255;
inline constexpr std::size_t max_bytes = 1472;

struct Event {
  std::uint32_t number = 0;  // 24 bits
  Timestamp timestamp = 0;
  bool last = false;  // last event of the burst
  std::span<const std::byte> data;
};

// Packet under construction in a fixed buffer. Event numbers are consecutive.
class Writer {
 public:
  Writer(std::span<std::byte, max_bytes> out, std::uint8_t source, std::uint8_t board) noexcept
      : out_(out), source_(source), board_(board) {}
  // False, and nothing is written, where the packet is full or the number is not the next: finish it first.
  bool add(const Event& event) noexcept;
  // Completes the header and returns the packet, empty without events; the next add() begins another one.
  std::span<const std::byte> finish() noexcept;
  unsigned events() const noexcept { return events_; }

 private:
  std::span<std::byte, max_bytes> out_;
  std::uint8_t source_, board_;
  std::size_t used_ = header_bytes;
  unsigned events_ = 0;
  std::uint32_t first_ = 0;
};

enum class Refusal : std::uint8_t {
  short_header,     // fewer than 8 bytes
  bad_source,       // not the expected source ID
  bad_board,        // a board at or above the number of boards
  length_mismatch,  // size differs from the header's length
  no_events,        // an event count of 0
  event_past_end,   // an event reaches past the end, or is shorter than its header
  event_number,     // the low byte is not that of its place
  after_last,       // an event after the burst's last
  trailing_bytes,   // bytes after the last event
  none,
};
inline constexpr std::size_t refusal_count = static_cast<std::size_t>(Refusal::none);
std::string_view name(Refusal refusal);

struct Decoded {
  Refusal refusal = Refusal::none;
  std::uint8_t board = 0;
  unsigned count = 0;  // events written to `out`
};
// Validates and decodes; `out` has max_events. Data refer to `datagram`. Safe on any bytes.
Decoded decode(std::span<const std::byte> datagram, unsigned boards, Event* out,
               std::uint8_t source = rich_source) noexcept;

}  // namespace nanet::wire::mep
