// SPDX-License-Identifier: Apache-2.0
// Words of the torus links (docs/formats.md): `apelink`, compatible with INFN's firmware, and `reliable`.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nanet/torus/packet.hpp"

namespace nanet::torus {

inline constexpr Word magic{0xFFFFAAAA5555AAAA, 0xFFFFAAAA5555AAAA};
inline constexpr Word start{0xFFFFBBBB6666BBBB, 0xFFFFBBBB6666BBBB};

// Check byte of bits 119:0: extended Hamming code (128,120).
std::uint8_t secded_byte(const Word& word);
// The word with its check byte in bits 127:120.
Word secded_protect(Word word);
enum class Secded : std::uint8_t { clean, corrected, uncorrectable };
struct Corrected {
  Word word;  // uncorrectable: as received
  Secded result = Secded::clean;
};
Corrected secded_correct(const Word& word);

// CREDIT of apelink: words in use in the sender's receive FIFOs, configured margin included.
struct Credit {
  struct Vc {
    std::uint8_t headers = 0;
    std::uint16_t data = 0;  // 10 bits
    bool operator==(const Vc&) const = default;
  };
  std::array<Vc, 2> vc{};
  bool operator==(const Credit&) const = default;
};
Credit decode_credit(const Word& word);
Word encode_credit(const Credit& credit);  // with the check byte

enum class ControlType : std::uint8_t { idle = 0, cell = 1, training = 2, ready = 3 };

// Control word of the reliable link. It follows the words of its cell.
struct Control {
  std::uint8_t type = 0;  // ControlType
  std::uint8_t vc = 0;
  bool resend = false;
  std::uint8_t count = 0;  // words in the cell, at most 16
  std::uint8_t sequence = 0;
  std::uint8_t acknowledge = 0;
  std::array<std::uint16_t, 2> freed{};  // words per VC since training, mod 2^16
  Node node;                             // training and ready
  std::uint8_t port = 0;
  std::uint32_t crc = 0;
  bool operator==(const Control&) const = default;
};
inline constexpr std::uint8_t control_comma = 0xBC;
inline constexpr unsigned max_cell_words = 16;
Control decode_control(const Word& word);
// Word with comma, count and CRC; `control.count` and `control.crc` are ignored.
Word encode_control(Control control, std::span<const Word> cell);
// Comma, count, CRC and reserved bits fit the words of the cell.
bool control_is_right(const Word& word, std::span<const Word> cell);

}  // namespace nanet::torus
