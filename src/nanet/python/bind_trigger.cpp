// SPDX-License-Identifier: Apache-2.0
// nanet._core.Trigger and nanet._core.Replay: options in as one flat dictionary, counts out as the JSON says
// them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nanet/card/udp.hpp"
#include "nanet/cuda/reconstructor.hpp"
#include "nanet/gateware/cards.hpp"
#include "nanet/loop/executor_cuda.hpp"
#include "nanet/loop/helper_serve.hpp"
#include "nanet/trigger/replay.hpp"
#include "nanet/trigger/tap.hpp"
#include "nanet/trigger/trigger.hpp"

namespace nb = nanobind;
using namespace nanet;

namespace {

template <class T>
T get(const nb::dict& options, const char* key, T fallback) {
  if (!options.contains(key)) return fallback;
  try {
    return nb::cast<T>(options[key]);
  } catch (const nb::cast_error&) {
    throw std::invalid_argument(std::string(key) + " = " + nb::cast<std::string>(nb::str(options[key])) +
                                " is of the wrong type");
  }
}

Nanoseconds microseconds(const nb::dict& options, const char* key, double fallback_us) {
  return static_cast<Nanoseconds>(get<double>(options, key, fallback_us) * 1e3);
}

card::ClopOptions clop_options(const nb::dict& o) {
  card::ClopOptions c;
  if (const auto listen = get<std::string>(o, "listen", ""); !listen.empty())
    c.listen = card::parse_endpoints(listen);
  if (const auto send = get<std::string>(o, "send", ""); !send.empty())
    c.destinations = card::parse_endpoints(send);
  const auto gather = get<std::string>(o, "gather", "frame");
  if (gather != "frame" && gather != "packets")
    throw std::invalid_argument("gather = " + gather + " must be frame or packets");
  c.gather = gather == "frame" ? contract::Gather::frame : contract::Gather::packets;
  c.packets = get<std::uint32_t>(o, "packets", 1);
  c.buffers = get<std::uint32_t>(o, "buffers", 0);
  c.segment_bytes = get<std::uint32_t>(o, "segment_bytes", 8192);
  c.rules.boards = static_cast<std::uint8_t>(get<unsigned>(o, "boards", 0xF));
  c.rules.source = static_cast<std::uint8_t>(get<unsigned>(o, "source", rich_source));
  c.rules.max_payload =
      static_cast<std::uint16_t>(get<unsigned>(o, "max_payload", wire::mgp::default_max_payload));
  c.rules.max_frames = get<std::uint32_t>(o, "max_frames", default_max_frames);
  c.timeout = microseconds(o, "timeout_us", 20e3);
  c.deadline = microseconds(o, "deadline_us", 50e3);
  c.burst_silence = microseconds(o, "burst_silence_us", 1e6);
  c.devices = get<std::uint32_t>(o, "devices", 1);
  c.threads = std::clamp(get<unsigned>(o, "card_threads", 1), 1u, 10u);
  if (const auto bytes = get<std::uint64_t>(o, "buffer_bytes", 0))
    c.socket_buffer_bytes = static_cast<int>(std::min<std::uint64_t>(bytes, 1u << 30));
  return c;
}

trigger::ProcessOptions process_options(const nb::dict& o) {
  trigger::ProcessOptions p;
  p.window_lsb = get<std::int32_t>(o, "window_lsb", trigger::default_window_lsb);
  p.source = static_cast<std::uint8_t>(get<unsigned>(o, "source", rich_source));
  p.decision.min_hits = get<std::uint32_t>(o, "min_hits", 1);
  p.decision.multiplicity = get<std::uint32_t>(o, "multiplicity", 24);
  p.decision.saturated_mm = static_cast<float>(get<double>(o, "saturated_mm", 185.0));
  p.decision.small_mm = static_cast<float>(get<double>(o, "small_mm", 180.0));
  p.decision.chi2_cut = static_cast<float>(get<double>(o, "chi2_cut", 3.0));
  const auto factors = get<std::vector<std::uint32_t>>(o, "downscale_factors", {});
  if (factors.size() > p.downscale.factor.size())
    throw std::invalid_argument("downscale: there are four kinds of primitives");
  std::copy(factors.begin(), factors.end(), p.downscale.factor.begin());
  return p;
}

// Masked PMs and time offsets of all channels (LSB), as `masked`, `t0_lsb` and `name` say them.
std::shared_ptr<const trigger::Conditions> conditions(const nb::dict& o) {
  auto c = std::make_shared<trigger::Conditions>();
  for (const unsigned pm : get<std::vector<unsigned>>(o, "masked", {})) {
    if (pm >= pm_count)
      throw std::invalid_argument("mask = " + std::to_string(pm) + " is no photomultiplier");
    c->masked[pm] = 1;
  }
  const auto t0 = get<std::vector<int>>(o, "t0_lsb", {});
  if (!t0.empty() && t0.size() != pm_count)
    throw std::invalid_argument("t0_lsb has " + std::to_string(t0.size()) + " values; give 1952");
  for (std::size_t pm = 0; pm < t0.size(); ++pm) {
    if (std::abs(t0[pm]) > trigger::max_t0_lsb)
      throw std::invalid_argument("t0_lsb of " + std::to_string(pm) + " = " + std::to_string(t0[pm]) +
                                  " must be within 1024 LSB");
    c->t0[pm] = static_cast<std::int16_t>(t0[pm]);
  }
  c->name = get<std::string>(o, "name", "");
  return c;
}

std::shared_ptr<const trigger::Conditions> conditions_option(const nb::dict& o) {
  if (!o.contains("conditions") || !nb::isinstance<nb::dict>(o["conditions"])) return nullptr;
  return conditions(nb::cast<nb::dict>(o["conditions"]));
}

rich::Parameters parameters(const nb::dict& o) {
  rich::Parameters out;
  if (!o.contains("parameters")) return out;
  for (const auto& [key, value] : nb::cast<nb::dict>(o["parameters"]))
    out[nb::cast<std::string>(key)] = nb::cast<double>(value);
  return out;
}

template <std::size_t N, class Names>
nb::dict by_name(const std::array<std::uint64_t, N>& counts, Names name) {
  nb::dict d;
  for (std::size_t i = 0; i < N; ++i) d[nb::str(std::string(name(i)).c_str())] = counts[i];
  return d;
}

nb::dict latency(const trigger::Book& book) {
  nb::dict out;
  for (std::size_t s = 0; s < trigger::stage_count; ++s) {
    const trigger::Histogram& h = book.stage(static_cast<trigger::Stage>(s));
    nb::dict d;
    const auto us = [&](double p) { return h.percentile(p) * 1e-3; };
    d["p50"] = us(0.5);
    d["p90"] = us(0.9);
    d["p99"] = us(0.99);
    d["p99_9"] = us(0.999);
    d["p99_99"] = us(0.9999);
    d["max"] = static_cast<double>(h.max()) * 1e-3;
    d["n"] = h.count();
    out[nb::str(trigger::stage_names[s].data(), trigger::stage_names[s].size())] = d;
  }
  return out;
}

nb::dict counts(const trigger::Account& a) {
  nb::dict d;
#define NANET_COUNT(name) d[#name] = a.name
  NANET_COUNT(packets_in);
  NANET_COUNT(packets_used);
  NANET_COUNT(burst_markers);
  NANET_COUNT(bytes_in);
  NANET_COUNT(events_in);
  NANET_COUNT(events_built);
  NANET_COUNT(hits_in);
  NANET_COUNT(rings);
  NANET_COUNT(primitives_out);
  NANET_COUNT(below_min_hits);
  NANET_COUNT(mtp_overflow);
  NANET_COUNT(in_late_frames);
  NANET_COUNT(frames_in);
  NANET_COUNT(frames_out);
  NANET_COUNT(frames_answered);
  NANET_COUNT(frames_late);
  NANET_COUNT(frames_skipped);
  NANET_COUNT(frames_incomplete);
  NANET_COUNT(frames_overrun);
  NANET_COUNT(duplicate_hits);
  NANET_COUNT(split_at_frame_edge);
  NANET_COUNT(masked_hits);
  NANET_COUNT(bursts);
  NANET_COUNT(answers_after_deadline);
  NANET_COUNT(send_errors);
  NANET_COUNT(bad_descriptors);
  NANET_COUNT(events_dropped);
  NANET_COUNT(account_checks);
  NANET_COUNT(account_violations);
#undef NANET_COUNT
  d["bad_packets"] =
      by_name(a.bad, [](std::size_t i) { return wire::mgp::name(static_cast<wire::mgp::Refusal>(i)); });
  nb::dict lost = by_name(a.lost, [](std::size_t i) { return card::lost_names[i]; });
  // A running balance: between two bursts it may fall.
  constexpr auto missing = static_cast<std::size_t>(card::Lost::missing);
  lost["missing"] = static_cast<std::int64_t>(a.lost[missing]);
  d["lost"] = lost;
  d["downscaled"] = by_name(a.downscaled, [](std::size_t i) { return trigger::kind_names[i]; });
  d["not_mgp"] = by_name(a.not_mgp, [](std::size_t i) { return wire::name(static_cast<wire::NotMgp>(i)); });
  d["account_closes"] = a.closes();
  return d;
}

nb::dict account_dict(const trigger::Account& a, const trigger::Book& book, double elapsed) {
  nb::dict d = counts(a);
  d["elapsed_s"] = elapsed;
  d["events_per_s"] = elapsed > 0 ? static_cast<double>(a.events_built) / elapsed : 0.0;
  d["latency_us"] = latency(book);
  return d;
}

// One burst of a run, or (burst None) what was counted after the last one.
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

// Where the run is and what holds for it: the same words and numbers in every view.
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
  if (const auto* recorder = core.recorder()) {
    nb::dict r;
#define NANET_COUNT(name) r[#name] = static_cast<std::uint64_t>(recorder->name)
    NANET_COUNT(packets);
    NANET_COUNT(bad_packets);
    NANET_COUNT(bytes);
    NANET_COUNT(files);
    NANET_COUNT(files_removed);
    NANET_COUNT(ring_full);
    NANET_COUNT(write_failed);
#undef NANET_COUNT
    if (const auto trouble = recorder->trouble(); !trouble.empty()) r["trouble"] = trouble;
    d["recorded"] = r;
  }
}

// What the card's own instruments show, under `card_figures`.
void add_card_figures(nb::dict& d, const std::vector<std::pair<std::string, double>>& figures) {
  if (figures.empty()) return;
  nb::dict out;
  for (const auto& [name, value] : figures) out[nb::str(name.c_str())] = value;
  d["card_figures"] = out;
}

// Copies a column into an array that owns its memory.
template <class T>
nb::object column(std::vector<T> values, std::initializer_list<std::size_t> shape = {}) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  std::vector<std::size_t> dims(shape);
  if (dims.empty()) dims.push_back(kept->size());
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), dims.size(), dims.data(), owner));
}

template <class Array>
std::vector<std::uint64_t> sum(const std::vector<const trigger::Physics*>& physics,
                               Array trigger::Physics::* member) {
  std::vector<std::uint64_t> total((physics.front()->*member).size());
  for (const auto* p : physics)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += (p->*member)[i];
  return total;
}

// PM IDs that the conditions in effect mask.
nb::list masked(const trigger::ConditionsStore* store) {
  nb::list out;
  if (!store) return out;
  const auto conditions = store->current();
  for (std::size_t pm = 0; pm < pm_count; ++pm)
    if (conditions->masked[pm]) out.append(pm);
  return out;
}

nb::dict monitor(const std::vector<const trigger::Physics*>& physics,
                 const trigger::ConditionsStore* conditions) {
  using trigger::Physics;
  nb::dict d;
  d["masked"] = masked(conditions);
  d["hits_per_event"] = column(sum(physics, &Physics::hits_per_event));
  d["rings_per_event"] = column(sum(physics, &Physics::rings_per_event));
  d["radius"] = column(sum(physics, &Physics::radius));
  d["centre"] = column(sum(physics, &Physics::centre), {Physics::centre_bins, Physics::centre_bins});
  d["pm_occupancy"] = column(sum(physics, &Physics::occupancy));
  std::uint64_t sampled = 0;
  nb::list events;
  for (const auto* p : physics) {
    sampled += p->sampled_events;
    for (const auto& e : p->events()) {
      nb::dict event;
      event["frame"] = e.frame;
      event["time_lsb"] = e.time;
      event["primitive"] = e.primitive;
      event["pm"] = column(std::vector<std::uint16_t>(
          e.pm.begin(), e.pm.begin() + std::min<std::size_t>(e.hits, e.pm.size())));
      nb::list late;
      for (unsigned i = 0; i < e.hits && i < e.late.size(); ++i) {
        if (e.late[i] == trigger::ShownEvent::unknown)
          late.append(nb::none());
        else
          late.append(e.late[i] * lsb_ns);
      }
      event["late_ns"] = late;
      std::vector<float> rings;
      for (unsigned i = 0; i < e.rings.count; ++i) {
        const auto& r = e.rings.ring[i];
        for (float v : {r.x, r.y, r.r, r.chi2_ndf, static_cast<float>(r.hits)}) rings.push_back(v);
      }
      event["rings"] = column(std::move(rings), {e.rings.count, 5});
      events.append(event);
    }
  }
  d["sampled_events"] = sampled;
  d["events"] = events;
  return d;
}

nb::dict histograms(const trigger::Book& book) {
  nb::dict out;
  for (std::size_t s = 0; s < trigger::stage_count; ++s) {
    const trigger::Histogram& h = book.stage(static_cast<trigger::Stage>(s));
    std::vector<double> edges;
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < trigger::Histogram::bins; ++i)
      if (const auto n = h.in_bin(i)) {
        edges.push_back(static_cast<double>(trigger::Histogram::upper(i)) * 1e-3);
        counts.push_back(n);
      }
    out[nb::str(trigger::stage_names[s].data(), trigger::stage_names[s].size())] =
        nb::make_tuple(column(std::move(edges)), column(std::move(counts)));
  }
  return out;
}

// N of cuda:N; cuda is cuda:0.
int cuda_number(const std::string& device) {
  if (device == "cuda") return 0;
  int number = 0;
  const char *from = device.data() + 5, *end = device.data() + device.size();
  if (!device.starts_with("cuda:") || std::from_chars(from, end, number).ptr != end || from == end)
    throw std::invalid_argument("device: '" + device + "' must be cpu, cuda or cuda:N");
  return number;
}

// A GPU in the loop: options device, executor, blocks, takeover, helper (the program that brings a lost GPU
// back: program and arguments); inject_fault, inject_hang: the number from which on the GPU fails, for tests.
loop::CudaOptions cuda_options(const nb::dict& o, const std::string& device) {
  loop::CudaOptions c;
  c.device = cuda_number(device);
  c.mode = loop::mode_of(get<std::string>(o, "executor", "persistent"));
  c.blocks = get<unsigned>(o, "blocks", 0);
  c.takeover = get<bool>(o, "takeover", true);
  c.stall = std::clamp<Nanoseconds>(microseconds(o, "deadline_us", 50e3) / 2, 500'000, 20'000'000);
  c.helper.command = get<std::vector<std::string>>(o, "helper", {});
  c.helper.algorithm = get<std::string>(o, "algorithm", "multiring");
  c.helper.parameters = parameters(o);
  using Kind = loop::Injection::Kind;
  if (o.contains("inject_fault")) c.injection = {Kind::fault, get<std::uint64_t>(o, "inject_fault", 0)};
  if (o.contains("inject_hang")) c.injection = {Kind::hang, get<std::uint64_t>(o, "inject_hang", 0)};
  return c;
}

trigger::ExecutorMaker in_the_loop(const loop::CudaOptions& c) {
  return [c](const trigger::ExecutorOptions& execute, std::vector<contract::View> views,
             const rich::Reconstructor& reconstructor, trigger::TraceTable& traces) {
    return loop::make_cuda_executor(c, execute, std::move(views), reconstructor, traces);
  };
}

// The options that a result repeats, and the Trigger they belong to.
struct PyTrigger {
  explicit PyTrigger(const nb::dict& o)
      : real_time(get<bool>(o, "real_time", false)),
        timeout_us(get<double>(o, "timeout_us", 20e3)),
        deadline_us(get<double>(o, "deadline_us", 50e3)),
        core([&] {
          trigger::TriggerOptions t;
          t.card = get<std::string>(o, "card", "socket");
          t.clop = clop_options(o);
          if (t.clop.gather == contract::Gather::packets && t.clop.buffers == 0) t.clop.buffers = 256;
          t.algorithm = get<std::string>(o, "algorithm", "multiring");
          t.parameters = parameters(o);
          t.process = process_options(o);
          if (const int fd = get<int>(o, "tap", -1); fd >= 0) {
            tap = std::make_unique<trigger::EventTap>(fd);
            t.process.tap = tap.get();
          }
          t.threads = get<unsigned>(o, "threads", 1);
          t.pin = get<std::vector<int>>(o, "pin", {});
          t.busy = get<bool>(o, "busy", false);
          t.keep_bad = get<std::string>(o, "keep_bad", "");
          t.choke.high = get<double>(o, "choke_high", t.choke.high);
          t.choke.low = get<double>(o, "choke_low", t.choke.low);
          t.conditions = conditions_option(o);
          t.record.folder = get<std::string>(o, "record", "");
          t.record.file_bytes = get<std::uint64_t>(o, "record_file_bytes", t.record.file_bytes);
          t.record.limit_bytes = get<std::uint64_t>(o, "record_limit_bytes", t.record.limit_bytes);
          device = get<std::string>(o, "device", "cpu");
          if (device != "cpu") {
            const loop::CudaOptions cuda = cuda_options(o, device);
            if (!cuda.helper.command.empty() && cuda.takeover && cuda.mode == loop::Mode::persistent)
              t.clop.place = &contract::shared_place();
            t.executor = in_the_loop(cuda);
          }
          algorithm = t.algorithm;
          threads = t.threads;
          gather = t.clop.gather == contract::Gather::frame ? "frame" : "packets";
          return t;
        }()) {}

  nb::dict snapshot() const {
    nb::dict d = account_dict(core.account(), core.book(), core.elapsed_s());
    d["real_time"] = real_time;
    d["timeout_us"] = timeout_us;
    d["deadline_us"] = deadline_us;
    d["device"] = device;
    d["executor"] = std::string(core.executor().name());
    d["memory"] = std::string(core.executor().memory());
    for (const auto& [key, value] : core.executor().figures()) d[nb::str(key.c_str())] = value;
    if (const auto why = core.executor().trouble(); !why.empty()) d["device_failed"] = why;
    d["algorithm"] = algorithm;
    d["threads"] = threads;
    d["gather"] = gather;
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
  std::unique_ptr<trigger::EventTap> tap;  // of a monitor
  trigger::Trigger core;
};

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
          r.algorithm = get<std::string>(o, "algorithm", "multiring");
          r.parameters = parameters(o);
          r.process = process_options(o);
          r.threads = get<unsigned>(o, "threads", 1);
          r.pin = get<std::vector<int>>(o, "pin", {});
          r.keep_bad = get<std::string>(o, "keep_bad", "");
          r.conditions = conditions_option(o);
          device = get<std::string>(o, "device", "cpu");
          if (device != "cpu" && get<bool>(o, "in_the_loop", false)) {
            r.executor = in_the_loop(cuda_options(o, device));
          } else if (device != "cpu") {
            const int number = cuda_number(device);
            r.device = [this, number](const rich::Reconstructor& cpu, const rich::Geometry& geometry) {
              auto made = cuda::make_reconstructor(cpu, geometry, number);
              on_device = made.get();
              return made;
            };
          }
          algorithm = r.algorithm;
          threads = r.threads;
          return r;
        }()) {}

  nb::dict snapshot() const {
    nb::dict d = account_dict(core.account(), core.book(), core.elapsed_s());
    d["real_time"] = false;
    d["timeout_us"] = nb::none();  // a replay has no clock
    d["deadline_us"] = nb::none();
    d["device"] = device;
    // The CPU goes on where the device fails, with the same answers.
    if (on_device && on_device->failed()) d["device_failed"] = on_device->failed();
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
  const cuda::CudaReconstructor* on_device = nullptr;
  unsigned threads = 1;
  trigger::Replay core;
};

}  // namespace

void bind_trigger(nb::module_& m) {
  gateware::add_cards();
  m.def(
      "gateware_missing", [] { return std::string(gateware::simulation_missing()); },
      "Why this build has no simulated card; empty: it has one.");
  m.def(
      "serve_helper", [](int fd) { return loop::serve_helper(fd); }, nb::arg("fd"),
      nb::call_guard<nb::gil_scoped_release>(),
      "The helper process of a trigger whose GPU was lost: all that it does (nanet/gpu_helper.py). Gives the "
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
      .def("monitor", [](const PyTrigger& t) { return monitor(t.core.physics(), t.core.conditions()); })
      .def("histograms", [](const PyTrigger& t) { return histograms(t.core.book()); })
      .def_prop_ro("listening", [](const PyTrigger& t) {
        std::vector<std::string> out;
        for (const auto& e : t.core.listening()) out.push_back(card::to_string(e));
        return out;
      });
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
      .def("monitor", [](const PyReplay& r) { return monitor(r.core.physics(), nullptr); })
      .def("histograms", [](const PyReplay& r) { return histograms(r.core.book()); });
}
