// SPDX-License-Identifier: Apache-2.0
// Event builder of the farm.
#include "nanet/ttc/farm.hpp"

#include <bit>
#include <stdexcept>
#include <string>

namespace nanet::ttc {

Farm::Farm(unsigned boards, std::size_t open)
    : boards_(boards),
      slots_(open),
      events_(wire::mep::max_events),
      refusals_(wire::mep::refusal_count + 1),
      answers_(boards) {
  if (boards < 1 || boards > 8)
    throw std::invalid_argument("boards = " + std::to_string(boards) + ": use 1 to 8");
  if (!std::has_single_bit(open))
    throw std::invalid_argument("open events = " + std::to_string(open) + ": use a power of two");
}

void Farm::close(Slot& slot) noexcept {
  if (slot.open && !slot.done) ++counts_.incomplete;
  slot.open = false;
}

void Farm::triggered(std::uint32_t number, Timestamp timestamp) noexcept {
  Slot& slot = slots_[number & (slots_.size() - 1)];
  close(slot);
  slot = {number, timestamp, 0, true, false};
  ++counts_.triggered;
}

wire::mep::Refusal Farm::receive(std::span<const std::byte> packet) noexcept {
  const wire::mep::Decoded decoded = wire::mep::decode(packet, boards_, events_.data());
  ++refusals_[static_cast<std::size_t>(decoded.refusal)];
  if (decoded.refusal != wire::mep::Refusal::none) {
    ++counts_.refused;
    return decoded.refusal;
  }
  for (unsigned i = 0; i < decoded.count; ++i) {
    const wire::mep::Event& event = events_[i];
    Slot& slot = slots_[event.number & (slots_.size() - 1)];
    const auto bit = static_cast<std::uint8_t>(1U << decoded.board);
    if (!slot.open || slot.number != event.number) {
      ++counts_.untriggered;
    } else if (slot.timestamp != event.timestamp) {
      ++counts_.wrong_time;
    } else if (slot.answered & bit) {
      ++counts_.twice;
    } else {
      slot.answered = static_cast<std::uint8_t>(slot.answered | bit);
      ++answers_[decoded.board];
      if (slot.answered == (1U << boards_) - 1) {
        slot.done = true;  // stays open, so that a second answer is recognised
        ++counts_.complete;
      }
    }
  }
  return wire::mep::Refusal::none;
}

void Farm::end() noexcept {
  for (Slot& slot : slots_) close(slot);
}

}  // namespace nanet::ttc
