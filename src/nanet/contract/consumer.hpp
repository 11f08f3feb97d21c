// SPDX-License-Identifier: Apache-2.0
// Consumer side of the memory contract: claims and reads events, posts descriptors, returns buffers, finishes
// entries. One protocol for host threads (HostAccess) and GPU code (DeviceAccess). Lap words and return slots
// are released and acquired; they order all other words (docs/formats.md, Ordering).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "nanet/contract/layout.hpp"

#ifdef __CUDACC__
#include "nanet/contract/device_access.cuh"
// For host and device functions that call device-only functions.
#define NANET_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define NANET_NO_EXEC_CHECK
#endif

namespace nanet::contract {

enum class Poll : std::uint8_t { nothing, event, overrun };

// Memory access of host threads. acquire, release, relaxed, relax: words shared with the card. mark, marked,
// exchange, fetch_add, peek, put: words shared by the threads of the consumer.
struct HostAccess {
  template <class T>
  static T acquire(const T& word) noexcept {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
  }
  template <class T>
  static void release(T& word, T value) noexcept {
    std::atomic_ref<T>(word).store(value, std::memory_order_release);
  }
  template <class T>
  static T relaxed(const T& word) noexcept {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
  }
  template <class T>
  static void relax(T& word, T value) noexcept {
    std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
  }
  static void read(const Event& from, Event& out) noexcept {
    out.type = relaxed(from.type);
    out.stream = relaxed(from.stream);
    out.flags = relaxed(from.flags);
    out.buffer = relaxed(from.buffer);
    out.bytes = relaxed(from.bytes);
    out.frame = relaxed(from.frame);
    out.time_ns = relaxed(from.time_ns);
    out.n = relaxed(from.n);
  }
  static void write(Descriptor& d, std::uint64_t address, std::uint32_t bytes, std::uint32_t destination,
                    std::uint32_t token) noexcept {
    relax(d.address, address);
    relax(d.bytes, bytes);
    relax(d.destination, destination);
    relax(d.token, token);
    relax(d.flags, std::uint32_t{0});
  }

  template <class T>
  static T peek(const T& word) noexcept {
    return relaxed(word);
  }
  template <class T>
  static void put(T& word, T value) noexcept {
    relax(word, value);
  }
  static std::uint64_t fetch_add(std::uint64_t& word, std::uint64_t value) noexcept {
    return std::atomic_ref(word).fetch_add(value, std::memory_order_relaxed);
  }
  // Sequentially consistent, see finish_entry().
  static void mark(std::uint32_t& word, std::uint32_t value) noexcept { std::atomic_ref(word).store(value); }
  static std::uint32_t marked(const std::uint32_t& word) noexcept {
    return std::atomic_ref(const_cast<std::uint32_t&>(word)).load();
  }
  static std::uint32_t exchange(std::uint32_t& word, std::uint32_t value) noexcept {
    return std::atomic_ref(word).exchange(value);
  }
  static void fence() noexcept {}
};

#ifdef __CUDACC__

// Memory access of GPU threads: system scope for words shared with the card, device scope for words of the
// consumer.
struct DeviceAccess {
  template <class T>
  __device__ static T acquire(const T& word) {
    return load_acquire_system(&word);
  }
  template <class T>
  __device__ static void release(T& word, T value) {
    store_release_system(&word, value);
  }
  template <class T>
  __device__ static T relaxed(const T& word) {
    return load_relaxed_system(&word);
  }
  template <class T>
  __device__ static void relax(T& word, T value) {
    store_relaxed_system(&word, value);
  }
  // Two loads of 16 B: two PCIe reads in flight at a time.
  __device__ static void read(const Event& from, Event& out) {
    const auto* const halves = reinterpret_cast<const Sixteen*>(&from);
    const Sixteen low = load_relaxed_system(halves), high = load_relaxed_system(halves + 1);
    auto* const to = reinterpret_cast<std::byte*>(&out);
    std::memcpy(to, &low, sizeof low);
    std::memcpy(to + sizeof low, &high, sizeof high);
  }
  // Two stores, 16 B and 8 B: ordered by the release of the lap.
  __device__ static void write(Descriptor& d, std::uint64_t address, std::uint32_t bytes,
                               std::uint32_t destination, std::uint32_t token) {
    __stcg(reinterpret_cast<uint4*>(&d),
           make_uint4(static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32), bytes,
                      destination));
    __stcg(reinterpret_cast<uint2*>(&d) + 2, make_uint2(token, 0));
  }

  template <class T>
  __device__ static T peek(const T& word) {
    return load_relaxed_device(&word);
  }
  template <class T>
  __device__ static void put(T& word, T value) {
    store_relaxed_device(&word, value);
  }
  __device__ static std::uint64_t fetch_add(std::uint64_t& word, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(&word), static_cast<unsigned long long>(value));
  }
  __device__ static void mark(std::uint32_t& word, std::uint32_t value) {
    store_release_device(&word, value);
  }
  __device__ static std::uint32_t marked(const std::uint32_t& word) { return load_acquire_device(&word); }
  __device__ static std::uint32_t exchange(std::uint32_t& word, std::uint32_t value) {
    return atomicExch(&word, value);
  }
  __device__ static void fence() { __threadfence(); }
};

#endif

// The 64-bit n of an event, from its low word and any n within 2^31 of it.
NANET_HD inline std::uint64_t unwrap_counter(std::uint32_t low, std::uint64_t reference) noexcept {
  return reference + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                         static_cast<std::int32_t>(low - static_cast<std::uint32_t>(reference))));
}

// Position of entry k in the queue, and its lap.
NANET_HD inline std::uint32_t entry_index(const Shape& shape, std::uint64_t k) noexcept {
  return static_cast<std::uint32_t>(k) & (shape.events - 1);
}
NANET_HD inline std::uint32_t entry_lap(const Shape& shape, std::uint64_t k) noexcept {
  return static_cast<std::uint32_t>(k >> exponent(shape.events)) + 1;
}
// overrun: the card has lapped the reader, which must stop.
NANET_HD inline Poll compare_lap(std::uint32_t seen, std::uint32_t expected) noexcept {
  const auto ahead = static_cast<std::int32_t>(seen - expected);
  return ahead == 0 ? Poll::event : ahead > 0 ? Poll::overrun : Poll::nothing;
}

// Memory: View, or a structure of device pointers with the same members.

// Reads entry k if it is valid.
NANET_NO_EXEC_CHECK
template <class Access = HostAccess, class Memory>
NANET_HD inline Poll poll_event(const Memory& memory, std::uint64_t k, Event& out) noexcept {
  const Event& e = memory.queue[entry_index(memory.shape, k)];
  const std::uint32_t lap = entry_lap(memory.shape, k);
  if (const Poll found = compare_lap(Access::acquire(e.lap), lap); found != Poll::event) return found;
  Access::read(e, out);
  out.lap = lap;
  return Access::acquire(e.lap) == lap ? Poll::event : Poll::overrun;  // overrun: overwritten during the read
}

// Waits for an entry. nothing: stopping, and the entry was not written before the stop. stopping() is
// evaluated before read(), so entries written before the stop are found.
NANET_NO_EXEC_CHECK
template <class Stopping, class Read, class Idle>
NANET_HD inline Poll wait_for_entry(const Stopping& stopping, const Read& read, const Idle& idle) {
  for (;;) {
    const bool stop = stopping();
    const Poll found = read();
    if (found != Poll::nothing || stop) return found;
    idle();
  }
}

// Posts the descriptor of n. The bytes of the send buffer must be written before.
NANET_NO_EXEC_CHECK
template <class Access, class Memory>
NANET_HD inline void post_descriptor(const Memory& memory, std::uint64_t n, std::uint64_t address,
                                     std::uint32_t bytes, std::uint32_t destination,
                                     std::uint32_t token) noexcept {
  const unsigned devices = exponent(memory.shape.devices), entries = exponent(memory.shape.descriptors);
  Descriptor& d = memory.ring[static_cast<std::uint32_t>(n >> devices) & (memory.shape.descriptors - 1)];
  Access::write(d, address, bytes, destination, token);
  Access::release(d.lap, static_cast<std::uint32_t>(n >> (devices + entries)) + 1);
  Access::relax(*memory.doorbell, static_cast<std::uint32_t>(n));
}
inline void post(const View& view, std::uint64_t n, const std::byte* at, std::uint32_t bytes,
                 std::uint32_t destination = 0, std::uint32_t token = 0) noexcept {
  post_descriptor<HostAccess>(view, n, reinterpret_cast<std::uintptr_t>(at), bytes, destination, token);
}

// Returns the buffer of n, at index `buffer`, to the card. The consumer no longer reads the buffer or writes
// its send buffer.
NANET_NO_EXEC_CHECK
template <class Access, class Memory>
NANET_HD inline void return_buffer(const Memory& memory, std::uint64_t n, std::uint32_t buffer) noexcept {
  Access::release(memory.returned[buffer], static_cast<std::uint32_t>(n + 1));
}
inline void return_buffer(const View& view, std::uint64_t n) noexcept {
  return_buffer<HostAccess>(view, n, view.buffer_of(n));
}

// One reader that takes entries in order.
class OrderedReader {
 public:
  explicit OrderedReader(const View& view, std::uint64_t next = 0, std::uint64_t reference = 0)
      : view_(view), next_(next), reference_(reference) {}

  // Takes the next entry, if available.
  Poll poll(Event& out) noexcept {
    const Poll found = poll_event(view_, next_, out);
    if (found == Poll::event) {
      ++next_;
      reference_ = unwrap_counter(out.n, reference_);
    }
    return found;
  }
  // Number of the last event taken.
  std::uint64_t n() const noexcept { return reference_; }
  // Full number of an event taken recently.
  std::uint64_t number(const Event& event) const noexcept { return unwrap_counter(event.n, reference_); }
  std::uint64_t next() const noexcept { return next_; }
  void seek(std::uint64_t next) noexcept { next_ = next; }
  const View& view() const noexcept { return view_; }
  // Finishes all entries taken.
  void finish() noexcept { finish_before(next_); }
  void finish_before(std::uint64_t k) noexcept { HostAccess::release(*view_.finished, k); }

 private:
  View view_;
  std::uint64_t next_, reference_;
};

// State of several readers of one queue.
struct SharedReader {
  std::uint64_t claimed = 0;    // entries taken by readers
  std::uint64_t finished = 0;   // all entries below are finished
  std::uint64_t reference = 0;  // n of a recent event
  std::uint32_t lock = 0;       // protects `finished`
  std::uint32_t overrun = 0;    // the card has lapped a reader
  std::uint32_t merged = 0;     // a reader of segments has met a merged buffer
};

// done: lap of each finished entry, shape.events words.
NANET_NO_EXEC_CHECK
template <class Access, class Memory>
NANET_HD inline bool entry_finished(const Memory& memory, const std::uint32_t* done,
                                    std::uint64_t k) noexcept {
  return Access::marked(done[entry_index(memory.shape, k)]) == entry_lap(memory.shape, k);
}

// Finishes entry k; entries finish in any order. The lock holder publishes the run of finished entries. A
// reader that finds the lock taken returns. The holder checks again after releasing the lock; the order of
// mark, exchange and check guarantees that it finds the mark.
NANET_NO_EXEC_CHECK
template <class Access, class Memory>
NANET_HD inline void finish_entry(const Memory& memory, SharedReader& state, std::uint32_t* done,
                                  std::uint64_t k) noexcept {
  Access::mark(done[entry_index(memory.shape, k)], entry_lap(memory.shape, k));
  for (;;) {
    Access::fence();
    if (Access::exchange(state.lock, 1)) return;
    Access::fence();
    const std::uint64_t before = Access::peek(state.finished);
    std::uint64_t next = before;
    while (entry_finished<Access>(memory, done, next)) ++next;
    if (next != before) {
      Access::put(state.finished, next);
      Access::release(*memory.finished, next);
    }
    Access::fence();
    Access::exchange(state.lock, 0);
    Access::fence();
    if (!entry_finished<Access>(memory, done, next)) return;
  }
}

// Claims the next unfinished entry and waits for it; n: number of its event. read(k, event): reads entry k,
// as poll_event(). On any result other than `event` the reader must stop.
NANET_NO_EXEC_CHECK
template <class Access, class Memory, class Read, class Stopping, class Idle>
NANET_HD inline Poll take_entry_by(const Memory& memory, SharedReader& state, const std::uint32_t* done,
                                   const Read& read, const Stopping& stopping, const Idle& idle,
                                   std::uint64_t& k, Event& event, std::uint64_t& n) {
  do k = Access::fetch_add(state.claimed, 1);
  while (entry_finished<Access>(memory, done, k));  // finished before a restart
  const Poll found = wait_for_entry([&] { return stopping() || Access::peek(state.overrun); },
                                    [&] { return read(k, event); }, idle);
  if (found == Poll::overrun) Access::put(state.overrun, std::uint32_t{1});
  if (found != Poll::event) return found;
  // Entries in flight span far less than 2^31 numbers: any recent n is a reference.
  n = unwrap_counter(event.n, Access::peek(state.reference));
  Access::put(state.reference, n);
  return found;
}
// The same, from the event queue.
NANET_NO_EXEC_CHECK
template <class Access, class Memory, class Stopping, class Idle>
NANET_HD inline Poll take_entry(const Memory& memory, SharedReader& state, const std::uint32_t* done,
                                const Stopping& stopping, const Idle& idle, std::uint64_t& k, Event& event,
                                std::uint64_t& n) {
  return take_entry_by<Access>(
      memory, state, done,
      [&](std::uint64_t entry, Event& out) { return poll_event<Access>(memory, entry, out); }, stopping, idle,
      k, event, n);
}

}  // namespace nanet::contract
