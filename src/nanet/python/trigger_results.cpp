// SPDX-License-Identifier: Apache-2.0
// Results of nanet._core.Trigger and Replay as dictionaries.
#include "nanet/python/trigger_results.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>

#include "nanet/gateware/driver.hpp"

namespace nanet::python {

namespace {

nb::str text(std::string_view s) {
  return nb::str(s.data(), s.size());
}

template <std::size_t N, class Names>
nb::dict by_name(const std::array<std::uint64_t, N>& counts, Names name) {
  nb::dict d;
  for (std::size_t i = 0; i < N; ++i) d[text(name(i))] = counts[i];
  return d;
}

nb::dict latency(const trigger::Accounting& accounting) {
  nb::dict out;
  for (std::size_t s = 0; s < stats::stage_count; ++s) {
    const stats::Histogram& h = accounting.stage(static_cast<trigger::Stage>(s));
    nb::dict d;
    const auto us = [&](double p) { return h.percentile(p) * 1e-3; };
    d["p50"] = us(0.5);
    d["p90"] = us(0.9);
    d["p99"] = us(0.99);
    d["p99_9"] = us(0.999);
    d["p99_99"] = us(0.9999);
    d["max"] = static_cast<double>(h.max()) * 1e-3;
    d["n"] = h.count();
    out[text(stats::stage_descriptions[s].name)] = d;
  }
  return out;
}

nb::dict counts(const trigger::Account& a) {
  nb::dict d;
#define NANET_LINE(name, metric, text) d[#name] = a.name;
  NANET_RUN_COUNTERS(NANET_LINE, NANET_LINE)
#undef NANET_LINE
  d["bad_packets"] =
      by_name(a.bad, [](std::size_t i) { return wire::mgp::name(static_cast<wire::mgp::Refusal>(i)); });
  nb::dict lost = by_name(a.lost, [](std::size_t i) { return card::lost_names[i]; });
  // A running balance: it may fall between two bursts.
  constexpr auto missing = static_cast<std::size_t>(card::Lost::missing);
  lost["missing"] = static_cast<std::int64_t>(a.lost[missing]);
  d["lost"] = lost;
  d["downscaled"] = by_name(a.downscaled, [](std::size_t i) { return trigger::kind_names[i]; });
  d["not_mgp"] = by_name(a.not_mgp, [](std::size_t i) { return wire::name(static_cast<wire::NotMgp>(i)); });
  d["account_closes"] = a.balances();
  return d;
}

// PM IDs masked by the active conditions.
nb::list masked(const trigger::ConditionsStore* store) {
  nb::list out;
  if (!store) return out;
  const auto conditions = store->current();
  for (std::size_t pm = 0; pm < conditions->masked.size(); ++pm)
    if (conditions->masked[pm]) out.append(pm);
  return out;
}

}  // namespace

nb::dict account_dict(const trigger::Account& a, const trigger::Accounting& accounting, double elapsed) {
  nb::dict d = counts(a);
  d["elapsed_s"] = elapsed;
  d["events_per_s"] = elapsed > 0 ? static_cast<double>(a.events_built) / elapsed : 0.0;
  d["latency_us"] = latency(accounting);
  return d;
}

nb::dict burst_dict(const trigger::BurstReport& r) {
  nb::dict d;
  d["burst"] = r.rest ? nb::object(nb::none()) : nb::cast(r.burst.number);
  d["ended_by"] = r.rest
                      ? nb::object(nb::none())
                      : nb::cast(std::string(card::burst_end_names[static_cast<std::size_t>(r.burst.how)]));
  const auto boards = [](std::uint8_t mask) {
    nb::list list;
    for (unsigned b = 0; b < max_boards; ++b)
      if (mask >> b & 1) list.append(b);
    return list;
  };
  d["sob_boards"] = boards(r.burst.sob);
  d["eob_boards"] = boards(r.burst.eob);
  d["duration_s"] = r.ended > r.began && !r.rest ? static_cast<double>(r.ended - r.began) * 1e-9 : 0.0;
  for (const auto& [key, value] : counts(r.counts)) d[key] = value;
  for (const char* key : {"bursts", "account_checks", "not_mgp"}) nb::del(d[key]);
  nb::dict latency;
  static constexpr std::array names = {"p50", "p90", "p99", "p99_9", "p99_99", "max"};
  for (std::size_t i = 0; i < names.size(); ++i) latency[names[i]] = r.latency[i] * 1e-3;
  latency["n"] = r.latency_n;
  nb::dict stages;
  stages["total"] = latency;
  d["latency_us"] = stages;
  d["choke_raised"] = r.choke_raised;
  d["choke_s"] = static_cast<double>(r.choke_time) * 1e-9;
  if (!r.conditions.empty()) d["conditions"] = r.conditions;
  return d;
}

// Account of a card that decides and releases the triggers. Slack in us, from the bins' lower limits.
void add_card_trigger(nb::dict& f, const card::CardTriggerCounts& c, Timestamp latency,
                      const trigger::FinalTrigger::Counters& here) {
  nb::dict account;
#define NANET_CARD(name, metric, text) account[#name] = std::uint64_t{c.name};
#define NANET_HERE(name, metric, text) account[#name] = std::uint64_t{here.name};
  NANET_CARD_TRIGGER_COUNTERS(NANET_CARD, NANET_HERE)
#undef NANET_HERE
#undef NANET_CARD
  account["latency_us"] = latency * period_ns * 1e-3;
  account["latency_periods"] = latency;
  std::uint64_t all = 0;
  for (const stats::Counter& bin : c.slack) all += bin;
  const auto lowest = [&](double share) {
    double sum = 0;
    for (unsigned bin = 0; bin < c.slack.size(); ++bin) {
      sum += static_cast<double>(std::uint64_t{c.slack[bin]});
      if (c.slack[bin] && sum >= share * static_cast<double>(all))
        return (bin ? gateware::Driver::bin_end(bin - 1) + 1 : 0) * period_ns * 1e-3;
    }
    return 0.0;
  };
  nb::dict slack;
  slack["p50"] = lowest(0.5);
  slack["p1"] = lowest(0.01);
  slack["p0_1"] = lowest(0.001);
  slack["min"] = all ? nb::cast(lowest(0)) : nb::object(nb::none());
  slack["n"] = all;
  account["slack_us"] = slack;
  nb::dict release;
  release["min"] = std::uint64_t{c.release_min};
  release["max"] = std::uint64_t{c.release_max};
  account["release_cycles"] = release;
  nb::dict specials;
  std::size_t special = 0;
  for (const char* key : {"sob", "eob", "choke_on", "choke_off"})
    specials[key] = std::uint64_t{c.specials[special++]};
  account["specials"] = specials;
  f["card"] = account;
  for (const auto& [key, counter] : {std::pair{"primitives", &c.primitives},
                                     {"decisions", &c.decisions},
                                     {"joined", &c.joined},
                                     {"dead", &c.dead}})
    f[key] = std::uint64_t{*counter};
}

void add_run_state(nb::dict& d, const trigger::Trigger& core) {
  d["state"] = std::string(trigger::state_names[static_cast<std::size_t>(core.state())]);
  d["burst"] = core.account().bursts ? nb::cast(core.bursts().number()) : nb::object(nb::none());
  d["burst_reports_kept_back"] = static_cast<std::uint64_t>(core.bursts().kept_back);
  nb::dict choke;
  choke["on"] = core.choke().on();
  choke["raised"] = static_cast<std::uint64_t>(core.choke().raised);
  choke["seconds"] = static_cast<double>(core.choke().time()) * 1e-9;
  choke["fill"] = core.choke().fill();
  choke["fill_max"] = core.choke().most();
  d["choke"] = choke;
  if (const auto* store = core.conditions()) {
    const auto current = store->current();
    nb::dict c;
    c["name"] = current->name;
    c["masked"] = std::count(current->masked.begin(), current->masked.end(), std::uint8_t{1});
    c["changes"] = store->changes();
    d["conditions"] = c;
  }
  if (const auto* final = core.final_trigger()) {
    const auto& c = final->counters();
    nb::dict f;
#define NANET_LINE(name, metric, text) f[#name] = std::uint64_t{c.name};
    NANET_FINAL_COUNTERS(NANET_LINE)
#undef NANET_LINE
    f["datagrams"] = core.final_datagrams();
    f["send_errors"] = core.final_send_errors();
    if (const auto* time = core.experiment_time()) {
      f["syncs"] = std::uint64_t{time->counts().syncs};
      f["syncs_refused"] = std::uint64_t{time->counts().refused};
    }
    if (const auto* card = final->card()) add_card_trigger(f, *card, core.final_latency(), c);
    d["final"] = f;
  }
  if (const auto* recorder = core.recorder()) {
    nb::dict r;
#define NANET_LINE(name, metric, text) r[#name] = static_cast<std::uint64_t>(recorder->name);
    NANET_RECORD_COUNTERS(NANET_LINE)
#undef NANET_LINE
    if (const auto trouble = recorder->trouble(); !trouble.empty()) r["trouble"] = trouble;
    d["recorded"] = r;
  }
}

void add_card_figures(nb::dict& d, const std::vector<std::pair<std::string, double>>& figures) {
  if (figures.empty()) return;
  nb::dict out;
  for (const auto& [name, value] : figures) out[nb::str(name.c_str())] = value;
  d["card_figures"] = out;
}

nb::dict event_dict(const stats::EventSample& e) {
  nb::list pm, late, rings;
  for (unsigned i = 0; i < e.hits && i < max_event_hits; ++i) {
    pm.append(e.pm[i]);
    if (e.late[i] == stats::EventSample::no_time)
      late.append(nb::none());
    else
      late.append(e.late[i] * lsb_ns);
  }
  for (unsigned i = 0; i < e.rings.count && i < rich::max_rings; ++i) {
    const rich::Ring& r = e.rings.ring[i];
    nb::dict ring;
    ring["x"] = r.x;
    ring["y"] = r.y;
    ring["r"] = r.r;
    ring["chi2_ndf"] = r.chi2_ndf;
    ring["hits"] = r.hits;
    rings.append(ring);
  }
  nb::dict d;
  d["serial"] = e.serial;
  d["n"] = e.n;
  d["frame"] = e.frame;
  d["time_ns"] = static_cast<double>(e.time) * lsb_ns;
  d["primitive"] = e.primitive;
  d["pm"] = pm;
  d["late_ns"] = late;
  d["rings"] = rings;
  return d;
}

nb::dict monitor(const std::vector<const trigger::Physics*>& physics,
                 const trigger::ConditionsStore* conditions, std::size_t channels) {
  nb::dict d;
  d["masked"] = masked(conditions);
  const auto total = std::make_unique<stats::EventHistograms<std::uint64_t>>();
  for (const auto* p : physics) stats::add_histograms(*total, *p);
  stats::for_each_histogram(
      [&](const stats::HistogramDescription& h, const auto& bins) {
        std::vector<std::uint64_t> values(std::begin(bins), std::end(bins));
        d[text(h.name)] =
            h.rows > 1 ? column(std::move(values), {h.rows, h.columns}) : column(std::move(values));
      },
      *total);
  std::vector<std::uint64_t> occupancy(std::begin(total->pm_occupancy), std::end(total->pm_occupancy));
  occupancy.resize(channels);
  for (const auto* p : physics)
    for (std::size_t i = 0; i < p->beyond().size(); ++i) occupancy[pm_count + i] += p->beyond()[i];
  d["pm_occupancy"] = column(std::move(occupancy));
  nb::list events;
  for (const auto* p : physics)
    for (const auto& e : p->events()) events.append(event_dict(e));
  d["sampled_events"] = total->sampled_events;
  d["events"] = events;
  return d;
}

nb::list counter_descriptions() {
  nb::list out;
  for (const stats::CounterDescription& c : stats::counter_descriptions) {
    nb::dict d;
    d["family"] = text(c.family);
    d["name"] = text(c.name);
    d["metric"] = text(c.metric);
    d["text"] = text(c.text);
    out.append(d);
  }
  return out;
}

nb::list histogram_descriptions() {
  nb::list out;
  for (const stats::HistogramDescription& h : stats::histogram_descriptions)
    out.append(nb::make_tuple(text(h.name), text(h.text)));
  return out;
}

nb::list stage_descriptions() {
  nb::list out;
  for (const stats::StageDescription& s : stats::stage_descriptions)
    out.append(nb::make_tuple(text(s.name), text(s.from), text(s.to)));
  return out;
}

nb::dict histograms(const trigger::Accounting& accounting) {
  nb::dict out;
  for (std::size_t s = 0; s < stats::stage_count; ++s) {
    const stats::Histogram& h = accounting.stage(static_cast<trigger::Stage>(s));
    std::vector<double> edges;
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < stats::Histogram::bins; ++i)
      if (const auto n = h.in_bin(i)) {
        edges.push_back(static_cast<double>(stats::Histogram::upper(i)) * 1e-3);
        counts.push_back(n);
      }
    out[text(stats::stage_descriptions[s].name)] =
        nb::make_tuple(column(std::move(edges)), column(std::move(counts)));
  }
  return out;
}

nb::tuple card_slack(const card::CardTriggerCounts& c) {
  std::vector<double> edges;
  std::vector<std::uint64_t> counts;
  for (unsigned bin = 0; bin < c.slack.size(); ++bin)
    if (const std::uint64_t n = c.slack[bin]) {
      edges.push_back((static_cast<double>(gateware::Driver::bin_end(bin)) + 1) * period_ns * 1e-3);
      counts.push_back(n);
    }
  return nb::make_tuple(column(std::move(edges)), column(std::move(counts)));
}

}  // namespace nanet::python
