// SPDX-License-Identifier: Apache-2.0
// RDMA by GPU kernels: put, get, events and completion on the rings of a torus node (docs/formats.md, Torus).
// Every block of threads, a multiple of 32, runs
//
//     __shared__ nanet::gpu::RdmaWork work;
//     __shared__ nanet::gpu::RdmaEvent event;
//     nanet::gpu::begin(rdma, work);
//     nanet::gpu::put_signal(rdma, work, node, key, offset, from, bytes, number);
//     while (nanet::gpu::wait(rdma, work, event))       // false: the network interface has stopped
//       ...                                             // an event: data arrived, completed, failed
//     if (!nanet::gpu::quiet(rdma, work))               // `from` can be written again
//       ...                                             // an operation was refused
//
// with all its threads in each call. On the host, GpuRdma (rdma/gpu_nodes.cuh) or HostRdma
// (rdma/host_nodes.hpp) provides `rdma` and the keys. Without CUDA a block is one host thread, and the
// protocol is the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/gpu/device_code.hpp"
#include "nanet/torus/rings.hpp"

namespace nanet::gpu {

inline constexpr unsigned max_rdma_nodes = 16;

// Registered buffer at its node: b47:0 first address, b63:48 protection domain.
using RdmaKey = std::uint64_t;

// Positions of the blocks of a node; the network interface does not use them.
struct RdmaPositions {
  std::uint64_t posted = 0;                 // entries of the put ring taken by blocks
  std::uint64_t rung = 0;                   // entries announced by the doorbell
  std::uint64_t next[max_rdma_nodes] = {};  // entry of each event queue
};

// Kernel argument. Pointers are device addresses.
struct Rdma {
  // Event queue with one writer: a card has one queue, emulated cards write one each.
  struct Queue {
    const contract::Event* entries = nullptr;
    std::uint64_t* finished = nullptr;
  };

  torus::PutDescriptor* ring = nullptr;
  std::uint32_t* doorbell = nullptr;
  RdmaPositions* positions = nullptr;
  const std::uint64_t* done = nullptr;     // entries of the ring whose operations have ended, in order
  const std::uint64_t* refused = nullptr;  // operations that have failed
  const std::uint32_t* stopped = nullptr;  // not 0: the network interface has stopped
  Queue queue[max_rdma_nodes];
  std::uint32_t entries = 0;  // of the ring; a power of two
  std::uint32_t events = 0;   // of each queue; a power of two, at least 4
  std::uint16_t queues = 0;
  std::uint16_t node = 0;    // this one, torus::Node::packed()
  std::uint16_t domain = 0;  // of local addresses
  bool shared = false;       // several blocks of the node make calls
  bool system = true;        // the ring is read from outside this GPU
};

// State of a block; in shared memory.
struct RdmaWork {
  std::uint64_t posted = 0;   // end of the last operation in the ring
  std::uint64_t done = 0;     // as last read
  std::uint64_t refused = 0;  // as last read
  bool too_long = false;      // since the last quiet(), an inline payload was not posted
  std::uint64_t next[max_rdma_nodes] = {};
  std::uint32_t message = 0;  // number of the last operation; valid after a barrier
  std::uint32_t turn = 0;     // queue that comes first
  std::uint32_t going = 0;
};

// Entry of an event queue.
struct RdmaEvent {
  torus::EventType type = torus::EventType::completed;
  torus::Nack reason = torus::Nack::none;                // failed
  torus::PacketType operation = torus::PacketType::raw;  // completed, failed: put or get
  std::uint8_t port = 0;
  std::uint32_t immediate = 0;  // put_arrived
  std::uint32_t bytes = 0;      // put_arrived: of the last packet; else of the operation
  std::uint16_t node = 0;       // the other one
  std::uint16_t domain = 0;
  std::uint32_t message = 0;
  std::uint64_t time_ns = 0;  // clock of the writer
};

namespace detail {

inline constexpr std::uint64_t no_entry = ~std::uint64_t{0};
inline constexpr unsigned polls_per_stop = 64;  // polls of a queue between two loads of `stopped`

#ifdef __CUDACC__

NANET_DEVICE_CODE std::uint64_t add(std::uint64_t& word, std::uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(&word), static_cast<unsigned long long>(value));
}
// Orders the reads of an entry before the claim of it, and claims one after the other.
NANET_DEVICE_CODE bool replace(std::uint64_t& word, std::uint64_t from, std::uint64_t to) {
  std::uint64_t found;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(found)
               : "l"(&word), "l"(from), "l"(to)
               : "memory");
  return found == from;
}
NANET_DEVICE_CODE void release_device(std::uint64_t& word, std::uint64_t value) {
  fence_device();
  contract::store_relaxed_device(&word, value);
}
NANET_DEVICE_CODE std::uint64_t acquire_device(const std::uint64_t& word) {
  const std::uint64_t value = contract::load_relaxed_device(&word);
  fence_device();
  return value;
}
// Four stores of 16 B; the last one, with the lap, is a release.
NANET_DEVICE_CODE void publish_descriptor(torus::PutDescriptor& to, const torus::PutDescriptor& d,
                                          std::uint32_t lap, bool system) {
  const auto* const from = reinterpret_cast<const uint4*>(&d);
  auto* const at = reinterpret_cast<uint4*>(&to);
  for (unsigned i = 0; i < 3; ++i) __stcg(at + i, from[i]);
  auto* const last = reinterpret_cast<contract::Sixteen*>(at + 3);
  const contract::Sixteen value{0, std::uint64_t{lap} << 32};
  if (system)
    contract::store_release_system(last, value);
  else
    contract::store_release_device(last, value);
}

#else

inline std::uint64_t add(std::uint64_t& word, std::uint64_t value) {
  return std::atomic_ref(word).fetch_add(value, std::memory_order_relaxed);
}
inline bool replace(std::uint64_t& word, std::uint64_t from, std::uint64_t to) {
  return std::atomic_ref(word).compare_exchange_strong(from, to, std::memory_order_acq_rel);
}
inline void release_device(std::uint64_t& word, std::uint64_t value) {
  contract::HostAccess::release(word, value);
}
inline std::uint64_t acquire_device(const std::uint64_t& word) {
  return contract::HostAccess::acquire(word);
}
inline void publish_descriptor(torus::PutDescriptor& to, const torus::PutDescriptor& d, std::uint32_t lap,
                               bool) {
  std::memcpy(static_cast<void*>(&to), &d, offsetof(torus::PutDescriptor, lap));
  contract::HostAccess::release(to.lap, lap);
}

#endif

NANET_DEVICE_CODE void pause_poll() {
#ifndef __CUDACC__
  relax();
#endif
}

NANET_DEVICE_CODE std::uint32_t lap_of(std::uint64_t k, std::uint32_t entries) {
  return static_cast<std::uint32_t>(k >> contract::exponent(entries)) + 1;
}

// Takes n entries of the ring and waits until they are free. The leader alone. no_entry: stopped.
NANET_DEVICE_CODE std::uint64_t reserve(const Rdma& rdma, RdmaWork& work, unsigned n) {
  std::uint64_t k = work.posted;
  if (rdma.shared)
    k = add(rdma.positions->posted, n);
  else
    Access::put(rdma.positions->posted, k + n);
  work.posted = k + n;
  while (k + n - work.done > rdma.entries) {
    const bool stopped = Access::acquire(*rdma.stopped) != 0;
    work.done = Access::acquire(*rdma.done);
    if (k + n - work.done <= rdma.entries) break;
    if (stopped) return no_entry;
    pause_poll();
  }
  return k;
}

// Doorbells follow in the order of the ring, so that its value covers whole entries only.
NANET_DEVICE_CODE void ring_doorbell(const Rdma& rdma, std::uint64_t k, unsigned n) {
  if (rdma.shared)
    while (acquire_device(rdma.positions->rung) != k) {
      if (Access::acquire(*rdma.stopped) != 0) return;
      pause_poll();
    }
  Access::relax(*rdma.doorbell, static_cast<std::uint32_t>(k + n));
  if (rdma.shared) release_device(rdma.positions->rung, k + n);
}

// Posts an operation; inline payload is read from `from`. All threads.
NANET_DEVICE_CODE void post(const Rdma& rdma, RdmaWork& work, torus::PutDescriptor& d, const void* from) {
  barrier();
  if (!first_warp()) return;
  if ((d.flags & torus::put_flag::inline_payload) != 0 && d.bytes > torus::max_inline_bytes) {
    if (leads()) work.too_long = true;
    return;
  }
  const unsigned n = torus::put_entries(d);
  const std::uint32_t mask = rdma.entries - 1;
  const std::uint64_t k = broadcast(leads() ? reserve(rdma, work, n) : 0);
  if (k == no_entry) return;
  if (n > 1) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    for (std::uint32_t i = lane(); i < d.bytes; i += lanes) {
      torus::PutDescriptor& entry = rdma.ring[static_cast<std::uint32_t>(k + 1 + i / 64) & mask];
      reinterpret_cast<std::byte*>(&entry)[i % 64] = bytes[i];
    }
    sync_warp();
  }
  if (!leads()) return;
  d.message = work.message = static_cast<std::uint32_t>(k);
  publish_descriptor(rdma.ring[static_cast<std::uint32_t>(k) & mask], d, lap_of(k, rdma.entries),
                     rdma.system);
  ring_doorbell(rdma, k, n);
}

NANET_DEVICE_CODE torus::PutDescriptor describe(const Rdma& rdma, torus::PacketType type, std::uint16_t node,
                                                RdmaKey key, std::uint64_t offset, const void* local,
                                                std::uint32_t bytes, std::uint8_t flags) {
  torus::PutDescriptor d;
  d.local_address =
      (flags & torus::put_flag::inline_payload) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(local);
  d.remote_address = (key & 0xFFFF'FFFF'FFFF) + offset;
  d.bytes = bytes;
  d.remote_domain = static_cast<std::uint16_t>(key >> 48);
  d.local_domain = rdma.domain;
  d.node = node;
  d.type = static_cast<std::uint8_t>(type);
  d.flags = flags;
  return d;
}

NANET_DEVICE_CODE RdmaEvent decode_event(const contract::Event& e) {
  RdmaEvent out;
  out.type = static_cast<torus::EventType>(e.type);
  out.reason = static_cast<torus::Nack>(e.flags);
  out.port = e.stream;
  if (out.type == torus::EventType::put_arrived)
    out.immediate = e.buffer;
  else
    out.operation = static_cast<torus::PacketType>(e.buffer);
  out.bytes = e.bytes;
  out.node = static_cast<std::uint16_t>(e.frame);
  out.domain = static_cast<std::uint16_t>(e.frame >> 16);
  out.message = e.n;
  out.time_ns = e.time_ns;
  return out;
}

// Takes entry k of a queue; false: another block has taken it. One lane.
NANET_DEVICE_CODE bool take_event(const Rdma& rdma, RdmaWork& work, unsigned q, std::uint64_t k,
                                  const contract::Event& entry, RdmaEvent& event) {
  contract::Event e;
  Access::read(entry, e);
  std::uint64_t& next = rdma.positions->next[q];
  if (rdma.shared && !replace(next, k, k + 1)) {
    work.next[q] = Access::peek(next);
    return false;
  }
  if (!rdma.shared) Access::put(next, k + 1);
  work.next[q] = k + 1;
  // Published for every quarter of the queue: the writer always finds half of it free in the end.
  if (((k + 1) & (rdma.events / 4 - 1)) == 0) Access::release(*rdma.queue[q].finished, k + 1);
  event = decode_event(e);
  return true;
}

// Next entry of a queue.
struct NextEntry {
  const contract::Event* at = nullptr;  // null: no such queue
  std::uint64_t k = 0;
  std::uint32_t lap = 0;  // when the entry is valid
};

NANET_DEVICE_CODE NextEntry next_entry(const Rdma& rdma, const RdmaWork& work, unsigned q) {
  NextEntry n;
  if (q >= rdma.queues) return n;
  n.k = work.next[q];
  n.at = &rdma.queue[q].entries[static_cast<std::uint32_t>(n.k) & (rdma.events - 1)];
  n.lap = lap_of(n.k, rdma.events);
  return n;
}

// Waits for an event of any queue. First warp. False: stopped, and no event was written before.
NANET_DEVICE_CODE bool next_event(const Rdma& rdma, RdmaWork& work, RdmaEvent& event) {
  constexpr unsigned per_lane = (max_rdma_nodes + lanes - 1) / lanes;
  NextEntry next[per_lane];  // found before the poll: nothing but the load of a lap remains in its loop
  for (unsigned i = 0; i < per_lane; ++i) next[i] = next_entry(rdma, work, i * lanes + lane());
  bool stopped = false;
  for (unsigned poll = 1;; ++poll) {
    std::uint32_t ready = 0;
    for (unsigned i = 0; i < per_lane; ++i) {
      const bool valid =
          next[i].at != nullptr &&
          contract::compare_lap(Access::acquire(next[i].at->lap), next[i].lap) != contract::Poll::nothing;
      ready |= ballot(valid) << i * lanes;
    }
    if (ready != 0) {
      const unsigned turn = work.turn;  // queues take turns
      const std::uint32_t from_turn = ready >> turn << turn;
      const unsigned q = lowest_bit(from_turn != 0 ? from_turn : ready);
      sync_warp();
      bool taken = false;
      if (lane() == q % lanes) {
        NextEntry& from = next[per_lane == 1 ? 0 : q / lanes];
        taken = take_event(rdma, work, q, from.k, *from.at, event);
        work.turn = q + 1 < rdma.queues ? q + 1 : 0;
        if (!taken) from = next_entry(rdma, work, q);
      }
      sync_warp();
      if (ballot(taken) != 0) return true;
      continue;
    }
    if (stopped) return false;
    if (poll % polls_per_stop == 0) stopped = broadcast(Access::acquire(*rdma.stopped)) != 0;
    pause_poll();
  }
}

}  // namespace detail

// First call of a block, in every kernel.
NANET_DEVICE_CODE void begin(const Rdma& rdma, RdmaWork& work) {
  if (detail::leads()) {
    work.posted = detail::Access::peek(rdma.positions->posted);
    work.done = detail::Access::acquire(*rdma.done);
    work.refused = detail::Access::acquire(*rdma.refused);
    for (unsigned q = 0; q < rdma.queues; ++q) work.next[q] = detail::Access::peek(rdma.positions->next[q]);
    work.message = work.turn = work.going = 0;
    work.too_long = false;
  }
  detail::barrier();
}

// Writes `bytes` from `from` to `offset` of a registered buffer of another node, or of this one. `from` lies
// in a registered buffer of this node and may change after quiet(), or after the event with flag `completed`.
// Flag inline_payload: at most torus::max_inline_bytes, read at once from any memory; a longer one is not
// posted, and quiet() returns false. Flags: torus::put_flag.
NANET_DEVICE_CODE void put(const Rdma& rdma, RdmaWork& work, std::uint16_t node, RdmaKey key,
                           std::uint64_t offset, const void* from, std::uint32_t bytes,
                           std::uint8_t flags = 0) {
  torus::PutDescriptor d =
      detail::describe(rdma, torus::PacketType::put, node, key, offset, from, bytes, flags);
  detail::post(rdma, work, d, from);
}

// put(), and an event put_arrived with `immediate` at the node once the data is there.
NANET_DEVICE_CODE void put_signal(const Rdma& rdma, RdmaWork& work, std::uint16_t node, RdmaKey key,
                                  std::uint64_t offset, const void* from, std::uint32_t bytes,
                                  std::uint32_t immediate, std::uint8_t flags = 0) {
  torus::PutDescriptor d = detail::describe(rdma, torus::PacketType::put, node, key, offset, from, bytes,
                                            flags | torus::put_flag::notify);
  d.immediate = immediate;
  detail::post(rdma, work, d, from);
}

// Reads `bytes` at `offset` of a registered buffer of a node into `to`, which lies in a registered buffer of
// this one. The data is there after quiet(), or after the event with flag `completed`.
NANET_DEVICE_CODE void get(const Rdma& rdma, RdmaWork& work, std::uint16_t node, RdmaKey key,
                           std::uint64_t offset, void* to, std::uint32_t bytes, std::uint8_t flags = 0) {
  torus::PutDescriptor d =
      detail::describe(rdma, torus::PacketType::get, node, key, offset, to, bytes, flags);
  detail::post(rdma, work, d, to);
}

// Waits for the next event of this node. False: the network interface has stopped, and no event is left.
NANET_DEVICE_CODE bool wait(const Rdma& rdma, RdmaWork& work, RdmaEvent& event) {
  detail::barrier();  // all threads have finished with the previous event
  if (detail::first_warp()) {
    const bool taken = detail::next_event(rdma, work, event);
    if (detail::leads()) work.going = taken;
  }
  detail::barrier();
  return work.going != 0;
}

// Waits until all operations of this block have ended: puts are in place, data of gets is here. False: since
// the block's previous call an operation of the node was refused (its event has the reason) or was not
// posted, or the network interface has stopped.
NANET_DEVICE_CODE bool quiet(const Rdma& rdma, RdmaWork& work) {
  detail::barrier();
  if (detail::leads()) {
    bool stopped = false;
    while (static_cast<std::int64_t>(work.done - work.posted) < 0 && !stopped) {
      stopped = detail::Access::acquire(*rdma.stopped) != 0;
      work.done = detail::Access::acquire(*rdma.done);
      if (work.done < work.posted) detail::pause_poll();
    }
    const std::uint64_t refused = detail::Access::acquire(*rdma.refused);
    work.going = work.done >= work.posted && refused == work.refused && !work.too_long;
    work.refused = refused;
    work.too_long = false;
  }
  detail::barrier();
  return work.going != 0;
}

}  // namespace nanet::gpu
