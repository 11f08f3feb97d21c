// SPDX-License-Identifier: Apache-2.0
// APEnet packet: header word, payload words, footer word (docs/formats.md, Torus). Header layout: INFN's
// published firmware; packet types, footer and extension word: nanet's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace nanet::torus {

// 128-bit word of links and routers. In memory the least significant byte comes first.
struct Word {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  // Bits low_bit + width - 1 : low_bit; width at most 64.
  constexpr std::uint64_t field(unsigned low_bit, unsigned width) const {
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    if (low_bit >= 64) return high >> (low_bit - 64) & mask;
    const std::uint64_t below = low >> low_bit;
    return (low_bit == 0 ? below : below | high << (64 - low_bit)) & mask;
  }
  // Writes a field whose bits are 0; bits of `value` beyond the width are dropped.
  constexpr void put(unsigned low_bit, unsigned width, std::uint64_t value) {
    if (width < 64) value &= (std::uint64_t{1} << width) - 1;
    if (low_bit >= 64) {
      high |= value << (low_bit - 64);
    } else {
      low |= value << low_bit;
      if (low_bit != 0) high |= value >> (64 - low_bit);
    }
  }
  bool operator==(const Word&) const = default;
};
static_assert(sizeof(Word) == 16);

inline constexpr std::size_t word_bytes = sizeof(Word);
inline constexpr std::size_t max_payload_bytes = 4096;
inline constexpr std::uint8_t vchan_inject = 0x10;  // VC code of packets from the node

enum class PacketType : std::uint8_t {
  raw = 0,
  put = 1,
  ethernet = 2,  // INFN's
  get = 3,
  get_data = 4,
  send = 5,
  done = 6,
  nack = 7,
  datagram = 8,
};
inline constexpr std::size_t packet_types = 9;
std::string_view name(PacketType type);

// Reason of a NACK and of a `failed` event.
enum class Nack : std::uint8_t {
  none = 0,
  bad_crc,
  bad_length,
  bad_type,
  bad_domain,
  out_of_range,
  no_right,
  no_slot,
  get_ring_full,
  out_of_lattice,
  bad_port,
  link_down,
  timed_out,   // at the sender
  unreadable,  // at the card: an entry of a ring, or its payload
};
inline constexpr std::size_t nack_reasons = 14;
std::string_view name(Nack reason);

namespace footer_flag {
inline constexpr std::uint8_t crc_present = 1u << 0;
inline constexpr std::uint8_t last = 1u << 1;    // last packet of the message
inline constexpr std::uint8_t notify = 1u << 2;  // event at the destination
inline constexpr std::uint8_t ack = 1u << 3;     // DONE requested
}  // namespace footer_flag

// Coordinates of a node. x has 6 bits, y and z have 5.
struct Node {
  std::uint8_t x = 0, y = 0, z = 0;

  // x 5:0, y 10:6, z 15:11: as in the header from bit 21, in footers, descriptors and events.
  static constexpr Node unpack(std::uint16_t packed) {
    return {static_cast<std::uint8_t>(packed & 63), static_cast<std::uint8_t>(packed >> 6 & 31),
            static_cast<std::uint8_t>(packed >> 11)};
  }
  constexpr std::uint16_t packed() const {
    return static_cast<std::uint16_t>((x & 63) | (y & 31) << 6 | (z & 31) << 11);
  }
  bool operator==(const Node&) const = default;
};

struct Header {
  std::uint8_t vchan = vchan_inject;
  std::uint16_t channel = 0;  // protection domain at the destination
  Node to;
  std::uint8_t intra = 0;  // port in the node
  bool reserved = false;
  bool out_of_lattice = false;
  std::uint8_t type = 0;     // PacketType; every 5-bit value can arrive
  std::uint16_t length = 0;  // payload bytes
  std::uint64_t address = 0;
  std::uint16_t hops = 0;
  std::uint8_t ecc = 0;  // as stored; secded_protect() in link_words.hpp computes it

  std::size_t payload_words() const { return (length + word_bytes - 1) / word_bytes; }
  bool operator==(const Header&) const = default;
};
Header decode_header(const Word& word);
Word encode_header(const Header& header);  // with `ecc` as given

struct Footer {
  std::uint32_t message = 0;
  Node source;
  std::uint8_t source_intra = 0;
  std::uint8_t flags = 0;
  std::uint32_t immediate = 0;
  std::uint32_t crc = 0;
  bool has(std::uint8_t mask) const { return (flags & mask) != 0; }
  bool operator==(const Footer&) const = default;
};
Footer decode_footer(const Word& word);
Word encode_footer(const Footer& footer);

// Payload word of a GET.
struct Extension {
  std::uint64_t reply_address = 0;  // 48 bits
  std::uint16_t reply_channel = 0;
  std::uint32_t bytes = 0;
  bool operator==(const Extension&) const = default;
};
Extension decode_extension(const Word& word);
Word encode_extension(const Extension& extension);

// CRC-32 of Ethernet over bytes; `crc` continues an earlier result.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);
std::uint32_t crc32(std::span<const Word> words, std::uint32_t crc = 0);

// CRC of a packet: header without the bits that routers and links rewrite, payload words, footer bits 95:0.
std::uint32_t packet_crc(const Word& header, std::span<const Word> payload, const Word& footer);

// Footer word with flag crc_present and the CRC. Header and payload are final, but for rewritten bits.
Word sealed_footer(const Word& header, std::span<const Word> payload, Footer footer);

// Bytes of the packet that starts at a destination address: a message is cut at multiples of 4096.
constexpr std::uint32_t cut(std::uint64_t address, std::uint64_t bytes_left) {
  const std::uint64_t room = max_payload_bytes - address % max_payload_bytes;
  return static_cast<std::uint32_t>(bytes_left < room ? bytes_left : room);
}

// Checks what a receiver checks before it uses a packet of nanet's own types: type, length, CRC if present.
// `out_of_lattice` where the header has that bit.
Nack check_packet(const Word& header, std::span<const Word> payload, const Word& footer);
// Whether a packet refused for its CRC carries the complement: its payload could not be read at its source.
bool unread_at_source(const Word& header, std::span<const Word> payload, const Word& footer);

}  // namespace nanet::torus
