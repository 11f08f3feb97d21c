// SPDX-License-Identifier: Apache-2.0
// Blocks of the RDMA benchmark: exchange of messages with checked data, and puts in a row. For kernels and
// threads.
#pragma once

#include "nanet/gpu/rdma.hpp"
#include "nanet/gpu/rdma/emulated_card.hpp"

namespace nanet::bench {

struct Exchange {
  gpu::RdmaKey key = 0;  // target at the other node: two messages, `stride` bytes apart
  std::uint16_t other = 0;
  bool first = false;         // begins each round and measures
  std::byte* from = nullptr;  // two messages
  const std::byte* to = nullptr;
  std::byte* staged_from = nullptr;  // GPU memory behind `from` and `to`; null: none
  std::byte* staged_to = nullptr;
  std::uint32_t bytes = 0, stride = 0;
  std::uint32_t rounds = 0;
  std::uint64_t* ticks = nullptr;   // of each round
  std::uint64_t* result = nullptr;  // ns of all rounds, ticks of all rounds, wrong messages
};

struct ExchangeWork {
  gpu::RdmaWork work;
  gpu::RdmaEvent event;
};

#ifdef __CUDACC__
NANET_DEVICE_CODE std::uint64_t exchange_ticks() {
  return static_cast<std::uint64_t>(clock64());
}
#else
inline std::uint64_t exchange_ticks() {
  return static_cast<std::uint64_t>(gpu::detail::card_time());
}
#endif

// Ends of a message are aligned to 8 B: single accesses, as a user's kernel makes them.
NANET_DEVICE_CODE void mark(std::byte* message, std::uint32_t bytes, std::uint64_t value) {
  std::memcpy(__builtin_assume_aligned(message, 8), &value, sizeof value);
  std::memcpy(__builtin_assume_aligned(message + bytes - sizeof value, 8), &value, sizeof value);
}
NANET_DEVICE_CODE bool is_marked(const std::byte* message, std::uint32_t bytes, std::uint64_t value) {
  std::uint64_t begin = 0, end = 0;
  std::memcpy(&begin, __builtin_assume_aligned(message, 8), sizeof begin);
  std::memcpy(&end, __builtin_assume_aligned(message + bytes - sizeof end, 8), sizeof end);
  return begin == value && end == value;
}

// Messages of at least 8 B, a multiple of 8, marked at both ends with the number of the round.
NANET_DEVICE_CODE void exchange(const gpu::Rdma& rdma, ExchangeWork& w, const Exchange& x) {
  namespace detail = gpu::detail;
  gpu::begin(rdma, w.work);
  const unsigned thread = detail::thread_of_block(), threads = detail::threads_of_block();
  std::uint64_t wrong = 0;
  const auto send = [&](std::uint32_t round) {
    const std::uint32_t at = round % 2 * x.stride;
    std::byte* const source = (x.staged_from != nullptr ? x.staged_from : x.from) + at;
    if (detail::leads()) mark(source, x.bytes, round);
    if (x.staged_from != nullptr) {
      detail::barrier();
      detail::copy_bytes(x.from + at, source, x.bytes, thread, threads);
    }
    gpu::put_signal(rdma, w.work, x.other, x.key, at, x.from + at, x.bytes, round);
  };
  const auto receive = [&](std::uint32_t round) {
    if (!gpu::wait(rdma, w.work, w.event)) return false;
    if (x.staged_to != nullptr) {
      const std::uint32_t at = round % 2 * x.stride;
      detail::copy_bytes(x.staged_to + at, x.to + at, x.bytes, thread, threads);
      detail::barrier();
    }
    return true;
  };
  const auto check = [&](std::uint32_t round) {
    if (!detail::leads()) return;
    const std::byte* const at = (x.staged_to != nullptr ? x.staged_to : x.to) + round % 2 * x.stride;
    wrong += w.event.type != torus::EventType::put_arrived || w.event.immediate != round ||
             !is_marked(at, x.bytes, round);
  };
  const std::int64_t began = detail::card_time();
  const std::uint64_t first_tick = exchange_ticks();
  for (std::uint32_t round = 1; round <= x.rounds; ++round) {
    if (x.first) {
      const std::uint64_t before = exchange_ticks();
      send(round);
      if (!receive(round)) break;
      if (detail::leads()) x.ticks[round - 1] = exchange_ticks() - before;
      check(round);
    } else {
      if (!receive(round)) break;
      send(round);
      check(round);
    }
  }
  if (detail::leads()) {
    x.result[0] = static_cast<std::uint64_t>(detail::card_time() - began);
    x.result[1] = exchange_ticks() - first_tick;
    x.result[2] = wrong;
  }
  gpu::quiet(rdma, w.work);
}

// Posts `puts` transfers and waits for their end. result: ns, 0, 1 if one was refused.
NANET_DEVICE_CODE void put_in_a_row(const gpu::Rdma& rdma, ExchangeWork& w, const Exchange& x) {
  namespace detail = gpu::detail;
  gpu::begin(rdma, w.work);
  const std::int64_t began = detail::card_time();
  for (std::uint32_t i = 0; i < x.rounds; ++i) gpu::put(rdma, w.work, x.other, x.key, 0, x.from, x.bytes);
  const bool fine = gpu::quiet(rdma, w.work);
  if (detail::leads()) {
    x.result[0] = static_cast<std::uint64_t>(detail::card_time() - began);
    x.result[1] = 0;
    x.result[2] = fine ? 0 : 1;
  }
}

}  // namespace nanet::bench
