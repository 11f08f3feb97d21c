// SPDX-License-Identifier: Apache-2.0
// Ethernet, IPv4 and UDP framing of captured packets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nanet::wire {

struct Endpoint {
  std::uint32_t address = 0x7F000001;  // host byte order
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

inline constexpr std::size_t udp_frame_overhead = 14 + 20 + 8;

// Reason why a captured frame is not a UDP packet to the MGP port (docs/formats.md, Refusals).
enum class NotMgp : std::uint8_t {
  not_udp,
  other_port,
  ip_fragment,
  bad_checksum,
  not_ipv4,
  cut_short,
  udp_length,
  none
};
inline constexpr std::size_t not_mgp_count = static_cast<std::size_t>(NotMgp::none);
std::string_view name(NotMgp reason);

struct UdpFrame {
  NotMgp reason = NotMgp::none;
  std::span<const std::byte> payload;  // valid when reason is none
  Endpoint source, destination;        // likewise
};
// Parses one captured Ethernet frame. `original` is its length on the wire (longer than frame.size(): cut
// short). UDP checksum 0, IP options and Ethernet padding are accepted; VLAN tags and IPv6 are not_ipv4. Safe
// on any bytes.
UdpFrame parse_udp_frame(std::span<const std::byte> frame, std::size_t original, std::uint16_t port) noexcept;

// Writes Ethernet, IPv4 and UDP headers with checksums and the payload to `out` (udp_frame_overhead +
// payload.size() bytes). Returns the bytes written.
std::size_t build_udp_frame(std::byte* out, const Endpoint& source, const Endpoint& destination,
                            std::span<const std::byte> payload, std::uint16_t ip_id = 0) noexcept;

}  // namespace nanet::wire
