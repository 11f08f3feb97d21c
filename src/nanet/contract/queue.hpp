// SPDX-License-Identifier: Apache-2.0
// Consumer side of the memory contract on the host: polls events, posts descriptors, returns buffers. Lap
// words and return slots are released and acquired; they order all other words (docs/formats.md, Ordering).
#pragma once

#include <cstdint>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/layout.hpp"

namespace nanet::contract {

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
