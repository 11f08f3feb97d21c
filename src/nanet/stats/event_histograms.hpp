// SPDX-License-Identifier: Apache-2.0
// Event histograms of the monitor: list, bins and fill rule, shared by CPU and GPU.
// A new histogram is a line in the list and a line in count_event(); copies, sums, the monitor's dictionary
// and the table in docs/counters.md follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "nanet/rich/ring.hpp"
#include "nanet/units.hpp"

namespace nanet::stats {

struct HistogramBins {
  static constexpr unsigned radius = 256;                                                 // 1 mm each
  static constexpr unsigned centre = 64;                                                  // along each axis
  static constexpr float centre_low_x = -552, centre_low_y = -400, centre_width = 12.5f;  // mm
};

// Name, rows, columns (rows 1: one-dimensional), description.
#define NANET_EVENT_HISTOGRAMS(X)                                                                        \
  X(hits_per_event, 1, max_event_hits + 1, "events by number of hits, sampled frames")                   \
  X(rings_per_event, 1, rich::max_rings + 1, "events by number of rings, all frames")                    \
  X(radius, 1, HistogramBins::radius, "leading rings by radius, bins of 1 mm, sampled frames")           \
  X(centre, HistogramBins::centre, HistogramBins::centre,                                                \
    "leading rings by centre (rows y, columns x), bins of 12.5 mm from (-552, -400) mm, sampled frames") \
  X(pm_occupancy, 1, pm_count, "hits by PM ID, sampled frames")

// Cell: stats::Counter on the CPU, std::uint64_t in memory written by a GPU.
template <class Cell>
struct EventHistograms {
#define NANET_LINE(name, rows, columns, text) Cell name[std::size_t{rows} * (columns)];
  NANET_EVENT_HISTOGRAMS(NANET_LINE)
#undef NANET_LINE
  Cell sampled_events;
};

struct HistogramDescription {
  std::string_view name, text;
  std::size_t rows, columns;
};
inline constexpr HistogramDescription histogram_descriptions[] = {
#define NANET_LINE(name, rows, columns, text) {#name, text, rows, columns},
    NANET_EVENT_HISTOGRAMS(NANET_LINE)
#undef NANET_LINE
};

// Calls visit(description, bins of each argument...) for every histogram.
template <class Visit, class... Histograms>
void for_each_histogram(Visit&& visit, Histograms&... histograms) {
  std::size_t i = 0;
#define NANET_LINE(name, rows, columns, text) visit(histogram_descriptions[i++], histograms.name...);
  NANET_EVENT_HISTOGRAMS(NANET_LINE)
#undef NANET_LINE
}

// Adds every bin and the number of sampled events.
template <class To, class From>
void add_histograms(To& to, const From& from) {
  for_each_histogram(
      [](const HistogramDescription&, auto& sum, const auto& bins) {
        for (std::size_t i = 0; i < std::size(bins); ++i) sum[i] += bins[i];
      },
      to, from);
  to.sampled_events += from.sampled_events;
}

// Counts one event of a sampled frame. add(cell): increments it. rings_per_event is filled for all frames, by
// the executor.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Histograms, class Add>
NANET_HD void count_event(Histograms& h, const rich::EventView& event, const rich::Rings& rings, Add add) {
  add(h.sampled_events);
  add(h.hits_per_event[event.hits <= max_event_hits ? event.hits : max_event_hits]);
  for (std::uint32_t i = 0; i < event.hits; ++i) {
    if (event.pm[i] < pm_count) add(h.pm_occupancy[event.pm[i]]);
  }
  if (rings.count == 0) return;
  const rich::Ring& ring = rings.ring[0];
  if (ring.r >= 0 && ring.r < HistogramBins::radius) add(h.radius[static_cast<std::size_t>(ring.r)]);
  const float x = (ring.x - HistogramBins::centre_low_x) / HistogramBins::centre_width;
  const float y = (ring.y - HistogramBins::centre_low_y) / HistogramBins::centre_width;
  constexpr auto bins = static_cast<float>(HistogramBins::centre);
  if (x >= 0 && x < bins && y >= 0 && y < bins)
    add(h.centre[static_cast<std::size_t>(y) * HistogramBins::centre + static_cast<std::size_t>(x)]);
}

}  // namespace nanet::stats
