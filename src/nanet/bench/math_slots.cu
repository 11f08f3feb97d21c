// SPDX-License-Identifier: Apache-2.0
// MATH kernel for fixed slots: one thread per event, one tile of 256 events per block at a time. The copy
// engine loads the next tiles during the current one. Events of a tile are sorted by hit count, so that the
// threads of a warp end together. All reads come from shared memory: hit words, and the PM table with 4 B per
// entry, so that a lookup is one bank wide.
#include "nanet/bench/math_slots.hpp"

#include <algorithm>
#include <stdexcept>

#include "nanet/gpu/kernels/math_device.cuh"

namespace nanet::bench {
namespace {

using gpu::math_primitive;
using gpu::math_ring;

constexpr unsigned tile = 256;  // events, and threads of a block
constexpr unsigned warps = tile / 32;
constexpr unsigned tile_bytes = tile * slot_bytes;
constexpr unsigned bins = 33;  // one per number of hits

struct Shared {
  alignas(128) unsigned char slots[tile_bytes];
  alignas(128) std::uint32_t table[slot_table_entries];
  std::uint32_t bin[bins];
  float share[bins];  // 1 / hits
  std::uint32_t next;
  alignas(8) std::uint64_t full;
  std::uint16_t id[tile];
  std::uint8_t order[tile];
};
// All 2048 threads of a multiprocessor in eight blocks, each with 1 KB reserved by the driver.
static_assert(8 * (sizeof(Shared) + 1024) <= 228 * 1024);

#if __CUDA_ARCH__ >= 900
__device__ std::uint32_t address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void arm(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void copy(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          address(to)),
      "l"(from), "r"(bytes), "r"(address(barrier))
      : "memory");
}
__device__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n"
      "}\n" ::"r"(address(barrier)),
      "r"(parity)
      : "memory");
}
#endif

// entry: shared-memory address of a hit's table entry.
__device__ void add(rich::Math::WholeSums& sums, std::uint32_t entry) {
  std::uint32_t pair;
  asm("ld.shared.u32 %0, [%1];" : "=r"(pair) : "r"(entry));
  sums.add(pair);
}

// Adds the two hits of a word.
__device__ void add_two(rich::Math::WholeSums& sums, std::uint32_t table, std::uint32_t word) {
  std::uint32_t low, high;
  asm("and.b32 %0, %1, 0x7ff;" : "=r"(low) : "r"(word));
  asm("and.b32 %0, %1, 0x7ff0000;" : "=r"(high) : "r"(word));
  add(sums, low * 4 + table);
  add(sums, (high >> 14) + table);
}

__global__ void __launch_bounds__(tile, 8)
    math_slots_kernel(const rich::Math math, std::uint32_t* __restrict__ table,
                      const std::byte* __restrict__ slots, std::uint64_t events,
                      std::uint32_t* __restrict__ words, const trigger::DecisionOptions decision) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const auto table_at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared.table));
  const unsigned thread = threadIdx.x, warp = thread / 32;
  const auto tiles = static_cast<std::uint32_t>((events + tile - 1) / tile);
  // The threads copy an incomplete tile: the copy engine moves multiples of 16 B only.
  const auto whole = [&](std::uint32_t t) { return (std::uint64_t{t} + 1) * tile <= events; };
  const auto fetch = [&](std::uint32_t t) {
#if __CUDA_ARCH__ >= 900
    if (t >= tiles || !whole(t)) return;
    arm(&shared.full, tile_bytes);
    copy(shared.slots, slots + std::uint64_t{t} * tile_bytes, tile_bytes, &shared.full);
#endif
  };
#if __CUDA_ARCH__ >= 900
  if (thread == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&shared.full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    fetch(blockIdx.x);
  }
#endif
  for (unsigned i = thread; i < slot_table_entries; i += tile) shared.table[i] = table[i];
  for (unsigned i = thread; i < bins; i += tile) shared.bin[i] = 0;
  if (thread < bins) shared.share[thread] = 1.0f / static_cast<float>(thread);
  __syncthreads();

  [[maybe_unused]] unsigned parity = 0;
  for (std::uint32_t t = blockIdx.x; t < tiles;) {
    const unsigned here = whole(t) ? tile : static_cast<unsigned>(events - std::uint64_t{t} * tile);
    bool copied = false;
#if __CUDA_ARCH__ >= 900
    copied = here == tile;
    if (copied) wait(&shared.full, parity);
    parity ^= 1;
#endif
    if (!copied) {
      const auto* from = reinterpret_cast<const uint2*>(slots + std::uint64_t{t} * tile_bytes);
      for (unsigned i = thread; i < here * (slot_bytes / 8); i += tile)
        reinterpret_cast<uint2*>(shared.slots)[i] = from[i];
      __syncthreads();
    }
    // Dynamic tile order: multiprocessors far from the memory of a tile are slower. Claimed now, needed after
    // this tile.
    std::uint32_t claimed = 0;
    if (thread == tile - 1) claimed = atomicAdd(&table[slot_table_entries], 1u) + gridDim.x;

    // Counting sort by hit count.
    const bool mine = thread < here;
    uint2 header{};
    if (mine) header = *reinterpret_cast<const uint2*>(shared.slots + thread * slot_bytes);
    const unsigned stored = header.y >> 8 & 0xFF, hits = stored < 32 ? stored : 32;
    const std::uint32_t time = (header.x & 0xFF) << 8 | (header.y & 0xFF);
    const unsigned rank = mine ? atomicAdd(&shared.bin[hits], 1u) : 0u;
    __syncthreads();
    if (warp == 0) {
      // Bin starts: 32 by a scan over the lanes, then the last.
      const unsigned count = shared.bin[thread];
      unsigned sum = count;
      for (unsigned o = 1; o < 32; o *= 2) {
        const unsigned below = __shfl_up_sync(~0u, sum, o);
        if (thread >= o) sum += below;
      }
      shared.bin[thread] = sum - count;
      if (thread == 31) shared.bin[32] = sum;
    }
    __syncthreads();
    if (mine) shared.order[shared.bin[hits] + rank] = static_cast<std::uint8_t>(thread);
    __syncthreads();
    if (thread < bins) shared.bin[thread] = 0;  // for the next tile; the barrier at the end orders it

    // Each scheduler has two warps of the block: one with short and one with long events.
    const unsigned place = (warp < warps / 2 ? warp : warps + warps / 2 - 1 - warp) * 32 + thread % 32;
    if (place < here) {
      const unsigned event = shared.order[place];
      const unsigned char* const slot = shared.slots + event * slot_bytes;
      const std::uint32_t about = *reinterpret_cast<const std::uint32_t*>(slot + 4);
      unsigned n = about >> 8 & 0xFF;
      static_assert(rich::Math::whole_hits == 32);
      n = n < 32 ? n : 32;
      const auto* pm = reinterpret_cast<const uint2*>(slot + 8);
      rich::Math::WholeSums sums;
      for (unsigned i = 0; i < n; i += 4) {
        const uint2 four = *pm++;
        add_two(sums, table_at, four.x);
        add_two(sums, table_at, four.y);
      }
      rich::Ring ring;
      const bool found = math_ring(math, rich::Math::moments(sums), n, shared.share[n], ring);
      shared.id[event] =
          static_cast<std::uint16_t>(math_primitive(found, ring, n, (about >> 24 & 1) != 0, decision));
    }
    if (thread == tile - 1) shared.next = claimed;
    __syncthreads();  // all threads have read the tile and written their IDs
    const std::uint32_t next = shared.next;
    if (thread == 0) fetch(next);
    if (mine) {
      const std::uint32_t id = shared.id[thread];
      words[std::uint64_t{t} * tile + thread] = id ? id << 16 | time : 0;
    }
    t = next;
  }
  // The last block resets the counters.
  if (thread == 0 && atomicAdd(&table[slot_table_entries + 1], 1u) == gridDim.x - 1) {
    table[slot_table_entries] = 0;
    table[slot_table_entries + 1] = 0;
  }
}

}  // namespace

void make_slot_table(const rich::Geometry& geometry, std::uint32_t* table) {
  std::fill_n(table, slot_table_words, 0u);
  rich::Math math;
  math.use(geometry);
  if (!math.whole)
    throw std::invalid_argument("geometry: PM positions are not whole mm and rows of 9 sqrt(3) mm");
  for (std::size_t pm = 0; pm < geometry.common.size(); ++pm)
    table[pm] = rich::Math::pair(math.position(geometry.common[pm]));
}

cudaError_t launch_math_slots(const rich::Math& math, std::uint32_t* table, const std::byte* slots,
                              std::uint64_t events, std::uint32_t* words,
                              const trigger::DecisionOptions& decision, int multiprocessors,
                              cudaStream_t stream) {
  if (events == 0) return cudaSuccess;
  constexpr int bytes = static_cast<int>(sizeof(Shared));
  if (const auto status =
          cudaFuncSetAttribute(math_slots_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))
    return status;
  int resident = 0;  // fewer than on Hopper if shared memory is smaller
  if (const auto status =
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, math_slots_kernel, tile, bytes))
    return status;
  const std::uint64_t tiles = (events + tile - 1) / tile;
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>(tiles, static_cast<unsigned>(multiprocessors * std::max(resident, 1))));
  math_slots_kernel<<<blocks, tile, bytes, stream>>>(math, table, slots, events, words, decision);
  return cudaGetLastError();
}

}  // namespace nanet::bench
