// SPDX-License-Identifier: Apache-2.0
// Ethernet, IPv4 (RFC 791) and UDP (RFC 768) headers: parsing captured frames and building frames for
// captures.
#include "nanet/wire/ethernet.hpp"

#include <algorithm>
#include <cstring>

namespace nanet::wire {

namespace {

constexpr std::array<std::string_view, not_mgp_count + 1> reason_names = {
    "not_udp", "other_port", "ip_fragment", "bad_checksum", "not_ipv4", "cut_short", "udp_length", "none",
};

constexpr std::size_t ethernet_bytes = 14;
constexpr std::size_t ipv4_bytes = 20;
constexpr std::size_t udp_bytes = 8;
constexpr std::uint16_t ethertype_ipv4 = 0x0800;
constexpr std::uint8_t protocol_udp = 17;
constexpr std::uint16_t more_fragments = 0x2000;
constexpr std::uint16_t fragment_offset = 0x1FFF;
constexpr std::uint16_t do_not_fragment = 0x4000;

inline std::uint16_t load_be16(const std::byte* at) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(at[0]) << 8 | static_cast<unsigned>(at[1]));
}
inline std::uint32_t load_be32(const std::byte* at) {
  return static_cast<std::uint32_t>(load_be16(at)) << 16 | load_be16(at + 2);
}
inline void store_be16(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}
inline void store_be32(std::byte* at, std::uint32_t value) {
  store_be16(at, value >> 16);
  store_be16(at + 2, value & 0xFFFF);
}

// Ones' complement sum of the bytes as big-endian 16-bit words, folded to 16 bits. The sum is independent of
// byte order (RFC 1071), so it is taken over 32-bit host words and swapped once.
std::uint32_t ones_sum(const std::byte* data, std::size_t size) {
  // Four 64-bit lanes of 32-bit words: every payload of a capture is summed here.
  using Lanes = std::uint64_t __attribute__((vector_size(32)));
  Lanes lanes{};
  std::size_t i = 0;
  for (; i + sizeof lanes <= size; i += sizeof lanes) {
    Lanes words;
    std::memcpy(&words, data + i, sizeof words);
    lanes += (words & 0xFFFFFFFF) + (words >> 32);
  }
  std::uint64_t sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; i + 4 <= size; i += 4) {
    std::uint32_t word;
    std::memcpy(&word, data + i, 4);
    sum += word;
  }
  std::uint32_t rest = 0;
  std::memcpy(&rest, data + i, size - i);
  sum += rest;
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint32_t>((sum & 0xFF) << 8 | sum >> 8);
}

inline std::uint32_t fold(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

// Pseudo-header part of a UDP checksum. `ip` is the IPv4 header.
inline std::uint32_t pseudo_sum(const std::byte* ip, std::size_t udp_length) {
  return fold(ones_sum(ip + 12, 8) + protocol_udp + static_cast<std::uint32_t>(udp_length));
}

bool udp_checksum_right(const std::byte* ip, const std::byte* udp, std::size_t udp_length) {
  const std::uint32_t given = load_be16(udp + 6);
  if (given == 0) return true;  // the sender computed no checksum
  const std::uint32_t pseudo = pseudo_sum(ip, udp_length);
  if (fold(pseudo + ones_sum(udp, udp_length)) == 0xFFFF) return true;
  // Captured before the sending interface filled it in (any loopback capture): only the pseudo header is
  // summed.
  return given == pseudo;
}

UdpFrame refused(NotMgp reason) {
  UdpFrame frame;
  frame.reason = reason;
  return frame;
}

}  // namespace

std::string_view name(NotMgp reason) {
  return reason_names[std::min(static_cast<std::size_t>(reason), not_mgp_count)];
}

UdpFrame parse_udp_frame(std::span<const std::byte> frame, std::size_t original,
                         std::uint16_t port) noexcept {
  // Header by header: a frame is cut_short when the next required header is missing.
  if (frame.size() < ethernet_bytes) return refused(NotMgp::cut_short);
  if (load_be16(frame.data() + 12) != ethertype_ipv4) return refused(NotMgp::not_ipv4);
  const std::byte* ip = frame.data() + ethernet_bytes;
  const std::size_t captured = frame.size() - ethernet_bytes;
  if (captured < ipv4_bytes) return refused(NotMgp::cut_short);
  const std::size_t header = (static_cast<std::size_t>(ip[0]) & 0xF) * 4;
  const std::size_t total = load_be16(ip + 2);
  if (static_cast<unsigned>(ip[0]) >> 4 != 4 || header < ipv4_bytes || total < header)
    return refused(NotMgp::not_ipv4);
  if (captured < header) return refused(NotMgp::cut_short);
  if (ones_sum(ip, header) != 0xFFFF) return refused(NotMgp::bad_checksum);
  if (static_cast<std::uint8_t>(ip[9]) != protocol_udp) return refused(NotMgp::not_udp);
  if ((load_be16(ip + 6) & (more_fragments | fragment_offset)) != 0) return refused(NotMgp::ip_fragment);
  if (total - header < udp_bytes) return refused(NotMgp::udp_length);
  if (captured < header + udp_bytes) return refused(NotMgp::cut_short);
  const std::byte* udp = ip + header;
  if (load_be16(udp + 2) != port) return refused(NotMgp::other_port);
  if (captured < total || frame.size() < original) return refused(NotMgp::cut_short);
  const std::size_t length = load_be16(udp + 4);
  if (length < udp_bytes || length > total - header) return refused(NotMgp::udp_length);
  if (!udp_checksum_right(ip, udp, length)) return refused(NotMgp::bad_checksum);

  UdpFrame result;
  result.payload = frame.subspan(ethernet_bytes + header + udp_bytes, length - udp_bytes);
  result.source = {load_be32(ip + 12), load_be16(udp)};
  result.destination = {load_be32(ip + 16), port};
  return result;
}

std::size_t build_udp_frame(std::byte* out, const Endpoint& source, const Endpoint& destination,
                            std::span<const std::byte> payload, std::uint16_t ip_id) noexcept {
  // MAC addresses: locally administered, derived from the IP address.
  store_be16(out, 0x0200);
  store_be32(out + 2, destination.address);
  store_be16(out + 6, 0x0200);
  store_be32(out + 8, source.address);
  store_be16(out + 12, ethertype_ipv4);

  std::byte* ip = out + ethernet_bytes;
  const std::size_t udp_length = udp_bytes + payload.size();
  store_be16(ip, 0x4500);
  store_be16(ip + 2, static_cast<std::uint32_t>(ipv4_bytes + udp_length));
  store_be16(ip + 4, ip_id);
  store_be16(ip + 6, do_not_fragment);
  store_be16(ip + 8, 64 << 8 | protocol_udp);  // time to live 64, protocol
  store_be16(ip + 10, 0);
  store_be32(ip + 12, source.address);
  store_be32(ip + 16, destination.address);
  store_be16(ip + 10, ~ones_sum(ip, ipv4_bytes) & 0xFFFF);

  std::byte* udp = ip + ipv4_bytes;
  store_be16(udp, source.port);
  store_be16(udp + 2, destination.port);
  store_be16(udp + 4, static_cast<std::uint32_t>(udp_length));
  store_be16(udp + 6, 0);
  if (!payload.empty()) std::memcpy(udp + udp_bytes, payload.data(), payload.size());
  const std::uint32_t checksum = ~fold(pseudo_sum(ip, udp_length) + ones_sum(udp, udp_length)) & 0xFFFF;
  store_be16(udp + 6, checksum == 0 ? 0xFFFF : checksum);  // 0 would mean "none"
  return udp_frame_overhead + payload.size();
}

}  // namespace nanet::wire
