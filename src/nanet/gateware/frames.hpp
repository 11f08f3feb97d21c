// SPDX-License-Identifier: Apache-2.0
// Frames on the simulated card's wire: captured ones made fit for its network address, and the payloads of
// those that it sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nanet/gateware/driver.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::gateware {

// Writes a captured frame to `out`, addressed to the card: its MAC address, its IP address with the checksums
// that go with it (wrong ones stay wrong). What a capture shows otherwise than the wire had it is put right:
// a checksum that the sending interface was still to fill in. `original`: bytes on the wire; a frame cut
// short stays so.
void address_to(std::vector<std::byte>& out, std::span<const std::byte> frame, std::size_t original,
                const NetworkAddress& to);

// The UDP datagram in a frame that the card sent; none: it is something else.
struct Sent {
  wire::Endpoint to;
  std::span<const std::byte> payload;
};
std::optional<Sent> sent_datagram(std::span<const std::byte> frame) noexcept;

}  // namespace nanet::gateware
