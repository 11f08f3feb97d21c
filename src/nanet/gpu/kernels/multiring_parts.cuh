// SPDX-License-Identifier: Apache-2.0
// MULTIRING over a large batch: events sorted by hits, three kernels in sequence. Each kernel's code then
// fits the instruction cache of a multiprocessor (docs/design/rings.md).
#pragma once

#include <cstddef>

#include "nanet/gpu/kernels/occupancy.cuh"
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/multiring.hpp"

namespace nanet::gpu {

// As many blocks as fit into the shared memory.
template <>
inline constexpr unsigned wide_blocks<rich::Multiring> = 8;

// Working memory of a batch.
struct MultiringWork {
  static constexpr unsigned bins = 64;  // bins of hits, most hits first; the first holds all from 63 on
  struct Counters {
    std::uint32_t bin[bins];  // number of events per bin, then position of the next one
    std::uint32_t next[3];    // events taken by the warps of each kernel
    std::uint32_t searched, settled;
  };
  Counters* counters;
  std::uint32_t* order;  // events by hits, most first
  std::uint32_t* list;   // events to search from the front, to settle from the back
  rich::Multiring::Kept* kept;

  static constexpr std::size_t counters_bytes = (sizeof(Counters) + 255) / 256 * 256;
  static std::size_t bytes(std::uint32_t events) {
    return counters_bytes + std::size_t{events} * (2 * sizeof(std::uint32_t) + sizeof(rich::Multiring::Kept));
  }
  MultiringWork(void* memory, std::uint32_t events)
      : counters(static_cast<Counters*>(memory)),
        order(reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(memory) + counters_bytes)),
        list(order + events),
        kept(reinterpret_cast<rich::Multiring::Kept*>(list + events)) {}

  __device__ static unsigned bin_of(const DeviceBatch& batch, std::uint32_t event) {
    const std::uint32_t hits = batch.first[event + 1] - batch.first[event];
    return bins - 1 - (hits < bins ? hits : bins - 1);
  }
};

static __global__ void multiring_count(const DeviceBatch batch, const MultiringWork work) {
  __shared__ std::uint32_t bin[MultiringWork::bins];
  for (unsigned i = threadIdx.x; i < MultiringWork::bins; i += blockDim.x) bin[i] = 0;
  __syncthreads();
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < batch.events; i += gridDim.x * blockDim.x)
    atomicAdd(&bin[MultiringWork::bin_of(batch, i)], 1u);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < MultiringWork::bins; i += blockDim.x)
    if (bin[i]) atomicAdd(&work.counters->bin[i], bin[i]);
}

static __global__ void multiring_begins(const MultiringWork work) {
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < MultiringWork::bins; ++i) {
    const std::uint32_t here = work.counters->bin[i];
    work.counters->bin[i] = sum;
    sum += here;
  }
}

static __global__ void multiring_order(const DeviceBatch batch, const MultiringWork work) {
  __shared__ std::uint32_t bin[MultiringWork::bins], from[MultiringWork::bins];
  for (std::uint32_t base = blockIdx.x * blockDim.x; base < batch.events; base += gridDim.x * blockDim.x) {
    for (unsigned i = threadIdx.x; i < MultiringWork::bins; i += blockDim.x) bin[i] = 0;
    __syncthreads();
    const std::uint32_t event = base + threadIdx.x;
    unsigned mine = 0, rank = 0;
    if (event < batch.events) {
      mine = MultiringWork::bin_of(batch, event);
      rank = atomicAdd(&bin[mine], 1u);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < MultiringWork::bins; i += blockDim.x)
      if (bin[i]) from[i] = atomicAdd(&work.counters->bin[i], bin[i]);
    __syncthreads();
    if (event < batch.events) work.order[from[mine] + rank] = event;
    __syncthreads();
  }
}

enum class Part { begin, search, end };

template <Part part>
__global__ void __launch_bounds__(32 * wide_warps)
    multiring_part(const rich::Multiring algorithm, const DeviceBatch batch,
                   const trigger::DecisionOptions decision, const MultiringWork work) {
  using Event = rich::MultiringEvent<rich::DeviceLanes>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<WideShared<rich::Multiring>*>(memory);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto& scratch = *reinterpret_cast<rich::Multiring::Scratch*>(shared.scratch[warp]);
  auto& rings = *reinterpret_cast<rich::Rings*>(shared.rings[warp]);
  constexpr unsigned words = sizeof scratch.board.kept / 4;
  static_assert(words <= 32);
  const std::uint32_t events = part == Part::search ? work.counters->searched : batch.events;
  for (;;) {
    std::uint32_t at = 0;
    if (lane == 0) at = atomicAdd(&work.counters->next[static_cast<int>(part)], 1u);
    at = __shfl_sync(~0u, at, 0);
    if (at >= events) return;
    const std::uint32_t event = part == Part::begin ? work.order[at] : work.list[at];
    const std::uint32_t from = batch.first[event], hits = batch.first[event + 1] - from;
    auto* const kept = reinterpret_cast<std::uint32_t*>(work.kept + event);
    auto* const here = reinterpret_cast<std::uint32_t*>(&scratch.board.kept);
    if (part != Part::begin && lane < words) here[lane] = kept[lane];
    Event in_hand(algorithm.parameters, {batch.pm + from, hits}, batch.plane, scratch, scratch.board);
    if constexpr (part == Part::begin) {
      const bool search = in_hand.begin();
      if (lane == 0) {
        if (search)
          work.list[atomicAdd(&work.counters->searched, 1u)] = event;
        else
          work.list[batch.events - 1 - atomicAdd(&work.counters->settled, 1u)] = event;
      }
    } else if constexpr (part == Part::search) {
      in_hand.search();
    } else {
      in_hand.end(rings);
    }
    __syncwarp();
    if (part != Part::end) {
      if (lane < words) kept[lane] = here[lane];
    } else {
      hand_over(batch, event, hits, rings, decision);
    }
    __syncwarp();  // the next event's hits overwrite these
  }
}

template <Part part>
cudaError_t launch_part(const rich::Multiring& algorithm, const DeviceBatch& batch,
                        const trigger::DecisionOptions& decision, const MultiringWork& work,
                        int multiprocessors, cudaStream_t stream) {
  constexpr int bytes = static_cast<int>(sizeof(WideShared<rich::Multiring>));
  int resident = 0;
  if (const auto status = blocks_per_multiprocessor<multiring_part<part>>(32 * wide_warps, bytes, resident))
    return status;
  multiring_part<part><<<static_cast<unsigned>(multiprocessors * resident), 32 * wide_warps, bytes, stream>>>(
      algorithm, batch, decision, work);
  return cudaGetLastError();
}

inline cudaError_t launch_multiring_parts(const rich::Multiring& algorithm, const DeviceBatch& batch,
                                          const trigger::DecisionOptions& decision, int multiprocessors,
                                          cudaStream_t stream) {
  const MultiringWork work(batch.work, batch.events);
  if (const auto status = cudaMemsetAsync(work.counters, 0, sizeof *work.counters, stream)) return status;
  constexpr unsigned threads = 256;
  const unsigned blocks =
      std::min((batch.events + threads - 1) / threads, static_cast<unsigned>(multiprocessors) * 8);
  multiring_count<<<blocks, threads, 0, stream>>>(batch, work);
  multiring_begins<<<1, 1, 0, stream>>>(work);
  multiring_order<<<blocks, threads, 0, stream>>>(batch, work);
  if (const auto status = cudaGetLastError()) return status;
  if (const auto status = launch_part<Part::begin>(algorithm, batch, decision, work, multiprocessors, stream))
    return status;
  if (const auto status =
          launch_part<Part::search>(algorithm, batch, decision, work, multiprocessors, stream))
    return status;
  return launch_part<Part::end>(algorithm, batch, decision, work, multiprocessors, stream);
}

}  // namespace nanet::gpu
