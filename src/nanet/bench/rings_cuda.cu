// SPDX-License-Identifier: Apache-2.0
#include "nanet/bench/rings_cuda.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "nanet/bench/gpu_limits.hpp"
#include "nanet/bench/math_slots.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/plane.hpp"
#include "nanet/gpu/memory.hpp"

namespace nanet::bench {
namespace {

using gpu::BatchKernel;
using gpu::device_array;
using gpu::DeviceArray;
using gpu::DeviceBatch;
using gpu::DevicePlane;
using gpu::kernel_of;
using gpu::pinned_array;
using gpu::PinnedArray;
using gpu::require;
using gpu::Stream;
using gpu::stream;
using gpu::time_event;
using gpu::TimeEvent;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Event i of the batch is base event i % base in variant i / base.
__global__ void fill_slots(const std::uint32_t* first, const PmId* pm, std::uint32_t base,
                           std::uint64_t events, std::uint32_t* slots) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= events) return;
  const std::uint32_t e = static_cast<std::uint32_t>(i % base),
                      variant = static_cast<std::uint32_t>(i / base);
  const std::uint32_t from = first[e], seen = first[e + 1] - from, hits = seen < 32 ? seen : 32;
  std::uint32_t* const slot = slots + i * (slot_bytes / 4);
  slot[0] = static_cast<std::uint32_t>(i);
  slot[1] = (static_cast<std::uint32_t>(i * 41) & 0xFF) | hits << 8 | (seen < 255 ? seen : 255) << 16 |
            (seen > 32 ? 1u << 24 : 0u);
  const auto word = [&](std::uint32_t k) {
    if (k >= hits) return 0xFFFFu;
    const std::uint32_t id = pm[from + (k + variant * 5) % hits];
    return variant & 1 ? (id < pm_count / 2 ? id + pm_count / 2 : id - pm_count / 2) : id;
  };
  for (std::uint32_t k = 0; k < 32; k += 2) slot[2 + k / 2] = word(k) | word(k + 1) << 16;
}

// The batch as first[] and pm[]; the events are repeated as needed.
struct Columns {
  PinnedArray<std::uint32_t> first;
  PinnedArray<PmId> pm;
  std::uint64_t events = 0, hits = 0;
};

Columns columns_of(const rich::EventBatch& base, std::uint64_t events) {
  Columns c;
  c.events = events;
  const std::uint64_t base_hits = base.first[base.events] - base.first[0];
  const std::uint64_t rest = events % base.events;
  c.hits = events / base.events * base_hits + (base.first[rest] - base.first[0]);
  if (c.hits >= 0xFFFFFFFFu) throw std::invalid_argument("batch: has more hits than 32 bits count");
  c.first = pinned_array<std::uint32_t>(events + 1);
  c.pm = pinned_array<PmId>(std::max<std::uint64_t>(c.hits, 1));
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < events; i += base.events) {
    const std::uint64_t some = std::min<std::uint64_t>(base.events, events - i);
    for (std::uint64_t k = 0; k < some; ++k)
      c.first[i + k] = static_cast<std::uint32_t>(at + base.first[k] - base.first[0]);
    const std::uint64_t hits = base.first[some] - base.first[0];
    std::memcpy(c.pm.get() + at, base.pm + base.first[0], hits * sizeof(PmId));
    at += hits;
  }
  c.first[events] = static_cast<std::uint32_t>(at);
  return c;
}

double median(std::vector<float>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return static_cast<double>(times[times.size() / 2]);
}

// Launches the batch repeatedly: first between two CUDA events each, for the time; then back to back, for the
// rate.
template <class Launch>
void time_kernel(const RingsCudaOptions& options, cudaStream_t s, Launch&& launch, RingsCudaResult& result) {
  const TimeEvent begin = time_event(), end = time_event();
  const auto elapsed_ms = [&](unsigned times) {
    require(cudaEventRecord(begin.get(), s), "a mark");
    for (unsigned k = 0; k < times; ++k) require(launch(), "the kernel");
    require(cudaEventRecord(end.get(), s), "a mark");
    require(cudaEventSynchronize(end.get()), "the kernel");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin.get(), end.get()), "a mark");
    return ms;
  };
  elapsed_ms(1);  // warm-up
  std::vector<float> times;
  const auto start = Clock::now();
  do times.push_back(elapsed_ms(1));
  while (times.size() < 3 || (seconds_since(start) < options.seconds / 2 && times.size() < 20000));
  result.batch_us = median(times) * 1e3;
  result.batch_us_least = static_cast<double>(*std::min_element(times.begin(), times.end())) * 1e3;
  const auto again =
      static_cast<unsigned>(std::clamp(options.seconds / 2 / (result.batch_us * 1e-6), 1.0, 100000.0));
  const double ms = static_cast<double>(elapsed_ms(again));
  result.events = options.batch * (times.size() + 1 + again);
  result.events_per_s = static_cast<double>(options.batch) * again / (ms * 1e-3);
}

void time_slots(const rich::EventBatch& base, const rich::Reconstructor& cpu, const rich::Geometry& geometry,
                const RingsCudaOptions& options, int multiprocessors, RingsCudaResult& result) {
  const Columns source = columns_of(base, base.events);
  const auto first = device_array<std::uint32_t>(source.events + 1);
  const auto pm = device_array<PmId>(std::max<std::uint64_t>(source.hits, 1));
  require(cudaMemcpy(first.get(), source.first.get(), (source.events + 1) * 4, cudaMemcpyHostToDevice),
          "a copy");
  require(cudaMemcpy(pm.get(), source.pm.get(), source.hits * 2, cudaMemcpyHostToDevice), "a copy");
  const auto slots = device_array<std::byte>(options.batch * slot_bytes);
  const Stream s = stream();
  fill_slots<<<static_cast<unsigned>((options.batch + 255) / 256), 256, 0, s.get()>>>(
      first.get(), pm.get(), base.events, options.batch, reinterpret_cast<std::uint32_t*>(slots.get()));
  require(cudaGetLastError(), "filling the slots");
  std::vector<std::uint32_t> table(slot_table_words);
  make_slot_table(geometry, table.data());
  const auto on_device = device_array<std::uint32_t>(table.size());
  require(cudaMemcpy(on_device.get(), table.data(), table.size() * 4, cudaMemcpyHostToDevice), "a copy");
  const auto words = device_array<std::uint32_t>(options.batch);
  const auto& math = *static_cast<const rich::Math*>(cpu.value());
  result.bytes_per_event = slot_bytes + sizeof(std::uint32_t);
  time_kernel(
      options, s.get(),
      [&] {
        return launch_math_slots(math, on_device.get(), slots.get(), options.batch, words.get(), {},
                                 multiprocessors, s.get());
      },
      result);
}

void time_batch(const rich::EventBatch& base, const rich::Reconstructor& cpu, const rich::Geometry& geometry,
                const RingsCudaOptions& options, int multiprocessors, RingsCudaResult& result) {
  const Columns source = columns_of(base, options.batch);
  const auto first = device_array<std::uint32_t>(source.events + 1);
  const auto pm = device_array<PmId>(std::max<std::uint64_t>(source.hits, 1));
  const auto primitives = device_array<std::uint16_t>(source.events);
  require(cudaMemcpy(first.get(), source.first.get(), (source.events + 1) * 4, cudaMemcpyHostToDevice),
          "a copy");
  require(cudaMemcpy(pm.get(), source.pm.get(), source.hits * 2, cudaMemcpyHostToDevice), "a copy");
  const DevicePlane plane(geometry);
  const BatchKernel& kernel = kernel_of(cpu.name());
  const auto events = static_cast<std::uint32_t>(source.events);
  const auto work = device_array<std::byte>(std::max<std::size_t>(kernel.work_bytes(events), 1));
  const DeviceBatch batch{events,       first.get(), pm.get(),         plane.common(),
                          plane.math(), nullptr,     primitives.get(), work.get()};
  const Stream s = stream();
  result.bytes_per_event = 4 + 2 + 2 * static_cast<double>(source.hits) / static_cast<double>(source.events);
  time_kernel(
      options, s.get(), [&] { return kernel.launch(cpu.value(), batch, {}, multiprocessors, s.get()); },
      result);
}

void time_streaming(const rich::EventBatch& base, const rich::Reconstructor& cpu,
                    const rich::Geometry& geometry, const RingsCudaOptions& options, int multiprocessors,
                    RingsCudaResult& result) {
  const Columns source = columns_of(base, std::max<std::uint64_t>(options.batch, base.events));
  const auto batch = static_cast<std::uint32_t>(options.batch);
  std::uint64_t most_hits = 1;
  for (std::uint64_t from = 0; from + batch <= source.events; from += batch)
    most_hits = std::max<std::uint64_t>(most_hits, source.first[from + batch] - source.first[from]);
  const DevicePlane plane(geometry);
  const BatchKernel& kernel = kernel_of(cpu.name());
  struct Lane {
    Stream stream;
    DeviceArray<std::uint32_t> first;
    DeviceArray<PmId> pm;
    DeviceArray<std::uint16_t> primitives;
    DeviceArray<std::byte> work;
    PinnedArray<std::uint16_t> out;
  };
  std::array<Lane, 4> lanes;
  for (Lane& lane : lanes) {
    lane.stream = stream();
    lane.first = device_array<std::uint32_t>(batch + 1);
    lane.pm = device_array<PmId>(most_hits);
    lane.primitives = device_array<std::uint16_t>(batch);
    lane.work = device_array<std::byte>(std::max<std::size_t>(kernel.work_bytes(batch), 1));
    lane.out = pinned_array<std::uint16_t>(batch);
  }
  std::uint64_t from = 0, copied = 0;
  const auto send = [&](Lane& lane) {
    const std::uint32_t base_hit = source.first[from], hits = source.first[from + batch] - base_hit;
    cudaStream_t s = lane.stream.get();
    require(cudaMemcpyAsync(lane.first.get(), source.first.get() + from, (batch + 1) * 4,
                            cudaMemcpyHostToDevice, s),
            "a copy");
    require(cudaMemcpyAsync(lane.pm.get(), source.pm.get() + base_hit, hits * 2, cudaMemcpyHostToDevice, s),
            "a copy");
    const DeviceBatch on_device{batch,        lane.first.get(), lane.pm.get() - base_hit, plane.common(),
                                plane.math(), nullptr,          lane.primitives.get(),    lane.work.get()};
    require(kernel.launch(cpu.value(), on_device, {}, multiprocessors, s), "the kernel");
    require(cudaMemcpyAsync(lane.out.get(), lane.primitives.get(), batch * 2, cudaMemcpyDeviceToHost, s),
            "a copy");
    copied += (batch + 1) * 4 + hits * 2;
    from = from + 2 * std::uint64_t{batch} <= source.events ? from + batch : 0;
  };
  const auto wait = [&](Lane& lane) { require(cudaStreamSynchronize(lane.stream.get()), "the stream"); };
  for (Lane& lane : lanes) send(lane);
  for (Lane& lane : lanes) wait(lane);

  std::vector<float> times;
  auto start = Clock::now();
  do {
    const auto one = Clock::now();
    send(lanes[0]);
    wait(lanes[0]);
    times.push_back(static_cast<float>(seconds_since(one)));
  } while (times.size() < 3 || (seconds_since(start) < options.seconds / 2 && times.size() < 20000));
  result.batch_us = median(times) * 1e6;
  result.batch_us_least = static_cast<double>(*std::min_element(times.begin(), times.end())) * 1e6;

  std::uint64_t batches = 0;
  copied = 0;
  start = Clock::now();
  do {
    Lane& lane = lanes[batches++ % lanes.size()];
    wait(lane);
    send(lane);
  } while (batches < 12 || seconds_since(start) < options.seconds / 2);
  for (Lane& lane : lanes) wait(lane);
  const double elapsed = seconds_since(start);
  result.events = (batches + times.size()) * batch;
  result.events_per_s = static_cast<double>(batches) * batch / elapsed;
  result.copied_bytes_per_event = static_cast<double>(copied) / (static_cast<double>(batches) * batch);
  result.bytes_per_event = result.copied_bytes_per_event + 2;
}

}  // namespace

RingsCudaResult rings_cuda(const rich::EventBatch& events, const RingsCudaOptions& options) {
  if (options.batch == 0 || options.batch > 1u << 28 || events.events == 0)
    throw std::invalid_argument("batch: must be from 1 to 268435456 events");
  const rich::Geometry geometry = rich::Geometry::make();
  const auto cpu = rich::make_reconstructor(options.algorithm, options.parameters, geometry);
  kernel_of(cpu->name());
  const gpu::Devices all = gpu::devices();
  if (options.device < 0 || static_cast<std::size_t>(options.device) >= all.found.size())
    throw std::invalid_argument("device: cuda:" + std::to_string(options.device) + ": " +
                                (all.found.empty() ? all.trouble : "no such GPU"));
  const int multiprocessors = all.found[static_cast<std::size_t>(options.device)].multiprocessors;
  require(cudaSetDevice(options.device), "choosing the device");
  RingsCudaResult result;
  if (options.streaming)
    time_streaming(events, *cpu, geometry, options, multiprocessors, result);
  else if (cpu->name() == rich::Math::name)
    time_slots(events, *cpu, geometry, options, multiprocessors, result);
  else
    time_batch(events, *cpu, geometry, options, multiprocessors, result);
  const Limits limit = limits(options.device);
  result.memory_bytes_per_s = limit.memory_bytes_per_s;
  result.operations_per_s = limit.operations_per_s;
  result.copy_bytes_per_s = limit.copy_bytes_per_s;
  return result;
}

}  // namespace nanet::bench
