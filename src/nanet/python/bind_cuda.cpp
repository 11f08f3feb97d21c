// SPDX-License-Identifier: Apache-2.0
// nanet._core: GPUs usable by this build.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "nanet/bench/rings.hpp"
#include "nanet/bench/rings_cuda.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/registry.hpp"
#include "nanet/gpu/mailbox_probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace nanet;

namespace {

constexpr std::uint32_t most_generated = 1u << 20;

// Generated events of the standard mix, cached for the next call.
std::shared_ptr<const bench::RingEvents> events_for(std::uint64_t batch) {
  static std::mutex mutex;
  static std::shared_ptr<const bench::RingEvents> kept;
  const std::lock_guard lock(mutex);
  const auto wanted = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(batch, 1u << 16, most_generated));
  if (!kept || kept->batch().events < wanted)
    kept = std::make_shared<const bench::RingEvents>(bench::ring_events(wanted, 1.0, -1, 20));
  return kept;
}

nb::dict rings_bench_cuda(const std::string& algorithm, std::uint64_t batch, bool streaming, double seconds,
                          const rich::Parameters& parameters, int device) {
  bench::RingsCudaResult r;
  {
    const nb::gil_scoped_release released;
    const auto events = events_for(batch);
    r = bench::rings_cuda(events->batch(), {algorithm, parameters, batch, streaming, seconds, device});
  }
  nb::dict d;
  d["events_per_s"] = r.events_per_s;
  d["batch_us"] = r.batch_us;
  d["batch_us_least"] = r.batch_us_least;
  d["bytes_per_event"] = r.bytes_per_event;
  d["copied_bytes_per_event"] = r.copied_bytes_per_event;
  d["memory_bytes_per_s"] = r.memory_bytes_per_s;
  d["operations_per_s"] = r.operations_per_s;
  d["copy_bytes_per_s"] = r.copy_bytes_per_s;
  d["events"] = r.events;
  return d;
}

nb::dict counts(const contract::UnitCounts& c) {
  nb::dict d;
  d["read"] = c.read;
  d["torn"] = c.torn;
  return d;
}

nb::dict mailbox_probe(int device, double seconds, const std::string& memory) {
  const auto duration = static_cast<Nanoseconds>(seconds * 1e9);
  nb::dict d;
  if (device < 0) {
    contract::UnitCounts between;
    {
      const nb::gil_scoped_release released;
      between = contract::probe_units(duration);
    }
    d["memory"] = "host";
    d["between_threads"] = counts(between);
    return d;
  }
  const gpu::MailboxMemory kind = gpu::mailbox_memory_of(memory);
  gpu::MailboxProbe probe;
  {
    const nb::gil_scoped_release released;
    probe = gpu::probe_mailbox(device, kind, duration);
  }
  d["memory"] = probe.memory;
  d["way"] = probe.way;
  d["why"] = probe.why;
  d["to_gpu"] = counts(probe.to_gpu);
  d["to_host"] = counts(probe.to_host);
  return d;
}

}  // namespace

void bind_cuda(nb::module_& m) {
  m.def(
      "rings_bench_cuda", &rings_bench_cuda, "algorithm"_a, "batch"_a, "streaming"_a = false,
      "seconds"_a = 0.1, "parameters"_a = rich::Parameters{}, "device"_a = 0,
      "Times an algorithm on a GPU over generated events of the standard mix. In device memory MATH takes "
      "fixed 72 B "
      "slots and gives MTP words, the others take first[] and pm[] and give primitives; streaming: first[] "
      "and pm[] "
      "come from pinned host memory and primitives go back, over four streams. Returns events_per_s (back to "
      "back), "
      "batch_us (median of one batch: of the kernel, or with its copies) and batch_us_least, bytes_per_event "
      "(counted, moved in device memory), copied_bytes_per_event (to the device), the device's limits "
      "memory_bytes_per_s (copy, read and write), operations_per_s (fused multiply-adds, two each) and "
      "copy_bytes_per_s (bare copies from pinned memory), events (reconstructed). ValueError; RuntimeError.");
  m.def("mailbox_probe", &mailbox_probe, "device"_a = -1, "seconds"_a = 0.1, "memory"_a = "auto",
        "Stores units of a mailbox without pause and reads them meanwhile; counts read (new ones) and torn. "
        "device -1: between_threads of the host; else memory (gpu, pinned), way (vulkan, gdrdrv), why (not "
        "gpu), to_gpu, to_host. memory: as --mailbox. RuntimeError; ValueError.");
  m.def("cuda_algorithms", &gpu::kernel_names,
        "Names of the ring algorithms with GPU kernels in this build; empty without CUDA.");
  m.def(
      "cuda_devices",
      [] {
        gpu::Devices all;
        {
          const nb::gil_scoped_release released;
          all = gpu::devices();
        }
        nb::dict d;
        d["built"] = all.built;
        d["driver"] = all.driver;
        d["trouble"] = all.trouble;
        nb::list list;
        for (const gpu::Device& device : all.found) {
          nb::dict one;
          one["number"] = device.number;
          one["name"] = device.name;
          one["compute_capability"] = nb::make_tuple(device.major, device.minor);
          one["multiprocessors"] = device.multiprocessors;
          one["memory_bytes"] = device.memory_bytes;
          list.append(one);
        }
        d["devices"] = list;
        return d;
      },
      "GPUs that this build can use: built (has the CUDA component), driver (CUDA version of the driver, "
      "13000 "
      "is 13.0; 0: "
      "none), trouble (why there is none; empty where there is one), devices (list of number, name, "
      "compute_capability, "
      "multiprocessors, memory_bytes).");
}
