// SPDX-License-Identifier: Apache-2.0
// Thread block in steps: one source for a thread block of a GPU and for a loop on the CPU, so frame code is
// tested without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/rich/lanes.hpp"
#include "nanet/units.hpp"

#ifdef __CUDACC__
#define NANET_DEVICE __device__
#else
#define NANET_DEVICE
#endif

namespace nanet::gpu {

// Two bytes at an even address.
NANET_HD inline std::uint32_t half_word(const std::byte* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint16_t*>(at);
#else
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}
// The same as a signed number.
NANET_HD inline std::int32_t signed_half_word(const std::byte* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::int16_t*>(at);
#else
  std::int16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}
NANET_HD inline std::uint32_t one_byte(const std::byte* at) {
  return static_cast<std::uint32_t>(*at);
}
// Four bytes at a multiple of four.
NANET_HD inline std::uint32_t full_word(const std::byte* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint32_t*>(at);
#else
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}

// Threads that sum an item together in Block::sum(); each then has one word of the sums.
inline constexpr unsigned sum_parts = 8;
// Items of a share of work that a group of threads takes at once: a lane each.
inline constexpr unsigned share_lanes = 32;

#ifdef __CUDACC__

// Warps of a block from `first` on, and their barrier.
template <unsigned first>
struct WarpsFrom {
  __device__ static unsigned thread() { return threadIdx.x - 32 * first; }
  __device__ static unsigned threads() { return blockDim.x - 32 * first; }
  __device__ static void sync() {
    if constexpr (first == 0)
      __syncthreads();
    else
      asm volatile("bar.sync %0, %1;" ::"n"(first), "r"(threads()) : "memory");
  }
  // Whether `is` in any of the threads.
  __device__ static bool sync_or(bool is) {
    if constexpr (first == 0) return __syncthreads_or(is) != 0;
    std::uint32_t any;
    asm volatile(
        "{\n"
        "  .reg .pred in, out;\n"
        "  setp.ne.u32 in, %1, 0;\n"
        "  bar.red.or.pred out, %2, %3, in;\n"
        "  selp.u32 %0, 1, 0, out;\n"
        "}"
        : "=r"(any)
        : "r"(std::uint32_t{is}), "n"(first), "r"(threads())
        : "memory");
    return any != 0;
  }
};

// Steps of these threads of a block on a GPU; each of them makes each call.
template <class Threads>
struct Steps {
  using Lanes = rich::DeviceLanes;
  static constexpr bool has_warps = true;
  static constexpr unsigned idle = 32, group = 32, most_units = 3;  // ThreadUnits

  __device__ static unsigned thread() { return Threads::thread(); }
  __device__ static unsigned threads() { return Threads::threads(); }
  __device__ static void sync() { Threads::sync(); }
  // Permutation of the threads; neighbours belong to different warps.
  __device__ static unsigned spread(unsigned t) { return (t & 31u) * (threads() >> 5) + (t >> 5); }
  // The same for n items of long straight code: over as few warps as have a lane for each, at least one per
  // scheduler, since each warp issues the whole code.
  __device__ static unsigned spread(unsigned t, unsigned n) {
    const unsigned all = threads() >> 5, wanted = (n + 31) >> 5, some = wanted < 4 ? 4 : wanted;
    const unsigned warps = some < all ? some : all;
    return (t >> 5) < warps ? (t & 31u) * warps + (t >> 5) : t;
  }
  // f(thread) in every thread; its writes are visible to all threads afterwards.
  template <class F>
  __device__ static void each(const F& f) {
    f(thread());
    sync();
  }
  // The same; returns in every thread whether f(thread) is true in any.
  template <class F>
  __device__ static bool any(const F& f) {
    return Threads::sync_or(f(thread()));
  }
  // f() in thread 0; its writes are visible to the others after the next step.
  template <class F>
  __device__ static void one(const F& f) {
    if (thread() == 0) f();
  }
  // f(warp) with all lanes of each warp together.
  template <class F>
  __device__ static void warps(const F& f) {
    f(thread() >> 5);
    sync();
  }
  __device__ static bool leads() { return (threadIdx.x & 31u) == 0; }
  // Next number for the calling warp, counted up in `at`; inside warps().
  __device__ static std::uint32_t take(std::uint32_t& at) {
    std::uint32_t got = 0;
    if (leads()) got = atomicAdd(&at, 1u);
    return __shfl_sync(0xFFFFFFFFu, got, 0);
  }
  // Whether f(lane) is true for all lanes of share_lanes. A group.
  template <class F>
  __device__ static bool lanes(const F& f) {
    return __all_sync(0xFFFFFFFFu, f(threadIdx.x & 31u)) != 0;
  }
  // Whether it is true in all threads of a group.
  __device__ static bool agree(bool is) { return __all_sync(0xFFFFFFFFu, is) != 0; }
  // Value of its first thread.
  __device__ static std::uint32_t of_first(std::uint32_t value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }
  // Mask of the i < 4 for which f(i) is true. A group.
  template <class F>
  __device__ static std::uint32_t of_four(const F& f) {
    const unsigned lane = threadIdx.x & 31u;
    return __ballot_sync(0xFFFFFFFFu, lane < 4 && f(lane & 3u));
  }
  // A shared word that other groups change, and order of such accesses.
  __device__ static std::uint32_t look(const std::uint32_t& at) {
    return *const_cast<const volatile std::uint32_t*>(&at);
  }
  __device__ static void set(std::uint32_t& at, std::uint32_t value) {
    *const_cast<volatile std::uint32_t*>(&at) = value;
  }
  __device__ static void fence() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
  // Atomic addition; returns the previous value. Any thread, inside each() or warps().
  __device__ static std::uint32_t add(std::uint32_t& at, std::uint32_t n) { return atomicAdd(&at, n); }
  __device__ static void least(std::uint32_t& at, std::uint32_t n) { atomicMin(&at, n); }
  // Sums of A over the hits of items i < n: add(i, part, sums) adds the hits of one part of sum_parts, and
  // put(i, w, word) takes word w of the total.
  template <class A, class Add, class Put>
  __device__ static void sum(std::uint32_t n, const Add& add, const Put& put) {
    static_assert(A::words == sum_parts);
    constexpr unsigned all = 0xFFFFFFFFu, items = 32 / sum_parts;
    const unsigned part = threadIdx.x & 7u;
    for (std::uint32_t from = (thread() >> 5) * items; from < n; from += (threads() >> 5) * items) {
      const std::uint32_t i = from + (threadIdx.x & 31u) / sum_parts;
      typename A::WholeSums sums;
      if (i < n) add(i, part, sums);
      __syncwarp();
      std::int32_t four[4], two[2];
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const std::int32_t low = A::word(sums, k), high = A::word(sums, k + 4);
        four[k] = (part & 4 ? high : low) + __shfl_xor_sync(all, part & 4 ? low : high, 4);
      }
#pragma unroll
      for (unsigned k = 0; k < 2; ++k)
        two[k] =
            (part & 2 ? four[k + 2] : four[k]) + __shfl_xor_sync(all, part & 2 ? four[k] : four[k + 2], 2);
      const std::int32_t one =
          (part & 1 ? two[1] : two[0]) + __shfl_xor_sync(all, part & 1 ? two[0] : two[1], 1);
      if (i < n) put(i, part, one);
    }
    sync();
  }
  // f(i, number of set flags before i) for each i < n with flag[i] not 0. Returns the number of set flags.
  // room: one shared word per warp.
  template <class F>
  __device__ static std::uint32_t number(const std::uint32_t* flag, std::uint32_t n, std::uint32_t* room,
                                         const F& f) {
    const unsigned lane = threadIdx.x & 31u, warp = thread() >> 5, warps = threads() >> 5;
    std::uint32_t before = 0;
    for (std::uint32_t from = 0; from < n; from += threads()) {
      const std::uint32_t i = from + thread();
      const bool is = i < n && flag[i];
      const unsigned vote = __ballot_sync(0xFFFFFFFFu, is);
      if (lane == 0) room[warp] = __popc(vote);
      sync();
      const std::uint32_t there = lane < warps ? room[lane] : 0;
      const std::uint32_t earlier = __reduce_add_sync(0xFFFFFFFFu, lane < warp ? there : 0);
      const std::uint32_t mine = before + earlier;
      before += __reduce_add_sync(0xFFFFFFFFu, there);
      if (is) f(i, mine + __popc(vote & ((1u << lane) - 1)));
      sync();
    }
    return before;
  }
  // number() for a long f, and flags of at least all threads, from n on 0: however many are set, f takes one
  // turn of the block for as many items as it has threads. list: a word per set flag; f(i, number) may use
  // list[number]. beside(): in each thread after its f.
  template <class F, class Beside>
  __device__ static std::uint32_t number_all(const std::uint32_t* flag, std::uint32_t n, std::uint32_t* room,
                                             std::uint32_t* list, const F& f, const Beside& beside) {
    const unsigned lane = threadIdx.x & 31u, warp = thread() >> 5;
    std::uint32_t i = thread(), at = 0, items = 0;
    bool is = flag[i] != 0;
    if (n <= threads()) {
      const unsigned vote = __ballot_sync(0xFFFFFFFFu, is);
      if (lane == 0) room[warp] = __popc(vote);
      sync();
      const std::uint32_t there = lane < threads() >> 5 ? room[lane] : 0;
      at = __reduce_add_sync(0xFFFFFFFFu, lane < warp ? there : 0) + __popc(vote & ((1u << lane) - 1));
      items = __reduce_add_sync(0xFFFFFFFFu, there);
    } else {
      items = number(flag, n, room, [&](std::uint32_t index, std::uint32_t number) { list[number] = index; });
      at = spread(thread(), items);
      is = at < items;
      if (is) i = list[at];
    }
    for (std::uint32_t from = 0;;) {
      if (is) f(i, at);
      if (from == 0) beside();
      sync();
      from += threads();
      if (from >= items) return items;
      at += threads();
      is = at < items;
      if (is) i = list[at];
    }
  }
};

using Block = Steps<WarpsFrom<0>>;
// All warps but the first.
using LaterWarps = Steps<WarpsFrom<1>>;

#else

// The same steps on the CPU, one thread after the other.
struct Block {
  using Lanes = rich::HostLanes;
  static constexpr bool has_warps = false;
  static constexpr unsigned idle = 0, group = 1, most_units = 16;  // ThreadUnits

  static constexpr unsigned threads() { return 64; }
  static unsigned spread(unsigned t) { return t; }
  static unsigned spread(unsigned t, unsigned) { return t; }
  template <class F>
  static void each(const F& f) {
    for (unsigned t = 0; t < threads(); ++t) f(t);
  }
  template <class F>
  static bool any(const F& f) {
    bool is = false;
    for (unsigned t = 0; t < threads(); ++t) is |= f(t);
    return is;
  }
  template <class F>
  static void one(const F& f) {
    f();
  }
  template <class F>
  static void warps(const F& f) {
    for (unsigned w = 0; w < threads() / 32; ++w) f(w);
  }
  static bool leads() { return true; }
  static std::uint32_t take(std::uint32_t& at) { return at++; }
  template <class F>
  static void groups(const F& f) {
    for (unsigned t = 0; t < threads(); ++t) f(t, threads());
  }
  template <class F>
  static bool lanes(const F& f) {
    bool is = true;
    for (unsigned lane = 0; lane < share_lanes; ++lane) is = f(lane) && is;
    return is;
  }
  static bool agree(bool is) { return is; }
  static std::uint32_t of_first(std::uint32_t value) { return value; }
  template <class F>
  static std::uint32_t of_four(const F& f) {
    std::uint32_t mask = 0;
    for (unsigned i = 0; i < 4; ++i) mask |= static_cast<std::uint32_t>(f(i)) << i;
    return mask;
  }
  static std::uint32_t look(const std::uint32_t& at) { return at; }
  static void set(std::uint32_t& at, std::uint32_t value) { at = value; }
  static void fence() {}
  static std::uint32_t add(std::uint32_t& at, std::uint32_t n) {
    const std::uint32_t before = at;
    at += n;
    return before;
  }
  static void least(std::uint32_t& at, std::uint32_t n) { at = n < at ? n : at; }
  template <class A, class Add, class Put>
  static void sum(std::uint32_t n, const Add& add, const Put& put) {
    for (std::uint32_t i = 0; i < n; ++i) {
      std::int32_t total[A::words] = {};
      for (unsigned part = 0; part < sum_parts; ++part) {
        typename A::WholeSums sums;
        add(i, part, sums);
        for (unsigned w = 0; w < A::words; ++w)
          total[w] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total[w]) +
                                               static_cast<std::uint32_t>(A::word(sums, w)));
      }
      for (unsigned w = 0; w < A::words; ++w) put(i, w, total[w]);
    }
  }
  template <class F>
  static std::uint32_t number(const std::uint32_t* flag, std::uint32_t n, std::uint32_t*, const F& f) {
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < n; ++i)
      if (flag[i]) f(i, before++);
    return before;
  }
  template <class F, class Beside>
  static std::uint32_t number_all(const std::uint32_t* flag, std::uint32_t n, std::uint32_t* room,
                                  std::uint32_t* list, const F& f, const Beside& beside) {
    beside();
    if (n <= threads()) return number(flag, n, room, f);
    const std::uint32_t items =
        number(flag, n, room, [&](std::uint32_t index, std::uint32_t number) { list[number] = index; });
    for (std::uint32_t at = 0; at < items; ++at) f(list[at], at);
    return items;
  }
};

#endif

}  // namespace nanet::gpu
