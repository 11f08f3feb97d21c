// SPDX-License-Identifier: Apache-2.0
// Trigger datagram: encoding and validation.
#include "nanet/wire/trigger.hpp"

#include <algorithm>
#include <array>

#include "nanet/wire/mgp.hpp"

namespace nanet::wire::trigger {

namespace {

using mgp::load;
using mgp::store;

constexpr std::array<std::string_view, refusal_count + 1> names = {
    "short_header", "bad_version", "reserved_bits", "length_mismatch", "outside_frame", "bad_type",
    "not_in_order", "event_gap",   "none",
};

}  // namespace

std::string_view name(Refusal refusal) {
  return names[std::min(static_cast<std::size_t>(refusal), refusal_count)];
}

std::size_t encode(std::byte* out, const Header& header, std::span<const Trigger> triggers) noexcept {
  store<std::uint8_t>(out, version);
  store<std::uint8_t>(out + 1, header.flags);
  store<std::uint8_t>(out + 2, header.burst);
  store<std::uint8_t>(out + 3, static_cast<std::uint8_t>(triggers.size()));
  store<std::uint32_t>(out + 4, header.sequence);
  store<std::uint32_t>(out + 8, header.frame);
  store<std::uint32_t>(out + 12, 0);
  std::byte* at = out + header_bytes;
  for (const Trigger& t : triggers) {
    store<std::uint32_t>(at, t.timestamp);
    store<std::uint8_t>(at + 4, t.kind);
    store<std::uint8_t>(at + 5, t.fine);
    store<std::uint16_t>(at + 6, t.event);
    at += trigger_bytes;
  }
  return static_cast<std::size_t>(at - out);
}

Refusal decode(std::span<const std::byte> datagram, Header& header, Trigger* out) noexcept {
  if (datagram.size() < header_bytes) return Refusal::short_header;
  const std::byte* bytes = datagram.data();
  if (load<std::uint8_t>(bytes) != version) return Refusal::bad_version;
  header = {load<std::uint8_t>(bytes + 1), load<std::uint8_t>(bytes + 2), load<std::uint8_t>(bytes + 3),
            load<std::uint32_t>(bytes + 4), load<std::uint32_t>(bytes + 8)};
  if ((header.flags & ~flag_last) || header.frame >> 24 || load<std::uint32_t>(bytes + 12))
    return Refusal::reserved_bits;
  if (header.count > max_triggers || datagram.size() != header_bytes + trigger_bytes * header.count)
    return Refusal::length_mismatch;
  for (unsigned i = 0; i < header.count; ++i) {
    const std::byte* at = bytes + header_bytes + trigger_bytes * i;
    out[i] = {load<std::uint32_t>(at), load<std::uint8_t>(at + 4), load<std::uint8_t>(at + 5),
              load<std::uint16_t>(at + 6)};
    if (out[i].timestamp >> 8 != header.frame) return Refusal::outside_frame;
    if (out[i].kind > 63) return Refusal::bad_type;
    if (i > 0 && out[i].timestamp <= out[i - 1].timestamp) return Refusal::not_in_order;
    if (i > 0 && out[i].event != static_cast<std::uint16_t>(out[i - 1].event + 1)) return Refusal::event_gap;
  }
  return Refusal::none;
}

}  // namespace nanet::wire::trigger
