// SPDX-License-Identifier: Apache-2.0
// Words of the torus links: SECDED, CREDIT, control words.
#include "nanet/torus/link_words.hpp"

#include <bit>

namespace nanet::torus {

namespace {

// Data bit i stands at the i-th position of 1 - 127 that is no power of two.
constexpr auto positions = [] {
  std::array<std::uint8_t, 120> at{};
  unsigned bit = 0;
  for (unsigned place = 1; place < 128; ++place)
    if (!std::has_single_bit(place)) at[bit++] = static_cast<std::uint8_t>(place);
  return at;
}();

// Data bits that p[k], k = 1 - 7, covers.
constexpr auto masks = [] {
  std::array<Word, 8> mask{};
  for (unsigned k = 1; k < 8; ++k)
    for (unsigned bit = 0; bit < 120; ++bit)
      if ((positions[bit] >> (k - 1) & 1) != 0) mask[k].put(bit, 1, 1);
  return mask;
}();

constexpr std::uint64_t data_high = (std::uint64_t{1} << 56) - 1;

unsigned ones(const Word& word) {
  return static_cast<unsigned>(std::popcount(word.low) + std::popcount(word.high));
}

}  // namespace

std::uint8_t secded_byte(const Word& word) {
  const Word data{word.low, word.high & data_high};
  unsigned byte = 0;
  for (unsigned k = 1; k < 8; ++k)
    byte |= (ones({data.low & masks[k].low, data.high & masks[k].high}) & 1) << k;
  return static_cast<std::uint8_t>(byte | ((ones(data) + static_cast<unsigned>(std::popcount(byte))) & 1));
}

Word secded_protect(Word word) {
  word.high = (word.high & data_high) | std::uint64_t{secded_byte(word)} << 56;
  return word;
}

Corrected secded_correct(const Word& word) {
  const unsigned syndrome = (secded_byte(word) ^ static_cast<unsigned>(word.high >> 56)) >> 1;
  if ((ones(word) & 1) == 0) return {word, syndrome == 0 ? Secded::clean : Secded::uncorrectable};
  Word data = word;
  if (syndrome != 0 && !std::has_single_bit(syndrome)) {
    // Powers of two below the position stand before its data bit, and so does position 0.
    const unsigned bit = syndrome - static_cast<unsigned>(std::bit_width(syndrome)) - 1;
    (bit < 64 ? data.low : data.high) ^= std::uint64_t{1} << bit % 64;
  }
  return {secded_protect(data), Secded::corrected};
}

Credit decode_credit(const Word& word) {
  Credit credit;
  for (unsigned vc = 0; vc < 2; ++vc)
    credit.vc[vc] = {static_cast<std::uint8_t>(word.field(18 * vc, 8)),
                     static_cast<std::uint16_t>(word.field(18 * vc + 8, 10))};
  return credit;
}

Word encode_credit(const Credit& credit) {
  Word word;
  for (unsigned vc = 0; vc < 2; ++vc) {
    word.put(18 * vc, 8, credit.vc[vc].headers);
    word.put(18 * vc + 8, 10, credit.vc[vc].data);
  }
  return secded_protect(word);
}

Control decode_control(const Word& word) {
  Control c;
  c.type = static_cast<std::uint8_t>(word.field(8, 4));
  c.vc = static_cast<std::uint8_t>(word.field(12, 1));
  c.resend = word.field(13, 1) != 0;
  c.count = static_cast<std::uint8_t>(word.field(16, 5));
  c.sequence = static_cast<std::uint8_t>(word.field(24, 8));
  c.acknowledge = static_cast<std::uint8_t>(word.field(32, 8));
  c.freed = {static_cast<std::uint16_t>(word.field(40, 16)), static_cast<std::uint16_t>(word.field(56, 16))};
  c.node = Node::unpack(static_cast<std::uint16_t>(word.field(72, 16)));
  c.port = static_cast<std::uint8_t>(word.field(88, 3));
  c.crc = static_cast<std::uint32_t>(word.field(96, 32));
  return c;
}

Word encode_control(Control c, std::span<const Word> cell) {
  Word word;
  word.put(0, 8, control_comma);
  word.put(8, 4, c.type);
  word.put(12, 1, c.vc);
  word.put(13, 1, c.resend ? 1 : 0);
  word.put(16, 5, cell.size());
  word.put(24, 8, c.sequence);
  word.put(32, 8, c.acknowledge);
  word.put(40, 16, c.freed[0]);
  word.put(56, 16, c.freed[1]);
  word.put(72, 16, c.node.packed());
  word.put(88, 3, c.port);
  const auto front = std::as_bytes(std::span<const Word>(&word, 1)).first(12);
  word.put(96, 32, crc32(front, crc32(cell)));
  return word;
}

bool control_is_right(const Word& word, std::span<const Word> cell) {
  if (cell.size() > max_cell_words) return false;
  return encode_control(decode_control(word), cell) == word;
}

}  // namespace nanet::torus
