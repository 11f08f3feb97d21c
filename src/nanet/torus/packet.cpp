// SPDX-License-Identifier: Apache-2.0
// APEnet packet: field positions, CRC and checks.
#include "nanet/torus/packet.hpp"

namespace nanet::torus {

namespace {

// Slicing by 16: one table lookup per byte and no dependency between the bytes of a word.
constexpr auto crc_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 16> tables{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    tables[0][n] = crc;
  }
  for (std::uint32_t n = 0; n < 256; ++n)
    for (std::size_t t = 1; t < 16; ++t)
      tables[t][n] = tables[t - 1][n] >> 8 ^ tables[0][tables[t - 1][n] & 0xFF];
  return tables;
}();

std::uint32_t step_word(std::uint32_t crc, std::uint64_t low, std::uint64_t high) {
  low ^= crc;
  std::uint32_t next = 0;
  for (unsigned byte = 0; byte < 8; ++byte) {
    next ^= crc_tables[15 - byte][low >> (8 * byte) & 0xFF];
    next ^= crc_tables[7 - byte][high >> (8 * byte) & 0xFF];
  }
  return next;
}

}  // namespace

std::string_view name(PacketType type) {
  static constexpr std::string_view names[packet_types] = {"raw",  "put",  "ethernet", "get",     "get_data",
                                                           "send", "done", "nack",     "datagram"};
  const auto index = static_cast<std::size_t>(type);
  return index < packet_types ? names[index] : "unknown";
}

std::string_view name(Nack reason) {
  static constexpr std::string_view names[nack_reasons] = {
      "none",    "bad_crc",       "bad_length",     "bad_type", "bad_domain", "out_of_range", "no_right",
      "no_slot", "get_ring_full", "out_of_lattice", "bad_port", "link_down",  "timed_out",    "unreadable"};
  const auto index = static_cast<std::size_t>(reason);
  return index < nack_reasons ? names[index] : "unknown";
}

Header decode_header(const Word& word) {
  Header h;
  h.vchan = static_cast<std::uint8_t>(word.field(0, 5));
  h.channel = static_cast<std::uint16_t>(word.field(5, 16));
  h.to = Node::unpack(static_cast<std::uint16_t>(word.field(21, 16)));
  h.intra = static_cast<std::uint8_t>(word.field(37, 4));
  h.reserved = word.field(41, 1) != 0;
  h.out_of_lattice = word.field(42, 1) != 0;
  h.type = static_cast<std::uint8_t>(word.field(43, 5));
  h.length = static_cast<std::uint16_t>(word.field(48, 14));
  h.address = word.field(62, 48);
  h.hops = static_cast<std::uint16_t>(word.field(110, 10));
  h.ecc = static_cast<std::uint8_t>(word.field(120, 8));
  return h;
}

Word encode_header(const Header& h) {
  Word word;
  word.put(0, 5, h.vchan);
  word.put(5, 16, h.channel);
  word.put(21, 16, h.to.packed());
  word.put(37, 4, h.intra);
  word.put(41, 1, h.reserved ? 1 : 0);
  word.put(42, 1, h.out_of_lattice ? 1 : 0);
  word.put(43, 5, h.type);
  word.put(48, 14, h.length);
  word.put(62, 48, h.address);
  word.put(110, 10, h.hops);
  word.put(120, 8, h.ecc);
  return word;
}

Footer decode_footer(const Word& word) {
  Footer f;
  f.message = static_cast<std::uint32_t>(word.field(0, 32));
  f.source = Node::unpack(static_cast<std::uint16_t>(word.field(32, 16)));
  f.source_intra = static_cast<std::uint8_t>(word.field(48, 4));
  f.flags = static_cast<std::uint8_t>(word.field(56, 8));
  f.immediate = static_cast<std::uint32_t>(word.field(64, 32));
  f.crc = static_cast<std::uint32_t>(word.field(96, 32));
  return f;
}

Word encode_footer(const Footer& f) {
  Word word;
  word.put(0, 32, f.message);
  word.put(32, 16, f.source.packed());
  word.put(48, 4, f.source_intra);
  word.put(56, 8, f.flags);
  word.put(64, 32, f.immediate);
  word.put(96, 32, f.crc);
  return word;
}

Extension decode_extension(const Word& word) {
  return {word.field(0, 48), static_cast<std::uint16_t>(word.field(48, 16)),
          static_cast<std::uint32_t>(word.field(64, 32))};
}

Word encode_extension(const Extension& e) {
  Word word;
  word.put(0, 48, e.reply_address);
  word.put(48, 16, e.reply_channel);
  word.put(64, 32, e.bytes);
  return word;
}

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  crc = ~crc;
  while (bytes.size() >= word_bytes) {
    Word word;
    std::memcpy(&word, bytes.data(), word_bytes);
    crc = step_word(crc, word.low, word.high);
    bytes = bytes.subspan(word_bytes);
  }
  for (const std::byte byte : bytes)
    crc = crc >> 8 ^ crc_tables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

std::uint32_t crc32(std::span<const Word> words, std::uint32_t crc) {
  return crc32(std::as_bytes(words), crc);
}

std::uint32_t packet_crc(const Word& header, std::span<const Word> payload, const Word& footer) {
  Word kept = header;
  kept.low &= ~(std::uint64_t{0x1F} | std::uint64_t{1} << 42);
  kept.high &= (std::uint64_t{1} << (110 - 64)) - 1;
  std::uint32_t crc = crc32(std::span<const Word>(&kept, 1));
  crc = crc32(payload, crc);
  return crc32(std::as_bytes(std::span<const Word>(&footer, 1)).first(12), crc);
}

Word sealed_footer(const Word& header, std::span<const Word> payload, Footer footer) {
  footer.flags |= footer_flag::crc_present;
  footer.crc = 0;
  footer.crc = packet_crc(header, payload, encode_footer(footer));
  return encode_footer(footer);
}

bool unread_at_source(const Word& header, std::span<const Word> payload, const Word& footer) {
  return decode_footer(footer).crc == ~packet_crc(header, payload, footer);
}

Nack check_packet(const Word& header, std::span<const Word> payload, const Word& footer) {
  const Header h = decode_header(header);
  const auto type = static_cast<PacketType>(h.type);
  if (h.payload_words() != payload.size() || h.length > max_payload_bytes) return Nack::bad_length;
  if (h.out_of_lattice) return Nack::out_of_lattice;
  if (type == PacketType::raw || type == PacketType::ethernet) return Nack::none;
  const Footer f = decode_footer(footer);
  if (f.has(footer_flag::crc_present) && f.crc != packet_crc(header, payload, footer)) return Nack::bad_crc;
  switch (type) {
    case PacketType::get:
      return h.length == word_bytes ? Nack::none : Nack::bad_length;
    case PacketType::done:
    case PacketType::nack:
      return h.length == 0 ? Nack::none : Nack::bad_length;
    case PacketType::put:
    case PacketType::get_data:
      return h.length <= cut(h.address, h.length) ? Nack::none : Nack::bad_length;
    case PacketType::send:
      return Nack::none;
    case PacketType::datagram:
      return h.length >= 2 * word_bytes ? Nack::none : Nack::bad_length;
    default:
      return Nack::bad_type;
  }
}

}  // namespace nanet::torus
