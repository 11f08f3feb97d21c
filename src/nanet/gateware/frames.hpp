// SPDX-License-Identifier: Apache-2.0
// Frames on the simulated card's wire: readdresses captured frames to the card, and parses frames it sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nanet/gateware/driver.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::gateware {

// Writes a captured frame to `out`, readdressed to the card: MAC address, IP address and checksums. Wrong
// checksums stay wrong; a checksum left to the interface hardware is filled in. original: bytes on the wire;
// a truncated frame stays truncated.
void address_to(std::vector<std::byte>& out, std::span<const std::byte> frame, std::size_t original,
                const NetworkAddress& to);

// UDP datagram in a frame sent by the card; nullopt for other frames.
struct Sent {
  wire::Endpoint to;
  std::span<const std::byte> payload;
};
std::optional<Sent> sent_datagram(std::span<const std::byte> frame) noexcept;

}  // namespace nanet::gateware
