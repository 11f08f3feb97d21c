// SPDX-License-Identifier: Apache-2.0
// nanet._core: PM lattice, ring algorithms on columns of hits, capture writer.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/python/trigger_options.hpp"
#include "nanet/readout/capture.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/rich/plugins.hpp"
#include "nanet/rich/simd.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;

using First = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pms = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Column as a numpy array that takes ownership of the vector.
template <class T>
nb::object column(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object positions(const std::vector<rich::Point>& points) {
  auto* kept = new std::vector<float>;
  for (const rich::Point& p : points) kept->insert(kept->end(), {p.x, p.y});
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(kept->data(), {points.size(), 2}, owner));
}

nb::list parameter_list(const std::string& name) {
  nb::list list;
  for (const rich::ParameterInfo& info : rich::algorithm_parameters(name)) {
    nb::dict d;
    d["name"] = info.name;
    d["value"] = info.value;
    d["low"] = info.low;
    d["high"] = info.high;
    d["meaning"] = info.meaning;
    list.append(d);
  }
  return list;
}

// One row per ring found.
struct RingColumns {
  std::vector<std::uint32_t> event;
  std::vector<std::uint8_t> ring, n_rings, n_hits;
  std::vector<float> x, y, r, chi2_ndf;
  std::vector<std::uint32_t> ambiguous;  // one row per ambiguous event
};

nb::dict reconstruct(const std::string& name, const First& first, const Pms& pm,
                     const rich::Parameters& parameters, const std::optional<nb::dict>& detector,
                     const std::string& device) {
  const auto geometry = detector ? python::detector_of(*detector) : rich::na62();
  if (first.size() == 0 || first.size() - 1 > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("first: must hold the start of each event and the end of the last");
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    if (first.data()[i] > first.data()[i + 1]) throw std::invalid_argument("first: must not decrease");
  }
  if (first.data()[first.size() - 1] > pm.size())
    throw std::invalid_argument("first: reaches past the end of pm");
  for (std::size_t i = 0; i < pm.size(); ++i) {
    if (pm.data()[i] >= geometry->channels())
      throw std::invalid_argument("pm: must be below " + std::to_string(geometry->channels()));
  }
  const auto reconstructor = rich::make_reconstructor(name, parameters, *geometry);
  std::unique_ptr<gpu::GpuReconstructor> on_gpu;
  RingColumns out;
  {
    const int number = device == "cpu" ? 0 : python::cuda_number(device);
    const nb::gil_scoped_release released;
    if (device != "cpu") on_gpu = gpu::make_reconstructor(*reconstructor, *geometry, number);
    rich::Reconstructor& chosen = on_gpu ? *on_gpu : *reconstructor;
    const std::uint32_t chunk = on_gpu ? 131072 : 4096;
    std::vector<rich::Rings> rings(chunk);
    const auto events = static_cast<std::uint32_t>(first.size() - 1);
    for (std::uint32_t from = 0; from < events; from += chunk) {
      const std::uint32_t some = std::min(chunk, events - from);
      chosen(rich::EventBatch{some, first.data() + from, pm.data()}, rings.data());
      for (std::uint32_t i = 0; i < some; ++i) {
        if (rings[i].ambiguous) out.ambiguous.push_back(from + i);
        for (std::uint8_t k = 0; k < rings[i].count; ++k) {
          const rich::Ring& ring = rings[i].ring[k];
          out.event.push_back(from + i);
          out.ring.push_back(k);
          out.n_rings.push_back(rings[i].count);
          out.n_hits.push_back(ring.hits);
          out.x.push_back(ring.x);
          out.y.push_back(ring.y);
          out.r.push_back(ring.r);
          out.chi2_ndf.push_back(ring.chi2_ndf);
        }
      }
    }
  }
  nb::dict d;
  d["event"] = column(std::move(out.event));
  d["ring"] = column(std::move(out.ring));
  d["n_rings"] = column(std::move(out.n_rings));
  d["n_hits"] = column(std::move(out.n_hits));
  d["x"] = column(std::move(out.x));
  d["y"] = column(std::move(out.y));
  d["r"] = column(std::move(out.r));
  d["chi2_ndf"] = column(std::move(out.chi2_ndf));
  d["ambiguous"] = column(std::move(out.ambiguous));
  if (on_gpu && on_gpu->failed()) d["device_failed"] = on_gpu->failed();
  return d;
}

// Raises a core error as the Python exception that nanet.errors.starting() converts to one sentence.
template <class Make>
auto guarded(Make&& make) {
  try {
    const nb::gil_scoped_release released;
    return make();
  } catch (const std::system_error& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  }
  throw nb::python_error();
}

readout::CaptureOptions capture_options(const nb::dict& given) {
  readout::CaptureOptions o;
  std::size_t taken = 0;
  const auto take = [&](const char* key, auto& value) {
    if (!given.contains(key)) return;
    value = nb::cast<std::decay_t<decltype(value)>>(given[key]);
    ++taken;
  };
  take("events", o.events);
  if (given.contains("detector")) {
    python::set_detector(o.generator, given);
    ++taken;
  }
  take("rate", o.generator.rate);
  take("noise", o.generator.noise);
  take("rings", o.generator.rings);
  take("seed", o.generator.seed);
  take("merged", o.pack.merged);
  take("fixed", o.pack.fixed);
  take("pad", o.pack.pad);
  take("max_payload", o.pack.max_payload);
  take("burst_frames", o.burst_frames);
  take("truth", o.truth);
  take("truth_hits", o.truth_hits);
  if (taken != given.size()) throw nb::type_error("unknown option among those of a capture");
  return o;
}

}  // namespace

void bind_rich(nb::module_& m) {
  m.def(
      "pm_positions_disk", [] { return positions(rich::na62()->disk); },
      "Positions of the PMs on their own disk in mm, by PM ID: float32, (1952, 2).");
  m.def(
      "pm_positions_common", [] { return positions(rich::na62()->common); },
      "Positions of the PMs in the common plane in mm, by PM ID: float32, (1952, 2).");
  m.def("algorithm_names", &rich::algorithm_names, "Names of the ring algorithms of this build.");
  m.def("simd_variants", &rich::simd_names,
        "CPU variants of the ring algorithms that run here, the fastest last. NANET_SIMD selects one.");
  m.def(
      "simd_variant", [] { return std::string(rich::simd().name); },
      "CPU variant of this process. ValueError if NANET_SIMD names one that does not run here.");
  m.attr("default_algorithm") = std::string(rich::default_algorithm);
  m.def(
      "algorithm_traits",
      [](const std::string& name) {
        const rich::AlgorithmTraits traits = rich::algorithm_traits(name);
        nb::dict d;
        d["most_rings"] = traits.most_rings;
        d["rejects_noise"] = traits.rejects_noise;
        d["assumes_centre"] = traits.assumes_centre;
        d["is_fit"] = traits.is_fit;
        return d;
      },
      "name"_a,
      "Traits of an algorithm: most_rings (per event), rejects_noise, assumes_centre (has a prior on the "
      "ring centre), is_fit (circle fit). ValueError.");
  m.def(
      "load_algorithm",
      [](const std::string& path) {
        const rich::Plugin& plugin = rich::load_plugin(path);
        nb::dict d;
        d["name"] = plugin.table->name;
        d["path"] = plugin.path;
        d["cuda"] = plugin.table->cuda != nullptr;
        return d;
      },
      "path"_a,
      "Loads a plug-in (docs/writing-algorithms.md); its algorithm can then be named like the others. "
      "Returns "
      "name, path and cuda: whether it was built for GPUs. ValueError names the fault.");
  m.def(
      "plugin_build_id", [] { return std::string(rich::build_id()); }, "Build ID that a plug-in must have.");
  m.def("algorithm_parameters", &parameter_list, "name"_a,
        "Parameters of an algorithm: a list of dictionaries name, value (default), low, high, meaning. "
        "ValueError.");
  m.def("reconstruct", &reconstruct, "algorithm"_a, "first"_a, "pm"_a, "parameters"_a = rich::Parameters{},
        "detector"_a = nb::none(), "device"_a = "cpu",
        "Runs an algorithm over events: event i has hits pm[first[i]:first[i + 1]], ascending (first: "
        "uint32, events + 1; "
        "pm: uint16). Returns columns, a row per ring found: event, ring (0 = leading), n_rings, n_hits, x, "
        "y, r (mm, "
        "common plane), chi2_ndf; and ambiguous: the events whose ring count is in doubt. detector: "
        "dictionary of nanet.detector, default NA62's. device: cpu, cuda or cuda:N; "
        "device_failed: why the CPU took over. ValueError names the fault.");
  m.def(
      "ring_radius_mm",
      [](const std::string& particle, double momentum) {
        for (const auto kind :
             {rich::Particle::electron, rich::Particle::muon, rich::Particle::pion, rich::Particle::kaon}) {
          if (rich::name(kind) == particle) return rich::ring_radius_mm(kind, momentum);
        }
        throw std::invalid_argument("particle: must be e, mu, pi or K");
      },
      "particle"_a, "momentum"_a,
      "Radius of a particle's ring in mm, 0 below its threshold; momentum in GeV/c.");

  using Writer = readout::CaptureWriter;
  nb::class_<Writer>(m, "Capture",
                     "Writes generated events to a pcap, chunk by chunk, and hands out their truth.")
      .def(
          "__init__",
          [](Writer* self, const nb::dict& options, const std::string& path) {
            const readout::CaptureOptions o = capture_options(options);
            guarded([&] { return new (self) Writer(o, path); });
          },
          "options"_a, "path"_a,
          "options: events, rate, noise, rings (-1: the mix), seed, merged, fixed, pad, max_payload, "
          "burst_frames, truth, "
          "truth_hits. ValueError names an option out of range; OSError the file.")
      .def(
          "next",
          [](Writer& self, std::uint32_t frames) { return guarded([&] { return self.next(frames); }); },
          "frames"_a, "Writes up to that many frames; False when everything is written. OSError (disk full).")
      .def(
          "truth",
          [](Writer& self) {
            readout::TruthColumns t = self.take_truth();
            nb::dict d;
            d["burst"] = column(std::move(t.burst));
            d["timestamp"] = column(std::move(t.timestamp));
            d["fine_time"] = column(std::move(t.fine_time));
            d["event"] = column(std::move(t.event));
            d["ring"] = column(std::move(t.ring));
            d["x"] = column(std::move(t.x));
            d["y"] = column(std::move(t.y));
            d["r"] = column(std::move(t.r));
            d["particle"] = column(std::move(t.particle));
            d["momentum"] = column(std::move(t.momentum));
            d["n_hits"] = column(std::move(t.n_hits));
            d["event_hits"] = column(std::move(t.event_hits));
            return d;
          },
          "Truth of the last chunk: columns of run.parquet; particle is 0-3 (e mu pi K) or 255.")
      .def(
          "hits",
          [](Writer& self) {
            readout::HitColumns h = self.take_hits();
            nb::dict d;
            d["event"] = column(std::move(h.event));
            d["ring"] = column(std::move(h.ring));
            d["pm"] = column(std::move(h.pm));
            d["time"] = column(std::move(h.time));
            return d;
          },
          "The last chunk's hits by their owners: event, ring (255 noise), pm, time (ns since SOB).")
      .def(
          "totals",
          [](const Writer& self) {
            const readout::CaptureTotals& t = self.totals();
            nb::dict d;
            d["events"] = t.events;
            d["fragments"] = t.fragments;
            d["hits"] = t.hits;
            d["packets"] = t.packets;
            d["frames"] = t.frames;
            d["bursts"] = t.bursts;
            d["bytes"] = t.bytes;
            return d;
          },
          "What has been written so far; bytes of UDP payload.");
}
