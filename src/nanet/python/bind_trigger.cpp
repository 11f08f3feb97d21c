// SPDX-License-Identifier: Apache-2.0
// nanet._core.Trigger and nanet._core.Replay: options from a flat dictionary, results as dictionaries.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nanet/gateware/cards.hpp"
#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/failover/failover.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/python/trigger_options.hpp"
#include "nanet/python/trigger_results.hpp"
#include "nanet/stats/event_sample.hpp"
#include "nanet/trigger/live/level1.hpp"

namespace nb = nanobind;
using namespace nanet;
using namespace nanet::python;

namespace {

// A Trigger and the options that its results repeat.
struct PyTrigger {
  explicit PyTrigger(const nb::dict& o)
      : real_time(get<bool>(o, "real_time", false)),
        timeout_us(get<double>(o, "timeout_us", 20e3)),
        deadline_us(get<double>(o, "deadline_us", 50e3)),
        core([&] {
          trigger::TriggerOptions t;
          t.card = get<std::string>(o, "card", t.card);
          t.clop = clop_options(o);
          if (t.clop.gather == contract::Gather::packets && t.clop.buffers == 0) t.clop.buffers = 256;
          t.algorithm = get<std::string>(o, "algorithm", t.algorithm);
          t.parameters = parameters(o);
          t.process = process_options(o);
          channels = t.process.detector->channels();
          if (const int fd = get<int>(o, "event_ring", -1); fd >= 0) {
            event_ring = std::make_unique<stats::SharedEventRing>(fd);
            t.process.event_ring = event_ring.get();
          }
          t.threads = get<unsigned>(o, "threads", t.threads);
          t.pin = get<std::vector<int>>(o, "pin", {});
          t.busy = get<bool>(o, "busy", t.busy);
          t.stops = get<bool>(o, "stops", t.stops);
          t.keep_bad = get<std::string>(o, "keep_bad", "");
          t.choke.high = get<double>(o, "choke_high", t.choke.high);
          t.choke.low = get<double>(o, "choke_low", t.choke.low);
          t.choke.frames = get<decltype(t.choke.frames)>(o, "choke", {});
          t.conditions = conditions_option(o);
          t.final = final_options(o);
          t.record.folder = get<std::string>(o, "record", "");
          t.record.file_bytes = get<std::uint64_t>(o, "record_file_bytes", t.record.file_bytes);
          t.record.limit_bytes = get<std::uint64_t>(o, "record_limit_bytes", t.record.limit_bytes);
          device = get<std::string>(o, "device", "cpu");
          if (device != "cpu") {
            const gpu::PipelineOptions pipeline = pipeline_options(o, device);
            if (pipeline.recovers()) t.clop.allocator = &os::shared_allocator();
            t.executor = gpu::Pipeline::maker(pipeline);
          }
          algorithm = t.algorithm;
          threads = t.threads;
          gather = t.clop.gather == contract::Gather::frame ? "frame" : "packets";
          merge = t.clop.merge;
          return t;
        }()) {}

  nb::dict snapshot() const {
    nb::dict d = account_dict(core.account(), core.accounting(), core.elapsed_s());
    d["real_time"] = real_time;
    d["timeout_us"] = timeout_us;
    d["deadline_us"] = deadline_us;
    d["device"] = device;
    d["executor"] = std::string(core.executor().name());
    d["memory"] = std::string(core.executor().memory());
    d["mailbox"] = core.executor().mailbox();
    for (const auto& [key, value] : core.executor().figures()) d[nb::str(key.c_str())] = value;
    if (const auto why = core.executor().trouble(); !why.empty()) d["device_failed"] = why;
    d["algorithm"] = algorithm;
    d["threads"] = threads;
    d["gather"] = gather;
    d["merge"] = merge;
    d["buffers"] = core.buffers();
    d["card"] = std::string(core.card_name());
    add_card_figures(d, core.card_figures());
    d["event_overrun"] = core.event_overrun();
    d["running"] = core.running();
    add_run_state(d, core);
    if (const auto trouble = core.trouble(); !core.running() && !trouble.empty()) d["trouble"] = trouble;
    return d;
  }

  bool real_time;
  double timeout_us, deadline_us;
  std::string algorithm, gather, device;
  unsigned threads = 1;
  bool merge = false;
  std::size_t channels = pm_count;
  std::unique_ptr<stats::SharedEventRing> event_ring;  // shared with a monitor
  trigger::Trigger core;
};

// Packets lost as `late` or `overrun`: frame, board, whether overrun, and arrival of each.
nb::object lost_packets(const trigger::Trigger& core) {
  std::vector<std::uint64_t> rows;
  for (const auto& packet : core.lost_packets())
    rows.insert(rows.end(), {packet.n, packet.board, std::uint64_t{packet.reason == card::Lost::overrun},
                             static_cast<std::uint64_t>(packet.arrival)});
  constexpr std::size_t columns = 4;
  const std::size_t packets = rows.size() / columns;
  return column(std::move(rows), {packets, columns});
}

// Stops of the card's polling threads, a dictionary each; empty: not recorded.
nb::list polling_stops(const stats::PollingThreads* threads) {
  nb::list all;
  if (!threads) return all;
  constexpr std::size_t over_50us = 1;
  for (const stats::PollingStops& thread : threads->all()) {
    const stats::GapRecord& record = thread.record();
    // The thread may still run: all numbers are those of the listed stops, so that they agree.
    const auto listed = record.listed();
    const Nanoseconds elapsed = record.elapsed();
    std::vector<std::int64_t> begin, end;
    Nanoseconds stopped = 0, longest = 0;
    for (const auto& gap : listed) {
      begin.push_back(gap.begin);
      end.push_back(gap.end);
      stopped += gap.end - gap.begin;
      longest = std::max(longest, gap.end - gap.begin);
    }
    const bool all_listed = listed.size() < stats::GapRecord::most_listed;
    nb::dict d;
    d["thread"] = thread.name();
    d["cpu"] = thread.cpu() < 0 ? nb::object(nb::none()) : nb::cast(thread.cpu());
    d["seconds"] = static_cast<double>(elapsed) * 1e-9;
    d["over_50us"] = all_listed ? std::uint64_t{listed.size()} : std::uint64_t{record.above(over_50us).count};
    d["over_50us_share"] = !all_listed   ? record.share_above(over_50us)
                           : elapsed > 0 ? static_cast<double>(stopped) / static_cast<double>(elapsed)
                                         : 0.0;
    d["longest_us"] = static_cast<double>(all_listed ? longest : record.longest()) * 1e-3;
    d["begin"] = column(std::move(begin));
    d["end"] = column(std::move(end));
    all.append(d);
  }
  return all;
}

struct PyReplay {
  explicit PyReplay(const nb::dict& o)
      : core([&] {
          trigger::ReplayOptions r;
          r.pcap = get<std::string>(o, "pcap", "");
          r.more = get<std::vector<std::string>>(o, "more", {});
          r.mtp = get<std::string>(o, "mtp", "");
          r.rings = get<bool>(o, "rings", false);
          r.port = static_cast<std::uint16_t>(get<unsigned>(o, "port", wire::mgp::default_port));
          r.card = get<std::string>(o, "card", "socket");
          r.clop = clop_options(o);
          r.detect_merged = get<bool>(o, "detect_merged", false);
          r.clop.listen.clear();
          r.clop.destinations.clear();
          r.algorithm = get<std::string>(o, "algorithm", r.algorithm);
          r.parameters = parameters(o);
          r.process = process_options(o);
          channels = r.process.detector->channels();
          r.threads = get<unsigned>(o, "threads", 1);
          r.pin = get<std::vector<int>>(o, "pin", {});
          r.keep_bad = get<std::string>(o, "keep_bad", "");
          r.conditions = conditions_option(o);
          device = get<std::string>(o, "device", "cpu");
          if (device != "cpu" && get<bool>(o, "in_the_loop", false)) {
            r.executor = gpu::Pipeline::maker(pipeline_options(o, device));
            r.mailboxes = mailboxes = get<bool>(o, "mailboxes", false);
          } else if (device != "cpu") {
            const int number = cuda_number(device);
            r.device = [this, number](const rich::Reconstructor& cpu, const rich::Geometry& geometry) {
              auto made = gpu::make_reconstructor(cpu, geometry, number);
              on_device = made.get();
              return made;
            };
          }
          algorithm = r.algorithm;
          threads = r.threads;
          return r;
        }()) {}

  nb::dict snapshot() const {
    nb::dict d = account_dict(core.account(), core.accounting(), core.elapsed_s());
    d["real_time"] = false;
    d["timeout_us"] = nb::none();  // a replay has no clock
    d["deadline_us"] = nb::none();
    d["device"] = device;
    // The CPU takes over from a failed device, with the same answers.
    if (on_device && on_device->failed()) d["device_failed"] = on_device->failed();
    if (const auto why = core.executor().trouble(); !why.empty()) d["device_failed"] = why;
    if (mailboxes) d["mailbox"] = core.executor().mailbox();
    d["algorithm"] = algorithm;
    d["threads"] = threads;
    d["card"] = std::string(core.card_name());
    add_card_figures(d, core.card_figures());
    d["progress"] = core.progress();
    d["truncated"] = core.truncated();
    d["truncated_files"] = core.truncated_files();
    return d;
  }
  nb::dict take_rings() {
    trigger::RingColumns c;
    {
      nb::gil_scoped_release release;
      c = core.take_rings();
    }
    nb::dict d;
    d["burst"] = column(std::move(c.burst));
    d["event"] = column(std::move(c.event));
    d["timestamp"] = column(std::move(c.timestamp));
    d["fine_time"] = column(std::move(c.fine_time));
    d["ring"] = column(std::move(c.ring));
    d["n_rings"] = column(std::move(c.n_rings));
    d["x"] = column(std::move(c.x));
    d["y"] = column(std::move(c.y));
    d["r"] = column(std::move(c.r));
    d["n_hits"] = column(std::move(c.n_hits));
    d["chi2_ndf"] = column(std::move(c.chi2_ndf));
    d["event_hits"] = column(std::move(c.event_hits));
    d["primitive"] = column(std::move(c.primitive));
    return d;
  }

  std::string algorithm, device;
  const gpu::GpuReconstructor* on_device = nullptr;
  bool mailboxes = false;
  unsigned threads = 1;
  std::size_t channels = pm_count;
  trigger::Replay core;
};

// Options as for Trigger: listen, algorithm, parameters, detector, boards, window_lsb, source.
trigger::Level1Options level1_options(const nb::dict& o) {
  trigger::Level1Options l;
  const card::ClopOptions clop = clop_options(o);
  if (!clop.listen.empty()) l.listen = clop.listen[0];
  l.rules = clop.rules;
  l.algorithm = get<std::string>(o, "algorithm", l.algorithm);
  l.parameters = parameters(o);
  l.detector = detector_option(o);
  l.window_lsb = clop.window_lsb;
  return l;
}

nb::dict level1_dict(const trigger::Level1& core) {
  const trigger::Level1Builder::Counts c = core.counts();
  nb::dict d, refused;
  for (const auto& [key, value] : {std::pair{"packets_in", c.packets},
                                   {"bytes_in", c.bytes},
                                   {"events_complete", c.complete},
                                   {"events_incomplete", c.incomplete},
                                   {"events_twice", c.twice},
                                   {"wrong_time", c.wrong_time},
                                   {"stale", c.stale},
                                   {"bad_data", c.bad_data},
                                   {"events_empty", c.empty},
                                   {"events_reconstructed", c.events},
                                   {"rings", c.rings}})
    d[key] = value;
  for (std::size_t i = 0; i < c.refused.size(); ++i)
    refused[std::string(wire::mep::name(static_cast<wire::mep::Refusal>(i))).c_str()] = c.refused[i];
  d["bad_packets"] = refused;
  nb::list by_rings;
  for (const std::uint64_t n : c.by_rings) by_rings.append(n);
  d["rings_per_event"] = by_rings;
  return d;
}

}  // namespace

void bind_trigger(nb::module_& m) {
  gateware::register_cards();
  m.def("counter_descriptions", &counter_descriptions,
        "Counters of a run: dictionaries with family (object in JSON, '' for none), name, metric and text.");
  m.def("histogram_descriptions", &histogram_descriptions, "Event histograms of monitor(): (name, text).");
  m.def("stage_descriptions", &stage_descriptions, "Latency stages: (name, start, end).");
  m.def(
      "gateware_missing", [] { return std::string(gateware::simulation_missing()); },
      "Why this build has no simulated card; empty: it has one.");
  m.def(
      "serve_recovery", [](int fd) { return gpu::serve_recovery(fd); }, nb::arg("fd"),
      nb::call_guard<nb::gil_scoped_release>(),
      "The recovery process of a trigger whose GPU was lost: all that it does (nanet/gpu_recovery.py). Gives "
      "the "
      "exit status.");
  nb::class_<PyTrigger>(m, "Trigger",
                        "The trigger processor; options as a flat dictionary (docs/configuration.md).")
      .def(nb::init<nb::dict>())
      .def("start", [](PyTrigger& t) { t.core.start(); })
      .def("request_stop", [](PyTrigger& t) { t.core.request_stop(); })
      .def(
          "join", [](PyTrigger& t, double timeout_s) { return t.core.join(timeout_s); },
          nb::call_guard<nb::gil_scoped_release>(), nb::arg("timeout_s"))
      .def("snapshot", &PyTrigger::snapshot)
      .def("result", &PyTrigger::snapshot)
      .def("take_bursts",
           [](PyTrigger& t) {
             std::vector<trigger::BurstReport> reports;
             {
               nb::gil_scoped_release release;
               reports = t.core.bursts().take();
             }
             nb::list out;
             for (const auto& r : reports) out.append(burst_dict(r));
             return out;
           })
      .def("offer_conditions",
           [](PyTrigger& t, const nb::dict& o) {
             if (!t.core.conditions())
               throw std::invalid_argument("this trigger was made without conditions: give it some first");
             t.core.conditions()->offer(conditions(o));
           })
      .def("monitor",
           [](const PyTrigger& t) { return monitor(t.core.physics(), t.core.conditions(), t.channels); })
      .def("histograms", [](const PyTrigger& t) { return histograms(t.core.accounting()); })
      .def(
          "stops", [](const PyTrigger& t) { return polling_stops(t.core.stops()); },
          "With option `stops`: stops above 50 us of the card's thread and of its sending and reading "
          "threads: "
          "thread, cpu (None: not pinned), seconds watched, over_50us and over_50us_share (number, share of "
          "the time watched), longest_us (0: none), begin and end (CLOCK_MONOTONIC ns).")
      .def(
          "lost_packets", [](const PyTrigger& t) { return lost_packets(t.core); },
          "After join(): packets lost as `late` or `overrun`: frame, counted from 0 over the run, board, "
          "1 if `overrun`, and arrival (CLOCK_MONOTONIC ns), u64; the first 262144.")
      .def(
          "final_slack",
          [](const PyTrigger& t) {
            const auto* final = t.core.final_trigger();
            return final && final->card() ? nb::object(card_slack(*final->card())) : nb::object(nb::none());
          },
          "Slack of the decisions of a card that releases the triggers: upper edges (us) and counts; else "
          "None.")
      .def_prop_ro("listening", [](const PyTrigger& t) {
        std::vector<std::string> out;
        for (const auto& e : t.core.listening()) out.push_back(os::to_string(e));
        return out;
      });
  nb::class_<trigger::Level1>(m, "Level1",
                              "Level 1: reconstructs the events of the boards' MEPs; options as for Trigger.")
      .def("__init__",
           [](trigger::Level1* self, const nb::dict& o) { new (self) trigger::Level1(level1_options(o)); })
      .def("start", &trigger::Level1::start, "Starts the thread.")
      .def("stop", &trigger::Level1::stop, nb::call_guard<nb::gil_scoped_release>(),
           "Takes what has arrived, and gives up the events without all answers.")
      .def_prop_ro("listening", [](const trigger::Level1& self) { return os::to_string(self.endpoint()); })
      .def("snapshot", &level1_dict, "What has come so far: the keys of the JSON.");
  nb::class_<PyReplay>(m, "Replay",
                       "Recorded traffic through the trigger; options as for Trigger, and pcap, more, mtp, "
                       "rings.")
      .def(nb::init<nb::dict>())
      .def(
          "run", [](PyReplay& r) { r.core.run(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("request_stop", [](PyReplay& r) { r.core.request_stop(); })
      .def("snapshot", &PyReplay::snapshot)
      .def("result", &PyReplay::snapshot)
      .def("take_rings", &PyReplay::take_rings)
      .def("monitor", [](const PyReplay& r) { return monitor(r.core.physics(), nullptr, r.channels); })
      .def("histograms", [](const PyReplay& r) { return histograms(r.core.accounting()); });
}
