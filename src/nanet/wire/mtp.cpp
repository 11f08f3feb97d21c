// SPDX-License-Identifier: Apache-2.0
// MTP decoding with all checks of an L0 trigger processor.
#include "nanet/wire/mtp.hpp"

#include <algorithm>
#include <array>

namespace nanet::wire::mtp {

namespace {

constexpr std::array<std::string_view, refusal_count + 1> refusal_names = {
    "short_header",      "bad_source",          "length_mismatch", "count_mismatch",
    "no_timestamp_word", "ends_with_timestamp", "not_in_order",    "none",
};

inline std::uint32_t word_at(std::span<const std::byte> datagram, std::size_t index) {
  return mgp::load<std::uint32_t>(datagram.data() + 4 * index);
}
inline bool is_timestamp(std::uint32_t word) {
  return word >> 24 == 0;
}

constexpr std::size_t header_words = header_bytes / 4;

Refusal check_layout(std::span<const std::byte> datagram, const Header& h, std::uint8_t source) {
  if (h.source != source) return Refusal::bad_source;
  if (datagram.size() != h.length || datagram.size() % 4 != 0) return Refusal::length_mismatch;
  const std::size_t words = datagram.size() / 4;
  std::size_t primitives = 0;
  for (std::size_t i = header_words; i < words; ++i) primitives += !is_timestamp(word_at(datagram, i));
  if (primitives != h.primitives) return Refusal::count_mismatch;
  if (words == header_words) return Refusal::none;
  if (!is_timestamp(word_at(datagram, header_words))) return Refusal::no_timestamp_word;
  if (is_timestamp(word_at(datagram, words - 1))) return Refusal::ends_with_timestamp;
  return Refusal::none;
}

}  // namespace

std::string_view name(Refusal refusal) {
  return refusal_names[std::min(static_cast<std::size_t>(refusal), refusal_count)];
}

Decoded decode(std::span<const std::byte> datagram, TimedPrimitive* out, std::uint8_t source) noexcept {
  Decoded decoded;
  if (datagram.size() < header_bytes) {
    decoded.refusal = Refusal::short_header;
    return decoded;
  }
  Header& h = decoded.header;
  h.source = static_cast<std::uint8_t>(word_at(datagram, 0) >> 24);
  h.frame = word_at(datagram, 0) & 0xFFFFFF;
  h.sub_id = static_cast<std::uint8_t>(word_at(datagram, 1) >> 24);
  h.primitives = static_cast<std::uint8_t>(word_at(datagram, 1) >> 16);
  h.length = static_cast<std::uint16_t>(word_at(datagram, 1));
  decoded.refusal = check_layout(datagram, h, source);
  if (decoded.refusal != Refusal::none) return decoded;

  // The count has been checked: at most 255 primitives.
  Lsb frame_start = 0;
  unsigned count = 0;
  for (std::size_t i = header_words; i < datagram.size() / 4; ++i) {
    const std::uint32_t word = word_at(datagram, i);
    if (is_timestamp(word)) {
      frame_start = Lsb{word} * lsb_per_frame;
      continue;
    }
    out[count] = {frame_start + (word & 0xFFFF), static_cast<std::uint16_t>(word >> 16)};
    if (count > 0 && out[count].time < out[count - 1].time) {
      decoded.refusal = Refusal::not_in_order;
      return decoded;
    }
    ++count;
  }
  decoded.count = count;
  return decoded;
}

}  // namespace nanet::wire::mtp
