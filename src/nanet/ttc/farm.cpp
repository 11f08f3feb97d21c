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
  if (!slot.open) return;
  if (!slot.done) ++counts_.incomplete;
  slot.open = false;
  if (hook_) hook_({slot.burst, Lsb{slot.timestamp} * lsb_per_period + slot.fine, slot.done});
}

void Farm::triggered(std::uint32_t number, Timestamp timestamp, std::uint8_t burst, FineTime fine) noexcept {
  Slot& slot = slots_[number & (slots_.size() - 1)];
  close(slot);
  slot = {number, timestamp, 0, fine, burst, 0, true, false};
  next_ = number + 1;
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
      slot.bytes += static_cast<std::uint32_t>(event.data.size());
      counts_.bytes += event.data.size();
      if (slot.answered == (1U << boards_) - 1) {
        slot.done = true;  // stays open, so that a second answer is recognised
        ++counts_.complete;
        counts_.empty += slot.bytes == 0;
      }
    }
  }
  return wire::mep::Refusal::none;
}

void Farm::end() noexcept {
  for (std::size_t i = 0; i < slots_.size(); ++i) close(slots_[(next_ + i) & (slots_.size() - 1)]);
}

}  // namespace nanet::ttc
