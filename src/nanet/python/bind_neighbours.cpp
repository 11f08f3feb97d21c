// SPDX-License-Identifier: Apache-2.0
// nanet._core.Readout, L0tp and Farm: emulated neighbours, each with a dedicated thread.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "nanet/l0tp/farm_receiver.hpp"
#include "nanet/l0tp/l0tp.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/python/trigger_options.hpp"
#include "nanet/readout/readout.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;

using U16 = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using U32 = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using U8 = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Values of `options` by name. An unused name is an error, so that misspelt names are found.
class Options {
 public:
  explicit Options(nb::dict options) : options_(std::move(options)) {}
  template <class T>
  void take(const char* key, T& value) {
    if (!options_.contains(key)) return;
    ++taken_;
    known_.emplace_back(key);
    value = nb::cast<T>(options_[key]);
  }
  void finish() const {
    if (taken_ == options_.size()) return;
    for (const auto& [key, value] : options_) {
      const auto name = nb::cast<std::string>(key);
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        throw nb::type_error(("unknown option: " + name).c_str());
    }
  }

 private:
  nb::dict options_;
  std::vector<std::string> known_;
  std::size_t taken_ = 0;
};

// Raises a core error as the Python exception that nanet.errors.starting() converts to one sentence and exit
// status 2.
[[noreturn]] void raise_os_error(const std::system_error& error) {
  PyErr_SetString(PyExc_OSError, error.what());
  throw nb::python_error();
}
template <class Make>
auto guarded(Make&& make) {
  try {
    const nb::gil_scoped_release released;
    return make();
  } catch (const std::system_error& error) {
    raise_os_error(error);
  } catch (const std::invalid_argument&) {
    throw;                                     // ValueError in Python
  } catch (const std::runtime_error& error) {  // invalid file
    throw nb::value_error(error.what());
  }
}

nb::dict histogram_dict(const stats::Histogram& h) {
  nb::dict d;
  const auto us = [&](double p) { return h.percentile(p) / 1e3; };
  d["p50"] = us(0.5);
  d["p90"] = us(0.9);
  d["p99"] = us(0.99);
  d["p99_9"] = us(0.999);
  d["p99_99"] = us(0.9999);
  d["max"] = static_cast<double>(h.max()) / 1e3;
  d["n"] = h.count();
  return d;
}

// Column as a numpy array with a copy of the data.
template <class T>
nb::object column(const std::vector<T>& values) {
  auto* copy = new std::vector<T>(values);
  const nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(copy->data(), {copy->size()}, owner));
}

readout::ReadoutOptions readout_options(const nb::dict& given) {
  readout::ReadoutOptions o;
  Options options(given);
  std::string to = "127.0.0.1:58913", fault;
  options.take("to", to);
  options.take("rate", o.generator.rate);
  options.take("noise", o.generator.noise);
  options.take("rings", o.generator.rings);
  options.take("seed", o.generator.seed);
  options.take("merged", o.pack.merged);
  options.take("fixed", o.pack.fixed);
  options.take("pad", o.pack.pad);
  options.take("max_payload", o.pack.max_payload);
  nb::object detector;
  options.take("detector", detector);
  if (detector.is_valid() && !detector.is_none()) python::set_detector(o.generator, given);
  options.take("pool_frames", o.pool_frames);
  options.take("keep_truth", o.keep_truth);
  options.take("pcap", o.pcap);
  options.take("pcap_port", o.pcap_port);
  options.take("speed", o.speed);
  options.take("duration", o.duration_s);
  options.take("events", o.events);
  options.take("bursts", o.bursts);
  options.take("burst_frames", o.burst_frames);
  options.take("burst_gap", o.burst_gap_s);
  options.take("first_burst", o.first_burst);
  options.take("fault", fault);
  o.faults.seed = o.generator.seed;
  options.take("fault_seed", o.faults.seed);
  options.take("fault_markers", o.faults.markers);
  options.take("delay_frames", o.faults.delay_frames);
  options.take("times", o.times);
  options.take("late_us", o.late_us);
  options.take("segmentation", o.segmentation);
  options.take("spin", o.spin);
  options.take("batch_us", o.batch_us);
  options.take("batch_frames", o.batch_frames);
  options.take("threads", o.threads);
  options.take("pin", o.pin);
  std::string boards, farm, sync;
  double latency_us = 0;
  options.take("final_boards", boards);
  options.take("farm", farm);
  options.take("sync", sync);
  options.take("latency_us", latency_us);
  options.finish();
  if (!boards.empty()) {
    o.final.listen = os::parse_endpoints("final.boards", boards);
    o.final.farm = os::parse_endpoint("final.farm", farm);
    o.final.latency = static_cast<Timestamp>(std::min(latency_us * 1e3 / period_ns, 4e9));
    if (!sync.empty()) o.final.sync = os::parse_endpoint("final.sync", sync);
  }
  for (std::string_view rest = to;;) {  // nodes by semicolons, a node's endpoints by commas
    const auto end = rest.find(';');
    o.nodes.push_back(os::parse_endpoints("readout.to", rest.substr(0, end)));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  readout::parse_faults(fault, o.faults);
  return o;
}

template <std::size_t N, class Name>
nb::dict refusals(const std::array<std::uint64_t, N>& counts, const Name& name) {
  nb::dict d;
  for (std::size_t i = 0; i < N; ++i)
    if (counts[i]) d[std::string(name(i)).c_str()] = counts[i];
  return d;
}
nb::dict refused_datagrams(const std::array<std::uint64_t, wire::trigger::refusal_count>& counts) {
  return refusals(counts,
                  [](std::size_t i) { return wire::trigger::name(static_cast<wire::trigger::Refusal>(i)); });
}

// Times in µs of the experiment.
nb::dict final_snapshot(const readout::FinalBoards& final) {
  nb::dict d, slack, late_by;
  nb::list boards;
  readout::FinalCounts all;
  for (unsigned b = 0; b < final.boards(); ++b) {
    const readout::FinalCounts c = final.counts(b);
    nb::dict board;
    const auto put = [&](const char* key, std::uint64_t n, std::uint64_t& sum) {
      board[key] = n;
      d[key] = sum += n;
    };
    put("triggers", c.triggers.triggers, all.triggers.triggers);
    put("answered", c.triggers.answered, all.triggers.answered);
    put("joined", c.triggers.joined, all.triggers.joined);
    put("late", c.triggers.late, all.triggers.late);
    put("early", c.triggers.early, all.triggers.early);
    put("untimed", c.triggers.untimed, all.triggers.untimed);
    put("flushed", c.triggers.flushed, all.triggers.flushed);
    put("datagrams", c.datagrams, all.datagrams);
    put("datagrams_lost", c.lost, all.lost);
    put("datagrams_out_of_order", c.out_of_order, all.out_of_order);
    put("answers_empty", c.empty, all.empty);
    put("fragments_overwritten", c.overwritten, all.overwritten);
    put("packets", c.packets, all.packets);
    put("bytes", c.bytes, all.bytes);
    put("send_errors", c.send_errors, all.send_errors);
    board["refused_datagrams"] = refused_datagrams(c.refused);
    for (std::size_t i = 0; i < c.refused.size(); ++i) all.refused[i] += c.refused[i];
    boards.append(board);
  }
  d["refused_datagrams"] = refused_datagrams(all.refused);
  d["boards"] = boards;
  d["latency_us"] = static_cast<double>(final.latency()) * period_ns * 1e-3;
  d["latency_periods"] = final.latency();
  const auto us = [](const stats::Histogram& h, double p) { return h.percentile(p) * 1e-3; };
  readout::FinalTiming timing;
  final.timing(timing);
  slack["p50"] = us(timing.slack, 0.5);
  slack["p1"] = us(timing.slack, 0.01);
  slack["p0_1"] = us(timing.slack, 0.001);
  slack["min"] = final.slack_min() < 0 ? nb::object(nb::none())
                                       : nb::cast(static_cast<double>(final.slack_min()) * 1e-3);
  slack["n"] = timing.slack.count();
  d["slack_us"] = slack;
  late_by["p50"] = us(timing.late_by, 0.5);
  late_by["max"] = static_cast<double>(timing.late_by.max()) * 1e-3;
  late_by["n"] = timing.late_by.count();
  d["late_by_us"] = late_by;
  return d;
}

nb::dict farm_snapshot(const l0tp::FarmReceiver& farm) {
  const l0tp::FarmCheck::Counts c = farm.counts();
  nb::dict d;
  const auto put = [&](const char* key, std::uint64_t n) { d[key] = n; };
  put("triggered", c.events.triggered);
  put("complete", c.events.complete);
  put("incomplete", c.events.incomplete);
  put("open", c.events.triggered - c.events.complete - c.events.incomplete);
  put("twice", c.events.twice);
  put("untriggered", c.events.untriggered);
  put("wrong_time", c.events.wrong_time);
  put("empty", c.events.empty);
  put("bytes", c.events.bytes);
  put("datagrams", c.datagrams);
  put("datagrams_lost", c.datagrams_lost);
  put("datagrams_out_of_order", c.datagrams_out_of_order);
  d["refused_datagrams"] = refused_datagrams(c.refused_datagrams);
  d["refused_packets"] = refusals(
      c.refused_packets, [](std::size_t i) { return wire::mep::name(static_cast<wire::mep::Refusal>(i)); });
  d["answers"] = c.answers;
  nb::list rings;
  for (std::size_t r = 0; r < c.kept.size() && farm.options().truth[r]; ++r) {
    nb::dict row;
    row["rings"] = r;
    row["expected"] = c.kept[r].expected;
    row["kept"] = c.kept[r].kept;
    rings.append(row);
  }
  d["kept_by_rings"] = rings;
  return d;
}

l0tp::FarmOptions farm_options(const nb::dict& given) {
  l0tp::FarmOptions o;
  Options options(given);
  std::string listen = os::to_string(o.listen);
  nb::object truth = nb::none();
  options.take("listen", listen);
  options.take("boards", o.boards);
  options.take("truth", truth);
  options.finish();
  o.listen = os::parse_endpoint("final.farm", listen);
  if (truth.is_none()) return o;
  const auto columns = nb::cast<nb::dict>(truth);
  const auto burst = nb::cast<U16>(columns["burst"]);
  const auto timestamp = nb::cast<U32>(columns["timestamp"]);
  const auto fine = nb::cast<U8>(columns["fine_time"]);
  const auto rings = nb::cast<U8>(columns["rings"]);
  const auto period = nb::cast<std::uint32_t>(columns["period"]);
  for (std::size_t r = 0; r < o.truth.size(); ++r) {
    std::vector<std::uint16_t> b;
    std::vector<Timestamp> t;
    std::vector<FineTime> f;
    for (std::size_t i = 0; i < rings.size(); ++i) {
      if (std::min<std::size_t>(rings.data()[i], o.truth.size() - 1) != r) continue;
      b.push_back(burst.data()[i]);
      t.push_back(timestamp.data()[i]);
      f.push_back(fine.data()[i]);
    }
    o.truth[r] = std::make_shared<l0tp::TruthTable>(b, t, f, period);
  }
  return o;
}

nb::dict readout_snapshot(const readout::Readout& readout) {
  const readout::ReadoutCounters c = readout.counters();
  nb::dict d, faults, errors;
  const std::uint64_t packets = readout.packets();
  const double elapsed = static_cast<double>(c.elapsed_ns) * 1e-9;
  const auto rate = [&](std::uint64_t n) { return elapsed > 0 ? static_cast<double>(n) / elapsed : 0.0; };
  d["packets_sent"] = packets;
  d["events_sent"] = std::uint64_t{c.events};
  d["fragments_sent"] = std::uint64_t{c.fragments};
  d["bytes_sent"] = readout.bytes();
  d["frames_sent"] = std::uint64_t{c.frames};
  d["bursts"] = std::uint64_t{c.bursts};
  for (std::size_t i = 0; i < readout::fault_count; ++i)
    faults[std::string(readout::name(static_cast<readout::Fault>(i))).c_str()] = std::uint64_t{c.faults[i]};
  d["faults"] = faults;
  for (std::size_t i = 0; i < readout::send_error_count; ++i) {
    const auto error = static_cast<readout::SendError>(i);
    if (const std::uint64_t n = readout.errors(error)) errors[std::string(readout::name(error)).c_str()] = n;
  }
  d["send_errors"] = errors;
  nb::list nodes;
  for (unsigned k = 0; k < readout.options().nodes.size(); ++k) {
    nb::dict node, failed;
    std::string to;
    for (const wire::Endpoint& endpoint : readout.options().nodes[k])
      to += (to.empty() ? "" : ",") + os::to_string(endpoint);
    node["node"] = k;
    node["to"] = to;
    // A capture goes to one node and is not counted by frame.
    node["frames_sent"] = std::uint64_t{readout.pool() ? c.dealt[k] : c.frames};
    node["packets_sent"] = readout.packets_to(k);
    for (std::size_t i = 0; i < readout::send_error_count; ++i) {
      const auto error = static_cast<readout::SendError>(i);
      if (const std::uint64_t n = readout.errors_to(k, error))
        failed[std::string(readout::name(error)).c_str()] = n;
    }
    node["send_errors"] = failed;
    node["refused_share"] = readout.refused_share(k);
    nodes.append(node);
  }
  d["nodes"] = nodes;
  d["elapsed_s"] = elapsed;
  d["packets_per_s"] = rate(packets);
  d["events_per_s"] = rate(c.events);
  d["behind_max_us"] = static_cast<double>(c.behind_max_ns) * 1e-3;
  d["segmentation"] = readout.segmenting();
  d["messages"] = readout.messages();
  d["threads"] = readout.options().threads;
  if (const auto* final = readout.final_boards()) d["final"] = final_snapshot(*final);
  if (!readout.options().pcap.empty()) d["not_mgp"] = std::uint64_t{c.skipped_records};
  return d;
}

nb::dict readout_truth(const readout::Readout& readout) {
  if (readout.pool() == nullptr || !readout.options().keep_truth)
    throw nb::value_error("no truth was kept: set keep_truth, and send generated events");
  const readout::TruthColumns& t = readout.pool()->truth();
  nb::dict d;
  d["burst"] = column(t.burst);
  d["timestamp"] = column(t.timestamp);
  d["fine_time"] = column(t.fine_time);
  d["event"] = column(t.event);
  d["ring"] = column(t.ring);
  d["x"] = column(t.x);
  d["y"] = column(t.y);
  d["r"] = column(t.r);
  d["particle"] = column(t.particle);
  d["momentum"] = column(t.momentum);
  d["n_hits"] = column(t.n_hits);
  d["event_hits"] = column(t.event_hits);
  return d;
}

l0tp::L0tpOptions l0tp_options(const nb::dict& given) {
  l0tp::L0tpOptions o;
  Options options(given);
  std::string listen = os::to_string(o.listen);
  nb::object truth = nb::none();
  options.take("listen", listen);
  options.take("buffer_bytes", o.buffer_bytes);
  options.take("kernel_stamps", o.kernel_stamps);
  options.take("busy", o.busy);
  options.take("duration", o.duration_s);
  options.take("idle", o.idle_s);
  options.take("times", o.times);
  options.take("burst_frames", o.burst_frames);
  options.take("nodes", o.nodes);
  options.take("node_silence", o.node_silence_s);
  options.take("truth", truth);
  options.finish();
  if (o.nodes < 1 || o.nodes > wire::max_nodes)
    throw std::invalid_argument("nodes = " + std::to_string(o.nodes) + ": give 1 to " +
                                std::to_string(wire::max_nodes));
  o.listen = os::parse_endpoint("l0tp.listen", listen);
  if (!truth.is_none()) {
    const auto columns = nb::cast<nb::dict>(truth);
    const auto burst = nb::cast<U16>(columns["burst"]);
    const auto timestamp = nb::cast<U32>(columns["timestamp"]);
    const auto fine = nb::cast<U8>(columns["fine_time"]);
    const auto period = nb::cast<std::uint32_t>(columns["period"]);
    o.truth = std::make_shared<l0tp::TruthTable>(std::span(burst.data(), burst.size()),
                                                 std::span(timestamp.data(), timestamp.size()),
                                                 std::span(fine.data(), fine.size()), period);
  }
  return o;
}

nb::dict l0tp_snapshot(const l0tp::L0tp& l0tp) {
  const l0tp::L0tpCounters& c = l0tp.check().counters();
  nb::dict d, latency, bad, unpaired, unexpected;
  const auto put = [&](const char* key, std::uint64_t n) { d[key] = n; };
  put("packets", c.packets);
  put("bytes", c.bytes);
  put("frames", c.frames);
  put("frames_missing", c.frames_missing);
  put("frames_late", c.frames_late);
  put("bursts", c.bursts);
  put("duplicates", c.duplicates);
  put("out_of_order", c.out_of_order);
  put("primitives", c.primitives);
  put("calibration", c.calibration);
  const bool truth = l0tp.options().truth != nullptr;
  d["primitives_expected"] = truth ? nb::cast(std::uint64_t{c.expected}) : nb::none();
  d["primitives_paired"] = truth ? nb::cast(std::uint64_t{c.paired}) : nb::none();
  for (std::size_t i = 0; i < c.unpaired.size(); ++i)
    unpaired[std::string(l0tp::name(static_cast<l0tp::Unpaired>(i))).c_str()] = std::uint64_t{c.unpaired[i]};
  for (std::size_t i = 0; i < c.unexpected.size(); ++i)
    unexpected[std::string(l0tp::name(static_cast<l0tp::Unexpected>(i))).c_str()] =
        std::uint64_t{c.unexpected[i]};
  d["unpaired"] = unpaired;
  d["unexpected"] = unexpected;
  for (std::size_t i = 0; i < c.bad.size(); ++i)
    bad[std::string(wire::mtp::name(static_cast<wire::mtp::Refusal>(i))).c_str()] = std::uint64_t{c.bad[i]};
  d["bad_packets"] = bad;
  put("socket_overflow", c.socket_overflow);
  nb::list nodes;
  for (const l0tp::NodeCounters& n : l0tp.check().nodes()) {
    nb::dict node;
    node["node"] = nodes.size();
    const wire::Endpoint from{static_cast<std::uint32_t>(n.from >> 16), static_cast<std::uint16_t>(n.from)};
    node["from"] = n.from ? nb::cast(os::to_string(from)) : nb::none();
    node["frames_expected"] = std::uint64_t{n.frames_expected};
    node["frames"] = std::uint64_t{n.frames};
    node["frames_missing"] = std::uint64_t{n.frames_missing};
    node["frames_silent"] = std::uint64_t{n.frames_silent};
    node["frames_late"] = std::uint64_t{n.frames_late};
    node["stale"] = std::uint64_t{n.stale};
    node["misdealt"] = std::uint64_t{n.misdealt};
    node["silent"] = n.silent != 0;
    node["silences"] = std::uint64_t{n.silences};
    node["returns"] = std::uint64_t{n.returns};
    node["last_frame"] = n.last_packet ? nb::cast(std::uint64_t{n.last_frame}) : nb::none();
    nodes.append(node);
  }
  d["nodes"] = nodes;
  nb::list rings;
  for (const auto& n : c.rings) rings.append(std::uint64_t{n});
  d["rings"] = rings;
  latency["from_first"] = histogram_dict(l0tp.check().from_first());
  latency["from_last"] = histogram_dict(l0tp.check().from_last());
  d["latency_us"] = latency;
  put("latency_unknown", c.latency_unknown);
  d["stamps"] = l0tp.options().kernel_stamps ? "kernel" : "after recvmmsg";
  d["elapsed_s"] = l0tp.elapsed_s();
  d["buffer_bytes"] = l0tp.buffer_granted();
  return d;
}

// Non-empty bins for plots: (upper edges in us, counts).
nb::tuple histogram_bins(const stats::Histogram& h) {
  std::vector<double> edges;
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < stats::Histogram::bins; ++i) {
    if (const std::uint64_t count = h.in_bin(i)) {
      edges.push_back(static_cast<double>(stats::Histogram::upper(i)) / 1e3);
      counts.push_back(count);
    }
  }
  return nb::make_tuple(column(edges), column(counts));
}

// Returns true when the thread has ended; rethrows its exception. timeout: seconds; none: no limit.
template <class Program>
bool join(Program& program, std::optional<double> timeout) {
  using namespace std::chrono;
  const auto end =
      steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(timeout.value_or(0)));
  while (timeout && program.running()) {
    const auto left = end - steady_clock::now();
    if (left <= steady_clock::duration::zero()) return false;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(left, 2ms));
  }
  program.join();
  return true;
}

// Merges options given as a dictionary and as keywords.
nb::dict merged(const nb::object& options, const nb::kwargs& keywords) {
  nb::dict all;
  if (!options.is_none()) all.update(nb::cast<nb::dict>(options));
  all.update(keywords);
  return all;
}

}  // namespace

void bind_neighbours(nb::module_& m) {
  nb::class_<readout::Readout>(
      m, "Readout",
      "The emulated boards. Options as a dictionary or keywords; ValueError, OSError name the faulty one.")
      .def(
          "__init__",
          [](readout::Readout* self, const nb::object& given, const nb::kwargs& keywords) {
            const readout::ReadoutOptions options = readout_options(merged(given, keywords));
            guarded([&] { return new (self) readout::Readout(options); });
          },
          "options"_a = nb::none(), "keywords"_a)
      .def("start", &readout::Readout::start, "Starts the sending threads.")
      .def("request_stop", &readout::Readout::request_stop, "Ends after the current frames, with EOB.")
      .def_prop_ro("running", &readout::Readout::running)
      .def_prop_ro("frames_planned",
                   [](const readout::Readout& self) -> nb::object {
                     if (self.frames_planned() == UINT64_MAX) return nb::none();
                     return nb::cast(self.frames_planned());
                   })
      .def("join", &join<readout::Readout>, "timeout"_a = nb::none(),
           nb::call_guard<nb::gil_scoped_release>(),
           "Waits at most so many seconds for the threads; True when they have ended. Raises their error.")
      .def("snapshot", &readout_snapshot, "What has been sent so far: the keys of the JSON.")
      .def("result", &readout_snapshot, "The same, once it has ended.")
      .def(
          "histograms",
          [](const readout::Readout& self) {
            nb::dict d;
            if (const auto* final = self.final_boards()) {
              readout::FinalTiming timing;
              final->timing(timing);
              d["slack"] = histogram_bins(timing.slack);
              d["late_by"] = histogram_bins(timing.late_by);
            }
            return d;
          },
          "In final mode: slack and lateness of the triggers, name -> (upper edges in us, counts).")
      .def(
          "late_sends",
          [](const readout::Readout& self) {
            std::vector<std::uint64_t> rows;
            for (const auto& s : self.late_sends()) rows.insert(rows.end(), {s.frame, s.board, s.after_ns});
            return column(rows);
          },
          "With late_us, after join(): frame, board, ns from the frame's first send to the call's end; flat.")
      .def("truth", &readout_truth, "Columns of the pool's truth (keep_truth), particle as a number.");

  nb::class_<l0tp::L0tp>(
      m, "L0tp",
      "The emulated L0 trigger processor. Options as a dictionary or keywords; ValueError and OSError name "
      "the faulty option.")
      .def(
          "__init__",
          [](l0tp::L0tp* self, const nb::object& given, const nb::kwargs& keywords) {
            const l0tp::L0tpOptions options = l0tp_options(merged(given, keywords));
            guarded([&] { return new (self) l0tp::L0tp(options); });
          },
          "options"_a = nb::none(), "keywords"_a)
      .def("start", &l0tp::L0tp::start, "Starts the receiving thread.")
      .def("request_stop", &l0tp::L0tp::request_stop)
      .def_prop_ro("running", &l0tp::L0tp::running)
      .def_prop_ro(
          "endpoint", [](const l0tp::L0tp& self) { return os::to_string(self.endpoint()); },
          "HOST:PORT it listens on.")
      .def("join", &join<l0tp::L0tp>, "timeout"_a = nb::none(), nb::call_guard<nb::gil_scoped_release>(),
           "Waits for the thread, at most so many seconds; True when it has ended.")
      .def("snapshot", &l0tp_snapshot, "What has come so far: the keys of the JSON.")
      .def("result", &l0tp_snapshot, "The same, once it has ended.")
      .def(
          "late_frames", [](const l0tp::L0tp& self) { return column(self.check().late_frames()); },
          "After join(): late frames (u64), counted from 0 over the run; the first million.")
      .def(
          "histograms",
          [](const l0tp::L0tp& self) {
            nb::dict d;
            d["from_first"] = histogram_bins(self.check().from_first());
            d["from_last"] = histogram_bins(self.check().from_last());
            return d;
          },
          "Latency histograms: name -> (upper edges in us, counts) of the bins that hold something.");

  nb::class_<l0tp::FarmReceiver>(
      m, "Farm",
      "The farm of the final trigger. Options as a dictionary: listen, boards, truth; "
      "ValueError and OSError name the faulty option.")
      .def(
          "__init__",
          [](l0tp::FarmReceiver* self, const nb::dict& given) {
            const l0tp::FarmOptions options = farm_options(given);
            guarded([&] { return new (self) l0tp::FarmReceiver(options); });
          },
          "options"_a)
      .def("start", &l0tp::FarmReceiver::start, "Starts the receiving thread.")
      .def("stop", &l0tp::FarmReceiver::stop, nb::call_guard<nb::gil_scoped_release>(),
           "Takes what has arrived, and gives up the events without all answers.")
      .def_prop_ro(
          "endpoint", [](const l0tp::FarmReceiver& self) { return os::to_string(self.endpoint()); },
          "HOST:PORT it takes events at; trigger datagrams: the next port.")
      .def("snapshot", &farm_snapshot, "What has come so far: the keys of the JSON.");
}
