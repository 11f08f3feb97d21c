// SPDX-License-Identifier: Apache-2.0
// Memory access of an emulated RDMA card (emulated_card.hpp): time, fences, descriptors, events, copies; for
// a block of GPU threads and for a host thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/gpu/device_code.hpp"
#include "nanet/torus/rings.hpp"
#ifndef __CUDACC__
#include "nanet/os/clock.hpp"
#endif

namespace nanet::gpu::detail {

#ifdef __CUDACC__

NANET_DEVICE_CODE std::int64_t card_time() {
  return contract::device_time();
}
// Orders all stores before, of every thread that a barrier orders before the caller.
NANET_DEVICE_CODE void card_fence(bool far) {
  if (far)
    fence_system();
  else
    fence_device();
}
// After card_fence().
template <class T>
NANET_DEVICE_CODE void publish(T& word, T value) {
  contract::store_relaxed_system(&word, value);
}
NANET_DEVICE_CODE std::uint32_t acquire_lap(const std::uint32_t& lap) {
  return contract::load_acquire_device(&lap);  // blocks of the same GPU
}
NANET_DEVICE_CODE void read_descriptor(const torus::PutDescriptor& from, torus::PutDescriptor& to) {
  if (lane() < 3)  // the rest is the lap
    reinterpret_cast<contract::Sixteen*>(&to)[lane()] =
        contract::load_relaxed_device(reinterpret_cast<const contract::Sixteen*>(&from) + lane());
  sync_warp();
}
// Copy in registers, by three loads of 16 B. It does not live across calls, which would move it to the stack.
NANET_DEVICE_CODE torus::PutDescriptor in_registers(const torus::PutDescriptor& shared) {
  const auto* const units = reinterpret_cast<const ulonglong2*>(&shared);
  const ulonglong2 addresses = units[0], transfer = units[1], message = units[2];
  torus::PutDescriptor d;
  d.local_address = addresses.x;
  d.remote_address = addresses.y;
  d.bytes = static_cast<std::uint32_t>(transfer.x);
  d.remote_domain = static_cast<std::uint16_t>(transfer.x >> 32);
  d.local_domain = static_cast<std::uint16_t>(transfer.x >> 48);
  d.node = static_cast<std::uint16_t>(transfer.y);
  d.port = static_cast<std::uint8_t>(transfer.y >> 16);
  d.type = static_cast<std::uint8_t>(transfer.y >> 24);
  d.flags = static_cast<std::uint8_t>(transfer.y >> 32);
  d.message = static_cast<std::uint32_t>(message.x);
  d.immediate = static_cast<std::uint32_t>(message.x >> 32);
  return d;
}
// First half of an entry; before card_fence().
NANET_DEVICE_CODE void write_event(contract::Event& to, const contract::Event& e) {
  contract::store_relaxed_system(
      reinterpret_cast<contract::Sixteen*>(&to),
      contract::Sixteen{e.type | std::uint32_t{e.stream} << 8 | std::uint32_t{e.flags} << 16 |
                            std::uint64_t{e.buffer} << 32,
                        e.bytes | std::uint64_t{e.frame} << 32});
}
// Second half, with the lap, in one store; after card_fence().
NANET_DEVICE_CODE void publish_event(contract::Event& to, const contract::Event& e, std::uint32_t lap) {
  contract::store_relaxed_system(reinterpret_cast<contract::Sixteen*>(&to) + 1,
                                 contract::Sixteen{e.time_ns, std::uint64_t{lap} << 32 | e.n});
}

// By `threads` threads; eight loads of each are in flight.
template <class Unit>
NANET_DEVICE_CODE void copy_units(std::byte* to, const std::byte* from, std::uint32_t units, unsigned thread,
                                  unsigned threads) {
  constexpr unsigned in_flight = 8;
  const auto* const source = reinterpret_cast<const Unit*>(from);
  auto* const target = reinterpret_cast<Unit*>(to);
  Unit value[in_flight];
  std::uint32_t first = thread;
  for (; first + (in_flight - 1) * threads < units; first += in_flight * threads) {
#pragma unroll
    for (unsigned i = 0; i < in_flight; ++i) value[i] = __ldcv(source + first + i * threads);
#pragma unroll
    for (unsigned i = 0; i < in_flight; ++i) target[first + i * threads] = value[i];
  }
#pragma unroll
  for (unsigned i = 0; i < in_flight; ++i)
    if (first + i * threads < units) value[i] = __ldcv(source + first + i * threads);
#pragma unroll
  for (unsigned i = 0; i < in_flight; ++i)
    if (first + i * threads < units) target[first + i * threads] = value[i];
}
// In the largest units that both addresses allow.
NANET_DEVICE_CALL void copy_bytes(std::byte* to, const std::byte* from, std::uint32_t bytes, unsigned thread,
                                  unsigned threads) {
  const auto apart = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) ^
                                                reinterpret_cast<std::uintptr_t>(from));
  const unsigned unit = (apart & 15) == 0 ? 16 : (apart & 7) == 0 ? 8 : (apart & 3) == 0 ? 4 : 1;
  std::uint32_t head =
      (unit - (static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to)) & (unit - 1))) & (unit - 1);
  if (head > bytes) head = bytes;
  const std::uint32_t units = (bytes - head) / unit, tail = head + units * unit;
  const auto single = [&](std::uint32_t i) {
    to[i] = static_cast<std::byte>(__ldcv(reinterpret_cast<const unsigned char*>(from + i)));
  };
  for (std::uint32_t i = thread; i < head; i += threads) single(i);
  if (unit == 16)
    copy_units<uint4>(to + head, from + head, units, thread, threads);
  else if (unit == 8)
    copy_units<uint2>(to + head, from + head, units, thread, threads);
  else if (unit == 4)
    copy_units<unsigned>(to + head, from + head, units, thread, threads);
  else
    copy_units<unsigned char>(to + head, from + head, units, thread, threads);
  for (std::uint32_t i = tail + thread; i < bytes; i += threads) single(i);
}
NANET_DEVICE_CALL void copy_aligned(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  copy_units<uint4>(to, from, bytes / sizeof(uint4), lane(), lanes);
}
// By one warp; few instructions for short messages and for aligned ones.
NANET_DEVICE_CODE void copy_by_warp(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  const std::uint32_t all = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to)) |
                            static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from)) | bytes;
  if ((all & 7) == 0 && bytes <= lanes * sizeof(uint2)) {
    const unsigned i = lane();
    if (i * sizeof(uint2) < bytes)
      reinterpret_cast<uint2*>(to)[i] = __ldcv(reinterpret_cast<const uint2*>(from) + i);
  } else if ((all & 15) == 0) {
    copy_aligned(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes, lane(), lanes);
  }
}
NANET_DEVICE_CODE unsigned thread_of_block() {
  return threadIdx.x;
}
NANET_DEVICE_CODE unsigned threads_of_block() {
  return blockDim.x;
}

#else

inline std::int64_t card_time() {
  return os::monotonic_now();
}
inline void card_fence(bool) {}
template <class T>
inline void publish(T& word, T value) {
  contract::HostAccess::release(word, value);
}
inline std::uint32_t acquire_lap(const std::uint32_t& lap) {
  return contract::HostAccess::acquire(lap);
}
inline void read_descriptor(const torus::PutDescriptor& from, torus::PutDescriptor& to) {
  std::memcpy(static_cast<void*>(&to), &from, offsetof(torus::PutDescriptor, lap));
}
inline const torus::PutDescriptor& in_registers(const torus::PutDescriptor& d) {
  return d;
}
inline void write_event(contract::Event& to, const contract::Event& e) {
  using contract::HostAccess;
  HostAccess::relax(to.type, e.type);
  HostAccess::relax(to.stream, e.stream);
  HostAccess::relax(to.flags, e.flags);
  HostAccess::relax(to.buffer, e.buffer);
  HostAccess::relax(to.bytes, e.bytes);
  HostAccess::relax(to.frame, e.frame);
  HostAccess::relax(to.time_ns, e.time_ns);
  HostAccess::relax(to.n, e.n);
}
inline void publish_event(contract::Event& to, const contract::Event&, std::uint32_t lap) {
  contract::HostAccess::release(to.lap, lap);
}
inline void copy_bytes(std::byte* to, const std::byte* from, std::uint32_t bytes, unsigned, unsigned) {
  if (bytes != 0) std::memmove(to, from, bytes);
}
inline void copy_by_warp(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  copy_bytes(to, from, bytes, 0, 1);
}
inline unsigned thread_of_block() {
  return 0;
}
inline unsigned threads_of_block() {
  return 1;
}

#endif

}  // namespace nanet::gpu::detail
