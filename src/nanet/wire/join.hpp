// SPDX-License-Identifier: Apache-2.0
// Merging rule: joins the fragments of the boards to events by time (docs/formats.md, Merging).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace nanet::wire::mgp {

// Fragments of a board as keys in ascending order: time, then number in the list.
inline constexpr unsigned key_number_bits = 15;
inline constexpr unsigned most_in_list = (1u << key_number_bits) - 1;
constexpr std::uint32_t join_key(std::uint32_t time, std::uint32_t number) {
  return time << key_number_bits | number;
}
// Keys from an event's opening time on that lie within the window are less than this above it.
constexpr std::uint32_t keys_beyond(std::uint32_t window) {
  return join_key(std::min(window, std::uint32_t{0xFFFF}) + 1, 0);
}
inline constexpr std::uint32_t end_of_fragments = ~std::uint32_t{0};  // beyond the window of any event

// A fragment joins the earliest event within the window that has no fragment of its board; otherwise it opens
// an event. This loop works per event. The earliest remaining fragment opens an event. For each board, the
// next fragment joins if it lies in the window: no earlier event can take it. The loop needs no search and no
// data-dependent branch. next[b]: keys of board b, then end_of_fragments. Calls event(event, first, joins,
// number) with the event's number, its opening time and, per board, whether a fragment joins and its number
// in the list. Returns the number of events.
template <unsigned boards, class Event>
inline std::uint32_t join(std::array<const std::uint32_t*, boards> next, std::uint32_t window,
                          Event&& event) noexcept {
  const std::uint32_t beyond = keys_beyond(window);
  for (std::uint32_t events = 0;; ++events) {
    std::array<std::uint32_t, boards> key, number;
    std::array<bool, boards> joins;
    for (unsigned b = 0; b < boards; ++b) key[b] = *next[b];
    std::uint32_t first = key[0];
    for (unsigned b = 1; b < boards; ++b) first = std::min(first, key[b]);
    if (first == end_of_fragments) return events;
    const std::uint32_t opened = first >> key_number_bits;
    const std::uint32_t from = join_key(opened, 0);
    for (unsigned b = 0; b < boards; ++b) {
      joins[b] = key[b] - from < beyond;  // no branch: which boards join is random
      number[b] = key[b] & most_in_list;
      next[b] += joins[b];
    }
    event(events, opened, joins, number);
  }
}

}  // namespace nanet::wire::mgp
