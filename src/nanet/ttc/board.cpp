// SPDX-License-Identifier: Apache-2.0
// Readout board in final mode: latency table, fragment store.
#include "nanet/ttc/board.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "nanet/wire/mgp.hpp"

namespace nanet::ttc {

namespace {

constexpr Timestamp max_periods = Timestamp{1} << 26;  // 1.7 s
constexpr Timestamp frame_periods = periods_per_frame;

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
    : mask_(std::bit_ceil(places_for(keep, "keep") / frame_periods + 2) - 1),
      places_(mask_ + 1),
      memory_(bytes) {
  if (bytes < 65'536)
    throw std::invalid_argument("fragment memory = " + std::to_string(bytes) + " B: use at least 65536");
}

void FragmentStore::begin() noexcept {
  ++epoch_;
}

bool FragmentStore::put(std::span<const std::byte> packet) noexcept {
  using Length = std::uint32_t;
  const std::size_t size = sizeof(Length) + packet.size();
  const Frame frame =
      packet.size() < wire::mgp::header_bytes ? 0 : wire::mgp::decode_header(packet.data()).frame;
  Place& place = places_[frame & mask_];
  const bool same = place.bytes && place.epoch == epoch_ && place.frame == frame &&
                    written_ - place.position <= memory_.size();
  const std::size_t old = same ? place.bytes : 0;
  if (packet.size() < wire::mgp::header_bytes || old + size > memory_.size() / 8) {
    ++counts_.refused;
    return false;
  }
  // The packets of a frame are contiguous; they move if others came in between, or at the memory's end.
  std::size_t at = written_ % memory_.size();
  std::uint64_t position = written_;
  const bool adjacent = same && place.position + old == written_ && at + size <= memory_.size();
  if (adjacent) {
    position = place.position;
  } else {
    if (at + old + size > memory_.size()) {
      position = written_ += memory_.size() - at;
      at = 0;
    }
    if (old && written_ + old + size - place.position > memory_.size()) {
      ++counts_.refused;
      return false;
    }
    std::memcpy(memory_.data() + at, memory_.data() + place.position % memory_.size(), old);
    at += old;
    written_ += old;
  }
  const auto length = static_cast<Length>(packet.size());
  std::memcpy(memory_.data() + at, &length, sizeof length);
  std::memcpy(memory_.data() + at + sizeof length, packet.data(), packet.size());
  written_ += size;
  place = {position, frame, epoch_, static_cast<std::uint32_t>(old + size)};
  ++counts_.stored;
  return true;
}

std::size_t FragmentStore::get(Timestamp first, Timestamp last, std::span<std::byte> out) noexcept {
  std::size_t used = 0;
  for (Frame frame = first / frame_periods; frame <= last / frame_periods; ++frame) {
    const Place& place = places_[frame & mask_];
    if (place.bytes == 0 || place.epoch != epoch_) continue;
    if (place.frame != frame) {  // a later frame has taken the place
      counts_.overwritten += place.frame > frame;
      continue;
    }
    if (written_ - place.position > memory_.size()) {
      ++counts_.overwritten;
      continue;
    }
    const std::byte* at = memory_.data() + place.position % memory_.size();
    for (const std::byte* const end = at + place.bytes; at < end;) {
      const auto length = wire::mgp::load<std::uint32_t>(at);
      at += sizeof length;
      wire::mgp::FragmentReader reader(at, length, wire::mgp::decode_header(at));
      for (wire::mgp::Fragment f; reader.next(f);) {
        if (f.timestamp < first || f.timestamp > last) continue;
        const std::size_t bytes = wire::mgp::event_header_bytes + 2 * std::size_t{f.stored};
        if (used + bytes > out.size()) {
          ++counts_.no_room;
          continue;
        }
        std::memcpy(out.data() + used, f.hits - wire::mgp::event_header_bytes, bytes);
        used += bytes;
      }
      at += length;
    }
  }
  return used;
}

}  // namespace nanet::ttc
