// SPDX-License-Identifier: Apache-2.0
// MEP: encoding and validation.
#include "nanet/wire/mep.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "nanet/wire/mgp.hpp"

namespace nanet::wire::mep {

namespace {

using mgp::load;
using mgp::store;

constexpr std::uint8_t last_event = 0x80;
constexpr std::array<std::string_view, refusal_count + 1> names = {
    "short_header",   "bad_source",   "bad_board",  "length_mismatch", "no_events",
    "event_past_end", "event_number", "after_last", "trailing_bytes",  "none",
};

}  // namespace

std::string_view name(Refusal refusal) {
  return names[std::min(static_cast<std::size_t>(refusal), refusal_count)];
}

bool Writer::add(const Event& event) noexcept {
  const std::size_t bytes = event_header_bytes + event.data.size();
  if (events_ == max_events || used_ + bytes > max_bytes) return false;
  if (events_ > 0 && event.number != ((first_ + events_) & 0xFFFFFF)) return false;
  if (events_ == 0) first_ = event.number & 0xFFFFFF;
  std::byte* at = out_.data() + used_;
  store<std::uint16_t>(at, static_cast<std::uint16_t>(bytes));
  store<std::uint8_t>(at + 2, static_cast<std::uint8_t>(event.number));
  store<std::uint8_t>(at + 3, event.last ? last_event : std::uint8_t{0});
  store<std::uint32_t>(at + 4, event.timestamp);
  if (!event.data.empty()) std::memcpy(at + event_header_bytes, event.data.data(), event.data.size());
  used_ += bytes;
  ++events_;
  return true;
}

std::span<const std::byte> Writer::finish() noexcept {
  if (events_ == 0) return {};
  std::byte* at = out_.data();
  store<std::uint32_t>(at, first_ | static_cast<std::uint32_t>(source_) << 24);
  store<std::uint16_t>(at + 4, static_cast<std::uint16_t>(used_));
  store<std::uint8_t>(at + 6, static_cast<std::uint8_t>(events_));
  store<std::uint8_t>(at + 7, board_);
  const std::size_t bytes = used_;
  used_ = header_bytes;
  events_ = 0;
  return {out_.data(), bytes};
}

Decoded decode(std::span<const std::byte> datagram, unsigned boards, Event* out,
               std::uint8_t source) noexcept {
  Decoded decoded;
  const auto refuse = [&](Refusal refusal) {
    decoded.refusal = refusal;
    decoded.count = 0;
    return decoded;
  };
  if (datagram.size() < header_bytes) return refuse(Refusal::short_header);
  const std::byte* bytes = datagram.data();
  const std::uint32_t first = load<std::uint32_t>(bytes) & 0xFFFFFF;
  const unsigned events = load<std::uint8_t>(bytes + 6);
  decoded.board = load<std::uint8_t>(bytes + 7);
  if (load<std::uint8_t>(bytes + 3) != source) return refuse(Refusal::bad_source);
  if (decoded.board >= boards) return refuse(Refusal::bad_board);
  if (load<std::uint16_t>(bytes + 4) != datagram.size()) return refuse(Refusal::length_mismatch);
  if (events == 0) return refuse(Refusal::no_events);
  std::size_t at = header_bytes;
  bool last = false;
  for (unsigned i = 0; i < events; ++i) {
    if (datagram.size() - at < event_header_bytes) return refuse(Refusal::event_past_end);
    const std::size_t length = load<std::uint16_t>(bytes + at);
    if (length < event_header_bytes || length > datagram.size() - at) return refuse(Refusal::event_past_end);
    Event& event = out[i];
    event.number = (first + i) & 0xFFFFFF;
    if (load<std::uint8_t>(bytes + at + 2) != (event.number & 0xFF)) return refuse(Refusal::event_number);
    if (last) return refuse(Refusal::after_last);
    event.last = last = (load<std::uint8_t>(bytes + at + 3) & last_event) != 0;
    event.timestamp = load<std::uint32_t>(bytes + at + 4);
    event.data = datagram.subspan(at + event_header_bytes, length - event_header_bytes);
    at += length;
  }
  if (at != datagram.size()) return refuse(Refusal::trailing_bytes);
  decoded.count = events;
  return decoded;
}

}  // namespace nanet::wire::mep
