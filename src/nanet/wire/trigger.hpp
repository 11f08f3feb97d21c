// SPDX-License-Identifier: Apache-2.0
// Trigger datagram, from the trigger to the readout boards: the final decisions of one frame. Layout:
// docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nanet/units.hpp"

namespace nanet::wire::trigger {

inline constexpr std::uint8_t version = 1;
inline constexpr std::size_t header_bytes = 16;
inline constexpr std::size_t trigger_bytes = 8;
inline constexpr unsigned max_triggers = 182;  // 1472 B
inline constexpr std::size_t max_bytes = header_bytes + trigger_bytes * max_triggers;
inline constexpr std::uint8_t flag_last = 0x01;  // last datagram of its burst

struct Trigger {
  Timestamp timestamp = 0;
  std::uint8_t kind = 0;  // 6 bits
  FineTime fine = 0;
  std::uint16_t event = 0;  // event number, low 16 bits
  bool operator==(const Trigger&) const = default;
};

struct Header {
  std::uint8_t flags = 0;
  std::uint8_t burst = 0;
  std::uint8_t count = 0;
  std::uint32_t sequence = 0;
  Frame frame = 0;
  bool operator==(const Header&) const = default;
};

// Writes one datagram; `out` has max_bytes, `triggers` at most max_triggers in order of time. header.count is
// ignored. Returns the bytes written.
std::size_t encode(std::byte* out, const Header& header, std::span<const Trigger> triggers) noexcept;

enum class Refusal : std::uint8_t {
  short_header,     // fewer than 16 bytes
  bad_version,      // version other than 1
  reserved_bits,    // reserved bits or bytes are not 0
  length_mismatch,  // size differs from the count, or more than 182 triggers
  outside_frame,    // a trigger of another frame
  bad_type,         // a type above 63
  not_in_order,     // periods not strictly increasing
  event_gap,        // event numbers not consecutive
  none,
};
inline constexpr std::size_t refusal_count = static_cast<std::size_t>(Refusal::none);
std::string_view name(Refusal refusal);

// Event number, 24 bits, of its low 16 bits: the one nearest to `last`.
inline std::uint32_t event_number(std::uint32_t last, std::uint16_t low) noexcept {
  const auto step = static_cast<std::int16_t>(low - static_cast<std::uint16_t>(last));
  return (last + static_cast<std::uint32_t>(std::int32_t{step})) & 0xFFFFFF;
}

// Validates and decodes; `out` has max_triggers. Safe on any bytes.
Refusal decode(std::span<const std::byte> datagram, Header& header, Trigger* out) noexcept;

}  // namespace nanet::wire::trigger
