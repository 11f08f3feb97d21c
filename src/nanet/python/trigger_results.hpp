// SPDX-License-Identifier: Apache-2.0
// Results of nanet._core.Trigger and Replay: counts, latencies, states, histograms; keys of docs/counters.md.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "nanet/trigger/live/trigger.hpp"

namespace nanet::python {

namespace nb = nanobind;

// Copies a column into an array that owns its memory.
template <class T>
nb::object column(std::vector<T> values, std::initializer_list<std::size_t> shape = {}) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  std::vector<std::size_t> dims(shape);
  if (dims.empty()) dims.push_back(kept->size());
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), dims.size(), dims.data(), owner));
}

// Counts, whether they close, events per second and latencies by stage; elapsed in seconds.
nb::dict account_dict(const trigger::Account& a, const trigger::Accounting& accounting, double elapsed);
// One burst of a run, or (burst None) what was counted after the last one.
nb::dict burst_dict(const trigger::BurstReport& r);
// Where the run is and what holds for it: the same words and numbers in every view.
void add_run_state(nb::dict& d, const trigger::Trigger& core);
// What the card's own instruments show, under `card_figures`.
void add_card_figures(nb::dict& d, const std::vector<std::pair<std::string, double>>& figures);
// One event sample: times in ns, lengths in mm.
nb::dict event_dict(const stats::EventSample& e);
// Histograms of hits and rings, and events to look at; conditions: those in effect, nullptr: none.
nb::dict monitor(const std::vector<const trigger::Physics*>& physics,
                 const trigger::ConditionsStore* conditions);
// Lists of stats/counter_list.hpp and stats/event_histograms.hpp, for documentation and metrics.
nb::list counter_descriptions();
nb::list histogram_descriptions();
nb::list stage_descriptions();
// Of each stage: upper edges (us) of the bins that are not empty, and their counts.
nb::dict histograms(const trigger::Accounting& accounting);

}  // namespace nanet::python
