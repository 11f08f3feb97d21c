// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/frames.hpp"

#include <algorithm>
#include <cstring>

namespace nanet::gateware {
namespace {

constexpr std::size_t ethernet = 14, ipv4 = 20, udp_bytes = 8;
constexpr unsigned type_ipv4 = 0x0800, udp_protocol = 17;

unsigned load16(const std::byte* at) {
  return static_cast<unsigned>(at[0]) << 8 | static_cast<unsigned>(at[1]);
}
std::uint32_t load32(const std::byte* at) {
  return static_cast<std::uint32_t>(load16(at)) << 16 | load16(at + 2);
}
void store16(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}
std::uint32_t fold(std::uint64_t sum) {
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint32_t>(sum);
}
std::uint32_t sum16(const std::byte* at, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes; i += 2) sum += load16(at + i);
  if (bytes % 2) sum += static_cast<std::uint32_t>(at[bytes - 1]) << 8;
  return fold(sum);
}
// Updates a checksum after 32 bits of its data have changed (RFC 1624, eqn. 3).
std::uint32_t adjusted(std::uint32_t checksum, std::uint32_t before, std::uint32_t after) {
  std::uint64_t sum = ~checksum & 0xFFFF;
  for (const std::uint32_t half : {before >> 16, before & 0xFFFF}) sum += ~half & 0xFFFF;
  sum += (after >> 16) + (after & 0xFFFF);
  return ~fold(sum) & 0xFFFF;
}

}  // namespace

void address_to(std::vector<std::byte>& out, std::span<const std::byte> frame, std::size_t original,
                const NetworkAddress& to) {
  out.assign(frame.begin(), frame.end());
  if (out.size() < ethernet) return;
  for (unsigned i = 0; i < 6; ++i) out[i] = static_cast<std::byte>(to.mac >> (40 - 8 * i));
  std::byte* const ip = out.data() + ethernet;
  const std::size_t captured = out.size() - ethernet;
  if (load16(out.data() + 12) != type_ipv4 || captured < ipv4) return;
  const std::size_t header = (static_cast<std::size_t>(ip[0]) & 0xF) * 4, total = load16(ip + 2);
  if (static_cast<unsigned>(ip[0]) >> 4 != 4 || header < ipv4 || total < header || captured < header) return;
  const std::uint32_t before = load32(ip + 16);
  const bool datagram = static_cast<unsigned>(ip[9]) == udp_protocol && (load16(ip + 6) & 0x3FFF) == 0 &&
                        captured >= header + udp_bytes;
  std::byte* const udp = ip + header;
  std::uint32_t checksum = datagram ? load16(udp + 6) : 0;
  const std::size_t length = datagram ? load16(udp + 4) : 0;
  bool whole = false;
  if (checksum && length >= udp_bytes && length <= total - header && captured >= header + length) {
    const std::uint32_t pseudo = fold(std::uint64_t{sum16(ip + 12, 8)} + udp_protocol + length);
    const bool right = fold(std::uint64_t{pseudo} + sum16(udp, length)) == 0xFFFF;
    whole = !right && checksum == pseudo;  // only the pseudo header is summed so far
  }
  store16(ip + 10, adjusted(load16(ip + 10), before, to.ip));
  store16(ip + 16, to.ip >> 16);
  store16(ip + 18, to.ip);
  if (checksum) {
    if (whole) {
      store16(udp + 6, 0);
      const std::uint32_t pseudo = fold(std::uint64_t{sum16(ip + 12, 8)} + udp_protocol + length);
      checksum = ~fold(std::uint64_t{pseudo} + sum16(udp, length)) & 0xFFFF;
    } else {
      checksum = adjusted(checksum, before, to.ip);
    }
    store16(udp + 6, checksum ? checksum : 0xFFFF);
  }
  // Truncation directly after the IP packet is invisible on the wire, so one more byte is cut.
  if (frame.size() >= original || captured < total) return;
  if (datagram && total == header + udp_bytes) {
    // A cut there would remove the UDP header, which identifies the packet. Instead the length is increased
    // by one.
    store16(ip + 10, adjusted(load16(ip + 10), static_cast<std::uint32_t>(total),
                              static_cast<std::uint32_t>(total) + 1));
    store16(ip + 2, static_cast<std::uint32_t>(total) + 1);
    out.resize(ethernet + total);
  } else {
    out.resize(ethernet + std::max(header, total - 1));
  }
}

std::optional<Sent> sent_datagram(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ethernet + ipv4 + udp_bytes || load16(frame.data() + 12) != type_ipv4)
    return std::nullopt;
  const std::byte* const ip = frame.data() + ethernet;
  const std::size_t header = (static_cast<std::size_t>(ip[0]) & 0xF) * 4;
  if (static_cast<unsigned>(ip[9]) != udp_protocol || frame.size() < ethernet + header + udp_bytes)
    return std::nullopt;
  const std::byte* const udp = ip + header;
  const std::size_t length = load16(udp + 4);
  if (length < udp_bytes || frame.size() < ethernet + header + length) return std::nullopt;
  return Sent{{load32(ip + 16), static_cast<std::uint16_t>(load16(udp + 2))},
              frame.subspan(ethernet + header + udp_bytes, length - udp_bytes)};
}

}  // namespace nanet::gateware
