// SPDX-License-Identifier: Apache-2.0
// Counters of a card, from the list in stats/counter_list.hpp. One writer (the card's thread), any number of
// readers while it runs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "nanet/stats/counter.hpp"
#include "nanet/stats/counter_list.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

using stats::Counter;

#define NANET_LINE(name, metric, text) name,
enum class Lost : std::uint8_t { NANET_LOST_PACKETS(NANET_LINE) };
#undef NANET_LINE
#define NANET_LINE(name, metric, text) std::string_view(#name),
inline constexpr std::array lost_names{NANET_LOST_PACKETS(NANET_LINE)};
#undef NANET_LINE
inline constexpr std::size_t lost_count = lost_names.size();

struct Counters {
#define NANET_CARD(name, metric, text) Counter name;
#define NANET_TRIGGER(name, metric, text)
  NANET_RUN_COUNTERS(NANET_CARD, NANET_TRIGGER)
#undef NANET_CARD
#undef NANET_TRIGGER
  std::array<Counter, wire::mgp::refusal_count> bad;
  std::array<Counter, lost_count> lost;
};

}  // namespace nanet::card
