// SPDX-License-Identifier: Apache-2.0
#include "nanet/bench/buffers_cuda.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "nanet/bench/math_slots.hpp"
#include "nanet/gpu/pinned_pages.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/rich/geometry.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::bench {
namespace {

using gpu::PinnedPages;
using gpu::require;
using os::monotonic_now;
namespace mgp = wire::mgp;

template <class T>
class OnDevice {
 public:
  OnDevice(std::size_t entries, const char* what) {
    void* at = nullptr;
    require(cudaMalloc(&at, entries * sizeof(T)), what);
    at_ = static_cast<T*>(at);
  }
  ~OnDevice() { cudaFree(at_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* get() const noexcept { return at_; }

 private:
  T* at_ = nullptr;
};

// Fills fixed slots with generated events, repeated as needed.
void fill_events(std::byte* to, std::size_t events) {
  readout::PackOptions pack;
  pack.merged = pack.fixed = true;
  readout::FrameSource source({}, pack);
  readout::PackedFrame frame;
  std::vector<std::byte> pool;
  while (pool.size() < mgp::fixed_event_bytes * std::min<std::size_t>(events, 16384)) {
    source.next(frame);
    for (const auto& p : frame.packets)
      pool.insert(pool.end(), frame.bytes.begin() + p.offset + mgp::header_bytes,
                  frame.bytes.begin() + p.offset + p.size);
  }
  const std::size_t distinct = pool.size() / mgp::fixed_event_bytes;
  for (std::size_t e = 0; e < events; ++e)
    std::memcpy(to + e * mgp::fixed_event_bytes, pool.data() + e % distinct * mgp::fixed_event_bytes,
                mgp::fixed_event_bytes);
}

// Buffer in flight: device memory and a stream.
struct Lane {
  Lane(std::uint32_t events, const std::vector<std::uint32_t>& first_table)
      : in(events * slot_bytes, "device memory for a buffer"),
        out(events, "device memory for primitives"),
        table(slot_table_words, "device memory for the table of PMs") {
    require(cudaMemcpy(table.get(), first_table.data(), first_table.size() * 4, cudaMemcpyHostToDevice),
            "copying the table of PMs");
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  }
  ~Lane() { cudaStreamDestroy(stream); }
  OnDevice<std::byte> in;
  OnDevice<std::uint32_t> out, table;
  cudaStream_t stream = nullptr;
  Nanoseconds began = 0;  // 0: no buffer in flight
};

}  // namespace

void buffers_cuda(const BuffersOptions& options, BuffersResult& result) {
  if (options.events == 0) throw std::invalid_argument("events per buffer: at least 1");
  int gpus = 0;
  require(cudaGetDeviceCount(&gpus), "looking for GPUs");
  if (options.device < 0 || options.device >= gpus)
    throw std::invalid_argument("device = cuda:" + std::to_string(options.device) + ": there is no such GPU");
  require(cudaSetDevice(options.device), "the GPU");
  int multiprocessors = 0;
  require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, options.device),
          "the GPU's properties");

  constexpr std::uint32_t buffers = 16;
  const std::size_t bytes = options.events * slot_bytes;
  const std::size_t stride = (bytes + 255) / 256 * 256, words = options.events * sizeof(std::uint32_t);
  const PinnedPages memory((stride + words) * buffers);
  for (std::uint32_t b = 0; b < buffers; ++b) fill_events(memory.host() + b * stride, options.events);
  std::vector<std::uint32_t> table(slot_table_words);
  make_slot_table(rich::Geometry::make(), table.data());
  std::vector<std::unique_ptr<Lane>> lanes;
  for (unsigned l = 0; l < (options.overlapped ? 2u : 1u); ++l)
    lanes.push_back(std::make_unique<Lane>(options.events, table));

  const rich::Math math;
  const trigger::DecisionOptions decision;
  std::uint64_t sent = 0, counted = 0;
  const auto send = [&](Lane& lane) {
    const std::uint64_t b = sent++ % buffers;
    lane.began = monotonic_now();
    require(cudaMemcpyAsync(lane.in.get(), memory.host() + b * stride, bytes, cudaMemcpyHostToDevice,
                            lane.stream),
            "the copy to the GPU");
    require(launch_math_slots(math, lane.table.get(), lane.in.get(), options.events, lane.out.get(), decision,
                              multiprocessors, lane.stream),
            "the kernel");
    require(cudaMemcpyAsync(memory.host() + stride * buffers + b * words, lane.out.get(), words,
                            cudaMemcpyDeviceToHost, lane.stream),
            "the copy from the GPU");
  };
  const auto wait = [&](Lane& lane, bool count) {
    if (lane.began == 0) return;
    require(cudaStreamSynchronize(lane.stream), "the stream");
    if (count) {
      result.latency.add(monotonic_now() - lane.began);
      ++counted;
    }
    lane.began = 0;
  };
  const auto run = [&](Nanoseconds length, bool count) {
    const Nanoseconds began = monotonic_now();
    for (unsigned l = 0; monotonic_now() - began < length; l = (l + 1) % lanes.size()) {
      wait(*lanes[l], count);
      send(*lanes[l]);
      if (!options.overlapped) wait(*lanes[l], count);
    }
    for (auto& lane : lanes) wait(*lane, count);
    return static_cast<double>(monotonic_now() - began) * 1e-9;
  };
  run(20'000'000, false);
  const double elapsed = run(static_cast<Nanoseconds>(options.seconds * 1e9), true);
  result.buffers = counted;
  result.events_per_s = static_cast<double>(counted) * options.events / elapsed;
  result.bytes_per_s = static_cast<double>(counted) * static_cast<double>(bytes) / elapsed;
}

}  // namespace nanet::bench
