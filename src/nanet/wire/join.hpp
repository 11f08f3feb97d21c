// SPDX-License-Identifier: Apache-2.0
// Merging rule: joins the fragments of the boards to events by time (docs/formats.md, Merging).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace nanet::wire::mgp {

inline constexpr std::uint32_t end_of_fragments = ~std::uint32_t{0};

// A fragment joins the earliest event within the window that has no fragment of its board; otherwise it opens
// an event. This loop works per event. The earliest remaining fragment opens an event. For each board, the
// next fragment joins if it lies in the window: no earlier event can take it. The loop needs no search and no
// data-dependent branch. times[b]: ascending fragment times of board b, then end_of_fragments, beyond any
// window. Calls event(first, fragment) with the opening time and, per board, the index of the fragment that
// joins or `none`. Returns the number of events.
template <unsigned boards, class Event>
inline std::uint32_t join(const std::array<const std::uint32_t*, boards>& times, std::uint32_t window,
                          std::uint32_t none, Event&& event) noexcept {
  std::array<std::uint32_t, boards> at{}, head, joins;
  for (unsigned b = 0; b < boards; ++b) head[b] = times[b][0];
  for (std::uint32_t events = 0;; ++events) {
    std::uint32_t first = head[0];
    for (unsigned b = 1; b < boards; ++b) first = std::min(first, head[b]);
    if (first == end_of_fragments) return events;
    for (unsigned b = 0; b < boards; ++b) {
      const std::uint32_t take = head[b] - first <= window, no = take - 1;  // no: all bits, or none
      joins[b] = (at[b] & ~no) | (none & no);  // no branch: which boards join is random
      at[b] += take;
      head[b] = times[b][at[b]];
    }
    event(first, joins);
  }
}

}  // namespace nanet::wire::mgp
