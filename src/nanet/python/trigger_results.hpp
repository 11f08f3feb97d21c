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

// Counts, identities, events per second and latencies by stage; elapsed in seconds.
nb::dict account_dict(const trigger::Account& a, const trigger::Accounting& accounting, double elapsed);
// One burst of a run; burst None: counts after the last burst.
nb::dict burst_dict(const trigger::BurstReport& r);
// Run state, with the same names and values in every view.
void add_run_state(nb::dict& d, const trigger::Trigger& core);
// Figures of the card's instruments, under `card_figures`.
void add_card_figures(nb::dict& d, const std::vector<std::pair<std::string, double>>& figures);
// One event sample: times in ns, lengths in mm.
nb::dict event_dict(const stats::EventSample& e);
// Histograms of hits and rings, and event samples; conditions: active ones, or nullptr.
nb::dict monitor(const std::vector<const trigger::Physics*>& physics,
                 const trigger::ConditionsStore* conditions, std::size_t channels);
// Lists of stats/counter_list.hpp and stats/event_histograms.hpp, for documentation and metrics.
nb::list counter_descriptions();
nb::list histogram_descriptions();
nb::list stage_descriptions();
// Per stage: upper edges (us) and counts of the non-empty bins.
nb::dict histograms(const trigger::Accounting& accounting);
// Slack of a card's decisions: upper edges (us) and counts of the non-empty bins.
nb::tuple card_slack(const card::CardTriggerCounts& counts);

}  // namespace nanet::python
