// SPDX-License-Identifier: Apache-2.0
// The hand-overs of the contract on the host: writing and polling events, posting descriptors, returning
// buffers. Every word has one writer; laps and return slots are released and acquired, all else is ordered by
// them (docs/formats.md, Ordering).
#pragma once

#include <atomic>
#include <cstdint>

#include "nanet/contract/layout.hpp"

namespace nanet::contract {

template <class T>
inline T acquire(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <class T>
inline void release(T& word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}
template <class T>
inline T relaxed(const T& word) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}
template <class T>
inline void relax(T& word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

// The card's end of an event queue.
class EventWriter {
 public:
  explicit EventWriter(const View& view) : view_(view), mask_(view.shape.events - 1) {}

  // Entries that can be written before an unfinished one would be overwritten.
  std::uint64_t free() const noexcept { return view_.shape.events - (next_ - acquire(*view_.finished)); }
  // Entries that are neither unfinished nor promised: what may be written without a promise.
  std::uint64_t room() const noexcept {
    const std::uint64_t entries = free();
    return entries > promised_ ? entries - promised_ : 0;
  }
  // Promises hold entries for events that must come (receive and send done of a buffer handed out); each is
  // kept by one write_promised().
  void promise(std::uint64_t entries) noexcept { promised_ += entries; }
  void write_promised(const Event& event) noexcept {
    --promised_;
    write(event);
  }
  bool less_than_half_free() const noexcept { return free() < view_.shape.events / 2; }
  std::uint64_t written() const noexcept { return next_; }

  // The caller has checked that there is room. `event.lap` is set here.
  void write(const Event& event) noexcept {
    Event& e = view_.queue[next_ & mask_];
    relax(e.type, event.type);
    relax(e.stream, event.stream);
    relax(e.flags, event.flags);
    relax(e.buffer, event.buffer);
    relax(e.bytes, event.bytes);
    relax(e.frame, event.frame);
    relax(e.time_ns, event.time_ns);
    relax(e.n, event.n);
    release(e.lap, static_cast<std::uint32_t>(next_ >> exponent(view_.shape.events)) + 1);
    ++next_;
  }

 private:
  View view_;
  std::uint64_t mask_, next_ = 0, promised_ = 0;
};

enum class Poll : std::uint8_t { nothing, event, overrun };

// Reads entry k of the queue if it is valid. `overrun`: the writer has lapped the reader, which must stop.
inline Poll poll_event(const View& view, std::uint64_t k, Event& out) noexcept {
  const Event& e = view.queue[k & (view.shape.events - 1)];
  const auto lap = static_cast<std::uint32_t>(k >> exponent(view.shape.events)) + 1;
  const auto ahead = static_cast<std::int32_t>(acquire(e.lap) - lap);
  if (ahead != 0) return ahead > 0 ? Poll::overrun : Poll::nothing;
  out.type = relaxed(e.type);
  out.stream = relaxed(e.stream);
  out.flags = relaxed(e.flags);
  out.buffer = relaxed(e.buffer);
  out.bytes = relaxed(e.bytes);
  out.frame = relaxed(e.frame);
  out.time_ns = relaxed(e.time_ns);
  out.n = relaxed(e.n);
  out.lap = lap;
  return acquire(e.lap) == lap ? Poll::event : Poll::overrun;
}

// Posts the descriptor of n: the send buffer's bytes are written before, the doorbell after.
inline void post(const View& view, std::uint64_t n, const std::byte* at, std::uint32_t bytes,
                 std::uint32_t destination = 0, std::uint32_t token = 0) noexcept {
  Descriptor& d = view.descriptor(n);
  relax(d.address, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at)));
  relax(d.bytes, bytes);
  relax(d.destination, destination);
  relax(d.token, token);
  relax(d.flags, std::uint32_t{0});
  release(d.lap, view.descriptor_lap(n));
  relax(*view.doorbell, static_cast<std::uint32_t>(n));
}

// True when the descriptor of n is posted; `out` is then a copy.
inline bool posted(const View& view, std::uint64_t n, Descriptor& out) noexcept {
  const Descriptor& d = view.descriptor(n);
  if (acquire(d.lap) != view.descriptor_lap(n)) return false;
  out.address = relaxed(d.address);
  out.bytes = relaxed(d.bytes);
  out.destination = relaxed(d.destination);
  out.token = relaxed(d.token);
  return true;
}

// Hands the buffer of n back to the card; the consumer neither reads the buffer nor writes its send buffer
// afterwards.
inline void return_buffer(const View& view, std::uint64_t n) noexcept {
  release(view.returned[view.buffer_of(n)], static_cast<std::uint32_t>(n + 1));
}

// The 64-bit n of an event, from its low word and any n known to be within 2^31 of it.
NANET_HD inline std::uint64_t unwrap_counter(std::uint32_t low, std::uint64_t reference) noexcept {
  return reference + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                         static_cast<std::int32_t>(low - static_cast<std::uint32_t>(reference))));
}

}  // namespace nanet::contract
