// SPDX-License-Identifier: Apache-2.0
// nanet._core: the probes of `nanet bench`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "nanet/bench/probes.hpp"

namespace nb = nanobind;
using namespace nanet;

namespace {

nb::dict percentiles(const trigger::Histogram& h) {
  nb::dict d;
  const auto us = [&](double p) { return h.percentile(p) * 1e-3; };
  d["p50_us"] = us(0.5);
  d["p90_us"] = us(0.9);
  d["p99_us"] = us(0.99);
  d["p99_9_us"] = us(0.999);
  d["p99_99_us"] = us(0.9999);
  d["max_us"] = static_cast<double>(h.max()) * 1e-3;
  d["n"] = h.count();
  return d;
}

bench::ReceiverKind receiver_kind(const std::string& name) {
  if (name == "recvmmsg") return bench::ReceiverKind::recvmmsg;
  if (name == "recvmmsg_gro") return bench::ReceiverKind::recvmmsg_gro;
  if (name == "card") return bench::ReceiverKind::card;
  throw std::invalid_argument("receiver = " + name + " must be recvmmsg, recvmmsg_gro or card");
}

}  // namespace

void bind_bench(nb::module_& m) {
  nb::class_<bench::Ping>(m, "Ping")
      .def(nb::init<>())
      .def_prop_ro("reply_port", &bench::Ping::reply_port)
      .def(
          "run",
          [](bench::Ping& ping, const std::string& to, bool echo, std::uint64_t samples, unsigned events,
             unsigned packets, double gap_us, int cpu) {
            bench::PingOptions options;
            options.to = card::parse_endpoint(to);
            options.samples = samples;
            options.events = events;
            options.packets = packets;
            options.gap_us = gap_us;
            options.cpu = cpu;
            bench::PingResult result;
            {
              nb::gil_scoped_release release;
              ping.run(options, echo, result);
            }
            nb::dict d = percentiles(result.round_trip);
            d["samples"] = result.samples;
            d["lost"] = result.lost;
            d["wrong"] = result.wrong;
            return d;
          },
          nb::arg("to"), nb::arg("echo"), nb::arg("samples"), nb::arg("events") = 16, nb::arg("packets") = 1,
          nb::arg("gap_us") = 0.0, nb::arg("cpu") = -1);
  nb::class_<bench::Echo>(m, "Echo")
      .def(nb::init<int>(), nb::arg("cpu") = -1)
      .def_prop_ro("port", &bench::Echo::port);
  nb::class_<bench::ReceiveProbe>(m, "ReceiveProbe")
      .def("__init__", [](bench::ReceiveProbe* at,
                          const std::string& kind) { new (at) bench::ReceiveProbe(receiver_kind(kind)); })
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
        return bench::blast({card::parse_endpoint(to), payload, seconds, packets_per_s, segment});
      },
      nb::call_guard<nb::gil_scoped_release>(), nb::arg("to"), nb::arg("payload"), nb::arg("seconds"),
      nb::arg("packets_per_s"), nb::arg("segment"));
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
  m.def("bench_copy_rate", &bench::copy_rate, nb::call_guard<nb::gil_scoped_release>(), nb::arg("block"),
        nb::arg("total"), nb::arg("seconds"));
}
