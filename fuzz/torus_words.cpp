// SPDX-License-Identifier: Apache-2.0
// Fuzz target for the words of torus packets and links: decoders and encoders are inverse, SECDED corrects
// one wrong bit and refuses two, and the CRCs notice every change.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "nanet/torus/link_words.hpp"
#include "nanet/torus/packet.hpp"

namespace {

using namespace nanet::torus;

void require(bool holds) {
  if (!holds) std::abort();
}

void flip(Word& word, unsigned bit) {
  (bit < 64 ? word.low : word.high) ^= std::uint64_t{1} << bit % 64;
}

void fields(const Word& word) {
  require(encode_header(decode_header(word)) == word);
  const Footer footer = decode_footer(word);
  require(decode_footer(encode_footer(footer)) == footer);
  const Extension extension = decode_extension(word);
  require(decode_extension(encode_extension(extension)) == extension);
  const Credit credit = decode_credit(word);
  require(decode_credit(encode_credit(credit)) == credit);
}

void secded(const Word& word, unsigned first, unsigned second) {
  const Word good = secded_protect(word);
  require(secded_correct(good).result == Secded::clean);
  Word wrong = good;
  flip(wrong, first);
  const Corrected one = secded_correct(wrong);
  require(one.result == Secded::corrected && one.word == good);
  if (first == second) return;
  flip(wrong, second);
  require(secded_correct(wrong).result == Secded::uncorrectable);
}

// words: header, payload, footer. `bit`: wrong in the payload.
void packet(std::span<const Word> words, unsigned bit) {
  const std::span<const Word> payload = words.subspan(1, words.size() - 2);
  Word header = words.front();
  const Nack before = check_packet(header, payload, words.back());
  require(static_cast<std::size_t>(before) < nack_reasons && !name(before).empty());
  const Word sealed = sealed_footer(header, payload, decode_footer(words.back()));
  require(check_packet(header, payload, sealed) != Nack::bad_crc);
  if (payload.empty()) return;
  std::vector<Word> damaged(payload.begin(), payload.end());
  flip(damaged[bit % damaged.size()], bit % 128);
  require(packet_crc(header, damaged, sealed) != packet_crc(header, payload, sealed));
}

void cell(std::span<const Word> words, unsigned bit) {
  const std::span<const Word> content = words.first(std::min<std::size_t>(words.size() - 1, max_cell_words));
  Word control = encode_control(decode_control(words.back()), content);
  require(control_is_right(control, content));
  flip(control, bit % 128);
  require(!control_is_right(control, content));
  static_cast<void>(control_is_right(words.back(), words));
}

}  // namespace

// First two bytes: bits to invert. Then words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 + 2 * word_bytes) return 0;
  std::vector<Word> words(std::min<std::size_t>((size - 2) / word_bytes, 2 + max_payload_bytes / word_bytes));
  std::memcpy(words.data(), data + 2, words.size() * word_bytes);
  for (const Word& word : words) {
    fields(word);
    secded(word, data[0] % 128, data[1] % 128);
  }
  packet(words, data[0] + 256u * data[1]);
  cell(words, data[1]);
  return 0;
}
