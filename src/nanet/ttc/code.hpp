// SPDX-License-Identifier: Apache-2.0
// TTC frames of the B channel: encoding, check bits, SEC-DED decoding. Layout: docs/formats.md.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace nanet::ttc {

// One frame: a short broadcast of 8 bits, or an addressed word of 32 bits {A13..A0, E, 1, S7..S0, D7..D0}.
struct Command {
  bool addressed = false;
  std::uint32_t data = 0;
  bool operator==(const Command&) const = default;
};

// Bits of a short broadcast.
inline constexpr std::uint32_t bunch_reset = 0x01;  // BCR
inline constexpr std::uint32_t event_reset = 0x02;  // ECR
inline constexpr std::uint32_t start_of_burst = bunch_reset | event_reset;
inline constexpr std::uint32_t end_of_burst = event_reset;
// Short broadcast of a trigger type: Brcst<7:2>.
constexpr Command type_command(unsigned kind) {
  return {false, (kind & 0x3F) << 2};
}

// Data bits of each check bit, h0 first (CERN, SLAC and Stockholm agree).
inline constexpr std::array<std::uint32_t, 5> short_masks = {0x0F, 0x71, 0xB6, 0xDA, 0xED};
inline constexpr std::array<std::uint32_t, 7> long_masks = {0x0000003F, 0x001FFFC0, 0x0FE03FC0, 0x71E3C3C7,
                                                            0xB66CCCD9, 0xDAB5556A, 0xED3A65B4};

constexpr std::uint32_t check_bits(const Command& command) {
  std::uint32_t check = 0;
  if (command.addressed)
    for (unsigned i = 0; i < long_masks.size(); ++i)
      check |= static_cast<std::uint32_t>(std::popcount(command.data & long_masks[i]) & 1) << i;
  else
    for (unsigned i = 0; i < short_masks.size(); ++i)
      check |= static_cast<std::uint32_t>(std::popcount(command.data & short_masks[i]) & 1) << i;
  return check;
}

inline constexpr unsigned short_bits = 16;
inline constexpr unsigned long_bits = 42;
constexpr unsigned bits_of(bool addressed) {
  return addressed ? long_bits : short_bits;
}
constexpr unsigned checks_of(bool addressed) {
  return addressed ? 7 : 5;
}

// Bits on the line, right-aligned; the most significant one is sent first.
constexpr std::uint64_t encode(const Command& command) {
  const unsigned checks = checks_of(command.addressed);
  const std::uint64_t word = (std::uint64_t{command.data} << checks) | check_bits(command);
  return (command.addressed ? std::uint64_t{1} << 40 : 0) | (word << 1) | 1;
}

enum class Status : std::uint8_t { clean, corrected, refused };
struct Decoded {
  Status status = Status::refused;
  Command command;
};

// Decodes data and check bits (13 or 39 bits, check bits lowest). Every column of the code has odd weight, so
// the overall parity of the syndrome separates one error (corrected) from two (refused).
constexpr Decoded decode(bool addressed, std::uint64_t word) {
  const unsigned checks = checks_of(addressed);
  const Command received{addressed, static_cast<std::uint32_t>(word >> checks)};
  const std::uint32_t syndrome =
      check_bits(received) ^ (static_cast<std::uint32_t>(word) & ((1U << checks) - 1));
  if (syndrome == 0) return {Status::clean, received};
  if (std::popcount(syndrome) % 2 == 0) return {Status::refused, received};
  if (std::popcount(syndrome) == 1) return {Status::corrected, received};  // a check bit
  for (unsigned bit = 0; bit < (addressed ? 32U : 8U); ++bit)
    if (check_bits({addressed, 1U << bit}) == syndrome)
      return {Status::corrected, {addressed, received.data ^ (1U << bit)}};
  return {Status::refused, received};  // at least three errors
}

// Receiver of the B channel, one bit a period. After a bad stop bit, and at the start, it waits for an idle
// line: `idle_bits` ones, more than any frame contains.
class FrameReceiver {
 public:
  static constexpr unsigned idle_bits = 42;
  enum class Outcome : std::uint8_t { none, clean, corrected, refused, bad_stop };

  // Takes one bit; `command` is set for `clean` and `corrected`.
  Outcome push(bool bit, Command& command) noexcept {
    if (state_ == State::hunt) {
      ones_ = bit ? ones_ + 1 : 0;
      if (ones_ == idle_bits) state_ = State::idle;
      return Outcome::none;
    }
    if (state_ == State::idle) {
      if (!bit) state_ = State::format;
      return Outcome::none;
    }
    if (state_ == State::format) {
      addressed_ = bit;
      left_ = bits_of(bit) - 3;
      word_ = 0;
      state_ = State::word;
      return Outcome::none;
    }
    if (left_ > 0) {
      word_ = word_ << 1 | static_cast<std::uint64_t>(bit);
      --left_;
      return Outcome::none;
    }
    ones_ = 0;
    state_ = bit ? State::idle : State::hunt;
    if (!bit) return Outcome::bad_stop;
    const Decoded decoded = decode(addressed_, word_);
    command = decoded.command;
    if (decoded.status == Status::refused) return Outcome::refused;
    return decoded.status == Status::clean ? Outcome::clean : Outcome::corrected;
  }
  void unlock() noexcept {
    state_ = State::hunt;
    ones_ = 0;
  }

 private:
  enum class State : std::uint8_t { hunt, idle, format, word };
  State state_ = State::hunt;
  bool addressed_ = false;
  unsigned ones_ = 0, left_ = 0;
  std::uint64_t word_ = 0;
};

}  // namespace nanet::ttc
