// SPDX-License-Identifier: Apache-2.0
// Readout board in final mode: latency table, fragment store.
#include "nanet/ttc/board.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace nanet::ttc {

namespace {

constexpr Timestamp max_periods = Timestamp{1} << 26;  // 1.7 s

std::size_t places_for(Timestamp periods, const char* key) {
  if (periods < 1 || periods > max_periods)
    throw std::invalid_argument(std::string(key) + " = " + std::to_string(periods) + " periods: use 1 to " +
                                std::to_string(max_periods) + " (1.7 s)");
  return std::bit_ceil(std::max<std::size_t>(std::size_t{periods} + 1, 64));
}

}  // namespace

LatencyTable::LatencyTable(Timestamp latency)
    : latency_(latency),
      mask_(places_for(latency, "latency") - 1),
      places_(mask_ + 1),
      held_((mask_ + 1) / 64) {}

void LatencyTable::flush() noexcept {
  for (std::uint64_t& word : held_) {
    counts_.flushed += static_cast<unsigned>(std::popcount(word));
    word = 0;
  }
}

void LatencyTable::begin(std::uint8_t burst) noexcept {
  flush();
  burst_ = burst;
  timed_ = true;
  next_ = 0;
}

void LatencyTable::lose() noexcept {
  flush();
  timed_ = false;
}

void LatencyTable::accept(std::uint8_t burst, const wire::trigger::Trigger& trigger, std::uint32_t number,
                          Timestamp now) noexcept {
  ++counts_.triggers;
  if (!timed_ || burst != burst_) {
    ++counts_.untimed;
    return;
  }
  if (trigger.timestamp > now) {
    ++counts_.early;
    return;
  }
  if (now - trigger.timestamp >= latency_ || trigger.timestamp < next_) {
    ++counts_.late;
    return;
  }
  const std::size_t place = trigger.timestamp & mask_;
  std::uint64_t& word = held_[place / 64];
  const std::uint64_t bit = std::uint64_t{1} << (place % 64);
  if (word & bit) {
    places_[place].trigger.kind |= trigger.kind;
    ++counts_.joined;
    return;
  }
  word |= bit;
  places_[place] = {trigger, number};
}

FragmentStore::FragmentStore(Timestamp keep, std::size_t bytes)
    : mask_(places_for(keep, "keep") - 1), places_(mask_ + 1), memory_(bytes) {
  if (bytes < 65'536)
    throw std::invalid_argument("fragment memory = " + std::to_string(bytes) + " B: use at least 65536");
}

void FragmentStore::begin() noexcept {
  ++epoch_;
}

bool FragmentStore::put(Timestamp timestamp, std::span<const std::byte> event) noexcept {
  Place& place = places_[timestamp & mask_];
  const bool same = place.bytes && place.epoch == epoch_ && place.timestamp == timestamp;
  const std::size_t old = same ? place.bytes : 0;
  const std::size_t total = old + event.size();
  if (event.empty() || total > wire::mep::max_bytes) {
    ++counts_.refused;
    return false;
  }
  // Contiguous; several fragments of a period are moved together.
  std::size_t at = written_ % memory_.size();
  if (at + total > memory_.size()) {
    written_ += memory_.size() - at;
    at = 0;
  }
  const std::uint64_t position = written_;
  if (same) {
    if (written_ + total - place.position > memory_.size()) {
      ++counts_.refused;
      return false;
    }
    std::memmove(memory_.data() + at, memory_.data() + place.position % memory_.size(), old);
  }
  std::memcpy(memory_.data() + at + old, event.data(), event.size());
  written_ += total;
  place = {position, timestamp, epoch_, static_cast<std::uint32_t>(total)};
  ++counts_.stored;
  return true;
}

std::size_t FragmentStore::get(Timestamp timestamp, std::span<std::byte> out) noexcept {
  const Place& place = places_[timestamp & mask_];
  if (place.bytes == 0 || place.epoch != epoch_) return 0;
  if (place.timestamp != timestamp) {  // a later period has taken the place
    counts_.overwritten += place.timestamp > timestamp;
    return 0;
  }
  if (written_ - place.position > memory_.size()) {
    ++counts_.overwritten;
    return 0;
  }
  if (place.bytes > out.size()) {
    ++counts_.no_room;
    return 0;
  }
  std::memcpy(out.data(), memory_.data() + place.position % memory_.size(), place.bytes);
  return place.bytes;
}

}  // namespace nanet::ttc
