// SPDX-License-Identifier: Apache-2.0
// nanet._core: probes of `nanet bench`.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "nanet/bench/buffers_cuda.hpp"
#include "nanet/bench/inject.hpp"
#include "nanet/bench/probes.hpp"
#include "nanet/bench/rings.hpp"
#include "nanet/bench/stops.hpp"
#include "nanet/gateware/bench.hpp"
#include "nanet/os/socket.hpp"

namespace nb = nanobind;
using namespace nanet;

namespace {

nb::dict percentiles(const stats::Histogram& h) {
  nb::dict d;
  const auto us = [&](double p) { return h.percentile(p) * 1e-3; };
  d["p50_us"] = us(0.5);
  d["p90_us"] = us(0.9);
  d["p99_us"] = us(0.99);
  d["p99_9_us"] = us(0.999);
  d["p99_99_us"] = us(0.9999);
  d["p99_999_us"] = us(0.99999);
  d["max_us"] = static_cast<double>(h.max()) * 1e-3;
  d["n"] = h.count();
  return d;
}

gateware::CardBenchOptions card_bench_options(const nb::dict& o) {
  gateware::CardBenchOptions c;
  for (const auto& [key, value] : o) {
    const auto name = nb::cast<std::string>(key);
    const auto number = nb::cast<std::uint64_t>(value);
    if (name == "frame_bytes")
      c.frame_bytes = static_cast<std::uint32_t>(number);
    else if (name == "packets")
      c.packets = static_cast<std::uint32_t>(number);
    else if (name == "channels")
      c.channels = static_cast<unsigned>(number);
    else if (name == "cycles_per_word")
      c.cycles_per_word = static_cast<unsigned>(number);
    else if (name == "by_firmware")
      c.by_firmware = number != 0;
    else if (name == "wake_cycles_min")
      c.wake_cycles_min = static_cast<unsigned>(number);
    else if (name == "wake_cycles_max")
      c.wake_cycles_max = static_cast<unsigned>(number);
    else if (name == "work_cycles")
      c.work_cycles = static_cast<unsigned>(number);
    else if (name == "seed")
      c.seed = number;
    else
      throw std::invalid_argument(name + " is no option of the card's measurements");
  }
  return c;
}

bench::ReceiverKind receiver_kind(const std::string& name) {
  if (name == "recvmmsg") return bench::ReceiverKind::recvmmsg;
  if (name == "recvmmsg_gro") return bench::ReceiverKind::recvmmsg_gro;
  if (name == "card") return bench::ReceiverKind::card;
  if (name == "xdp_card") return bench::ReceiverKind::xdp_card;
  throw std::invalid_argument("receiver = " + name + " must be recvmmsg, recvmmsg_gro, card or xdp_card");
}

bench::EchoPath echo_path(const std::string& name) {
  if (name == "spinning") return bench::EchoPath::spinning;
  if (name == "blocking") return bench::EchoPath::blocking;
  if (name == "busy_poll") return bench::EchoPath::busy_poll;
  if (name == "xdp") return bench::EchoPath::xdp;
  throw std::invalid_argument("path = " + name + " must be spinning, blocking, busy_poll or xdp");
}

// Column as a numpy array that takes ownership of the vector.
template <class T>
nb::object column(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

using First = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pms = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Columns as a batch, checked here because the timed code does not check.
rich::EventBatch event_batch(const First& first, const Pms& pm) {
  if (first.size() < 2)
    throw std::invalid_argument("first: must hold the start of each event and the end of the last");
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    if (first.data()[i] > first.data()[i + 1]) throw std::invalid_argument("first: must not decrease");
  }
  if (first.data()[first.size() - 1] > pm.size())
    throw std::invalid_argument("first: reaches past the end of pm");
  for (std::size_t i = 0; i < pm.size(); ++i) {
    if (pm.data()[i] >= pm_count) throw std::invalid_argument("pm: must be below 1952");
  }
  return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()};
}

void bind_rings(nb::module_& m) {
  m.def(
      "rings_bench_events",
      [](std::uint32_t events, double noise, int rings, std::uint64_t seed) {
        bench::RingEvents columns;
        {
          const nb::gil_scoped_release released;
          columns = bench::ring_events(events, noise, rings, seed);
        }
        return nb::make_tuple(column(std::move(columns.first)), column(std::move(columns.pm)));
      },
      nb::arg("events"), nb::arg("noise") = 1.0, nb::arg("rings") = -1, nb::arg("seed") = 20,
      "Generated events (first, pm), as reconstruct() takes them. rings: per event, -1 for the mix.");
  m.def(
      "rings_bench_cpu",
      [](const std::string& algorithm, const First& first, const Pms& pm, std::uint32_t batch,
         unsigned threads, double seconds, const rich::Parameters& parameters, const std::string& simd) {
        const rich::EventBatch events = event_batch(first, pm);
        bench::RingsCpuResult r;
        {
          const nb::gil_scoped_release released;
          r = bench::rings_cpu(events, {algorithm, parameters, batch, threads, seconds, simd});
        }
        nb::dict d;
        d["events_per_s"] = r.events_per_s;
        d["batch_us"] = r.batch_us;
        d["batch_us_least"] = r.batch_us_least;
        d["events"] = r.events;
        d["elapsed_s"] = r.elapsed_s;
        return d;
      },
      nb::arg("algorithm"), nb::arg("first"), nb::arg("pm"), nb::arg("batch"), nb::arg("threads") = 1,
      nb::arg("seconds") = 0.3, nb::arg("parameters") = rich::Parameters{}, nb::arg("simd") = "",
      "Times an algorithm over the events, batch by batch, in each thread. events_per_s: of all threads; "
      "batch_us: median time of one batch. simd: one of simd_variants(), default NANET_SIMD. ValueError.");
  m.def(
      "rings_bench_operations",
      [](const std::string& algorithm, const First& first, const Pms& pm) {
        return bench::operations_per_event(algorithm, event_batch(first, pm));
      },
      nb::arg("algorithm"), nb::arg("first"), nb::arg("pm"),
      "Floating-point operations per event, or None where they cannot be counted.");
  m.def("bench_most_operations", &bench::most_operations_per_s, nb::call_guard<nb::gil_scoped_release>(),
        nb::arg("seconds"), "Operations per second of one core that only does fused multiply-adds.");
}

// Stops of a spinning loop: percentiles by time, number and share of time above each limit.
nb::dict stops(const stats::GapRecord& r) {
  nb::dict d;
  d["seconds"] = static_cast<double>(r.elapsed()) * 1e-9;
  for (const auto& [name, p] : {std::pair("p50_us", 0.5), std::pair("p90_us", 0.9), std::pair("p99_us", 0.99),
                                std::pair("p99_9_us", 0.999), std::pair("p99_99_us", 0.9999)})
    d[name] = r.percentile(p) * 1e-3;
  d["longest_us"] = static_cast<double>(r.longest()) * 1e-3;
  d["over_1us"] = r.count();
  for (std::size_t i = 0; i < stats::GapRecord::limits.size(); ++i) {
    const std::string name = "over_" + std::to_string(stats::GapRecord::limits[i] / 1000) + "us";
    d[name.c_str()] = std::uint64_t{r.above(i).count};
    d[(name + "_share").c_str()] = r.share_above(i);
  }
  return d;
}

}  // namespace

void bind_bench(nb::module_& m) {
  m.def(
      "card_bench_times",
      [](const nb::dict& options) {
        const auto given = card_bench_options(options);
        gateware::PacketTimes times;
        {
          nb::gil_scoped_release release;
          times = gateware::packet_times(given);
        }
        nb::dict d;
        d["event"] = column(std::move(times.event));
        d["controller"] = column(std::move(times.controller));
        d["placed"] = column(std::move(times.placed));
        d["written"] = column(std::move(times.written));
        return d;
      },
      nb::arg("options"),
      "Packets one at a time through the simulated card; times of each in cycles: last word in to event "
      "written, and "
      "from its first word to controller, placed, written.");
  m.def(
      "card_bench_line_rate",
      [](const nb::dict& options) {
        const auto given = card_bench_options(options);
        gateware::LineRate r;
        {
          nb::gil_scoped_release release;
          r = gateware::line_rate(given);
        }
        nb::dict d;
        d["packets"] = r.packets;
        d["used"] = r.used;
        d["lost"] = r.lost;
        d["bytes"] = r.bytes;
        d["cycles"] = r.cycles;
        d["simulated"] = r.simulated;
        d["cpu_s"] = r.cpu_s;
        return d;
      },
      nb::arg("options"), "Packets without a gap between them through the simulated card.");
  m.def(
      "card_bench_merge",
      [](const std::string& pcap) {
        gateware::MergeTimes times;
        {
          nb::gil_scoped_release release;
          times = gateware::merge_times(pcap);
        }
        nb::dict d;
        d["event"] = column(std::move(times.event));
        d["frames"] = times.frames;
        d["unmerged"] = times.unmerged;
        d["packets"] = times.packets;
        d["used"] = times.used;
        return d;
      },
      nb::arg("pcap"),
      "Frames of a capture through a merging simulated card, one in each frame time; cycles from last word "
      "to "
      "event.");
  bind_rings(m);
  nb::class_<bench::Ping>(m, "Ping")
      .def(nb::init<>())
      .def_prop_ro("reply_port", &bench::Ping::reply_port)
      .def(
          "run",
          [](bench::Ping& ping, const std::string& to, bool echo, std::uint64_t samples, unsigned events,
             unsigned packets, double gap_us, double seconds, int cpu) {
            bench::PingOptions options;
            options.to = os::parse_endpoint(to);
            options.samples = samples;
            options.events = events;
            options.packets = packets;
            options.gap_us = gap_us;
            options.seconds = seconds;
            options.cpu = cpu;
            bench::PingResult result;
            {
              nb::gil_scoped_release release;
              ping.run(options, echo, result);
            }
            nb::dict d = percentiles(result.round_trip);
            nb::dict whole;  // fraction of round trips -> maximum of this fraction, in microseconds
            for (const double share :
                 {0.001, 0.01, 0.05, 0.1,   0.2,   0.3,   0.4,    0.5,    0.6,    0.7,     0.8,     0.9,
                  0.95,  0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99995, 0.99998, 0.99999})
              whole[nb::float_(share)] = result.round_trip.percentile(share) * 1e-3;
            d["distribution_us"] = whole;
            d["samples"] = result.samples;
            d["lost"] = result.lost;
            d["wrong"] = result.wrong;
            return d;
          },
          nb::arg("to"), nb::arg("echo"), nb::arg("samples"), nb::arg("events") = 16, nb::arg("packets") = 1,
          nb::arg("gap_us") = 0.0, nb::arg("seconds") = 0.0, nb::arg("cpu") = -1);
  nb::class_<bench::Echo>(m, "Echo")
      .def(
          "__init__",
          [](bench::Echo* at, int cpu, const std::string& path, const std::string& listen,
             const std::string& reply) {
            new (at)
                bench::Echo({echo_path(path), os::parse_endpoint(listen), os::parse_endpoint(reply), cpu});
          },
          nb::arg("cpu") = -1, nb::arg("path") = "spinning", nb::arg("listen") = "0.0.0.0:0",
          nb::arg("reply") = "127.0.0.1:9",
          "path: spinning, blocking, busy_poll or xdp. xdp listens on an address of an interface and answers "
          "`reply`.")
      .def_prop_ro("port", &bench::Echo::port);
  nb::class_<bench::StopProbe>(m, "StopProbe",
                               "Thread that reads the clock in a loop and records gaps above 1 us. cpu: -1 "
                               "for a thread that is not pinned. Runs add up.")
      .def(nb::init<int>(), nb::arg("cpu") = -1)
      .def("start", &bench::StopProbe::start, nb::call_guard<nb::gil_scoped_release>(), "OSError.")
      .def("stop", &bench::StopProbe::stop, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "result", [](const bench::StopProbe& probe) { return stops(probe.record()); },
          "After stop(): seconds, percentiles of the gaps weighted by time, number and share of time above "
          "each limit.")
      .def(
          "gaps",
          [](const bench::StopProbe& probe) {
            std::vector<std::int64_t> begin, end;
            for (const auto& gap : probe.record().listed()) {
              begin.push_back(gap.begin);
              end.push_back(gap.end);
            }
            return nb::make_tuple(column(std::move(begin)), column(std::move(end)));
          },
          "After stop(): begin and end of the gaps above 10 us, CLOCK_MONOTONIC ns, in order.");
  nb::class_<bench::ReceiveProbe>(m, "ReceiveProbe")
      .def(
          "__init__",
          [](bench::ReceiveProbe* at, const std::string& kind, const std::string& listen) {
            new (at) bench::ReceiveProbe(receiver_kind(kind), os::parse_endpoint(listen));
          },
          nb::arg("kind"), nb::arg("listen") = "127.0.0.1:0")
      .def_prop_ro("port", &bench::ReceiveProbe::port)
      .def("run", [](bench::ReceiveProbe& probe) {
        bench::ReceiveResult r;
        {
          nb::gil_scoped_release release;
          r = probe.run();
        }
        nb::dict d;
        d["packets"] = r.packets;
        d["bytes"] = r.bytes;
        d["overflow"] = r.overflow;
        d["cpu_s"] = r.cpu_s;
        d["elapsed_s"] = r.elapsed_s;
        return d;
      });
  m.def(
      "bench_blast",
      [](const std::string& to, unsigned payload, double seconds, double packets_per_s, bool segment) {
        return bench::blast({os::parse_endpoint(to), payload, seconds, packets_per_s, segment});
      },
      nb::call_guard<nb::gil_scoped_release>(), nb::arg("to"), nb::arg("payload"), nb::arg("seconds"),
      nb::arg("packets_per_s"), nb::arg("segment"));
  m.def(
      "bench_inject",
      [](const std::string& to, double seconds, double packets_per_s, bool checksum) {
        return bench::inject({os::parse_endpoint(to), seconds, packets_per_s, checksum});
      },
      nb::call_guard<nb::gil_scoped_release>(), nb::arg("to"), nb::arg("seconds"), nb::arg("packets_per_s"),
      nb::arg("checksum"),
      "Frames of 1168 B payload into the veth interface towards `to`, as from a network card; returns their "
      "number. OSError; RuntimeError.");
  m.def(
      "bench_bandwidth",
      [](unsigned payload, unsigned packets, double seconds) {
        bench::BandwidthResult r;
        {
          nb::gil_scoped_release release;
          bench::bandwidth(payload, packets, seconds, r);
        }
        nb::dict d = percentiles(r.latency);
        d["bytes_per_s"] = r.bytes_per_s;
        d["packets_per_s"] = r.packets_per_s;
        d["buffers"] = r.buffers;
        d["wrong"] = r.wrong;
        d["lost"] = r.lost;
        return d;
      },
      nb::arg("payload"), nb::arg("packets"), nb::arg("seconds"));
  m.def(
      "bench_buffers_cuda",
      [](std::uint32_t events, bool overlapped, double seconds, int device) {
        bench::BuffersResult r;
        {
          nb::gil_scoped_release release;
          bench::buffers_cuda({events, overlapped, seconds, device}, r);
        }
        nb::dict d = percentiles(r.latency);
        d["events_per_s"] = r.events_per_s;
        d["bytes_per_s"] = r.bytes_per_s;
        d["buffers"] = r.buffers;
        return d;
      },
      nb::arg("events"), nb::arg("overlapped"), nb::arg("seconds"), nb::arg("device") = 0,
      "Buffers of events in fixed slots through a GPU: copied in, fitted by MATH, primitives copied out; one "
      "after the other or two at a time. Latency percentiles, events_per_s, bytes_per_s (to the GPU), "
      "buffers. "
      "ValueError; RuntimeError.");
  m.def("bench_copy_rate", &bench::copy_rate, nb::call_guard<nb::gil_scoped_release>(), nb::arg("block"),
        nb::arg("total"), nb::arg("seconds"));
}
