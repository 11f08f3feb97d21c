// SPDX-License-Identifier: Apache-2.0
// MTP, the multi-trigger packet from trigger to L0 trigger processor: NA62 L0TP format, 32-bit variant, as
// read by the public L0TP firmware. Layout: docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nanet/units.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::wire::mtp {

inline constexpr std::size_t header_bytes = 8;
inline constexpr unsigned max_primitives = 255;
inline constexpr std::size_t max_bytes = header_bytes + 4 + 4 * max_primitives;  // 1032
inline constexpr std::uint8_t sub_id_normal = 0x00;
inline constexpr std::uint8_t sub_id_late = 0xFF;

struct Primitive {
  std::uint16_t id = 0;        // never 0
  std::uint8_t timestamp = 0;  // timestamp 7:0
  FineTime fine = 0;
  bool operator==(const Primitive&) const = default;
};

// Writes one packet of `frame`; primitives: in time order, at most 255. Header-only without primitives. `out`
// has max_bytes. Returns the bytes written.
NANET_HD inline std::size_t encode(std::byte* out, Frame frame, const Primitive* primitives, unsigned count,
                                   std::uint8_t sub_id = sub_id_normal, std::uint8_t source = rich_source) {
  const auto bytes = static_cast<std::uint32_t>(header_bytes + (count ? 4 + 4 * count : 0));
  mgp::store<std::uint32_t>(out, (static_cast<std::uint32_t>(source) << 24) | (frame & 0xFFFFFF));
  mgp::store<std::uint32_t>(out + 4, (static_cast<std::uint32_t>(sub_id) << 24) | (count << 16) | bytes);
  if (count == 0) return bytes;
  mgp::store<std::uint32_t>(out + 8, frame & 0xFFFFFF);
  for (unsigned i = 0; i < count; ++i) {
    const Primitive& p = primitives[i];
    mgp::store<std::uint32_t>(out + 12 + 4 * i, (static_cast<std::uint32_t>(p.id) << 16) |
                                                    (static_cast<std::uint32_t>(p.timestamp) << 8) | p.fine);
  }
  return bytes;
}

enum class Refusal : std::uint8_t {
  short_header,         // fewer than 8 bytes
  bad_source,           // not the expected source ID
  length_mismatch,      // datagram size is not the packet's total length, or not a multiple of 4
  count_mismatch,       // number of primitive words differs from the header
  no_timestamp_word,    // a packet with primitives does not start with a timestamp word
  ends_with_timestamp,  // the last word is a timestamp word
  not_in_order,         // primitives are not in time order
  none,
};
inline constexpr std::size_t refusal_count = static_cast<std::size_t>(Refusal::none);
std::string_view name(Refusal refusal);

struct Header {
  std::uint8_t source = rich_source;
  std::uint8_t sub_id = 0;
  std::uint8_t primitives = 0;
  std::uint16_t length = 0;
  Frame frame = 0;
  bool operator==(const Header&) const = default;
};

// Primitive with its full time.
struct TimedPrimitive {
  Lsb time = 0;  // (frame of its timestamp word << 16) | timestamp 7:0 << 8 | fine
  std::uint16_t id = 0;
  bool operator==(const TimedPrimitive&) const = default;
};

struct Decoded {
  Header header;
  Refusal refusal = Refusal::none;
  unsigned count = 0;  // primitives written to `out`
};
// Validates and decodes; `out` has max_primitives. Accepts any number of timestamp words. Safe on any bytes.
Decoded decode(std::span<const std::byte> datagram, TimedPrimitive* out,
               std::uint8_t source = rich_source) noexcept;

}  // namespace nanet::wire::mtp
