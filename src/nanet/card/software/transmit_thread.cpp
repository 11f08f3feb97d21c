// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/transmit_thread.hpp"

#include <algorithm>
#include <cstring>

#include "nanet/card/card.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {

TransmitThread::TransmitThread(std::unique_ptr<Transmit> inner, int cpu, stats::PollingStops* stops)
    : inner_(std::move(inner)), stops_(stops), ring_(entries) {
  thread_ = std::jthread([this] { run(); });
  try {
    if (cpu >= 0) os::pin_thread(thread_.native_handle(), cpu);
  } catch (...) {
    ending_ = true;
    throw;
  }
}
TransmitThread::~TransmitThread() {
  ending_.store(true, std::memory_order_release);
}

std::size_t TransmitThread::send(std::span<const Datagram> batch) noexcept {
  const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  const std::size_t free = entries - static_cast<std::size_t>(taken - sent_.load(std::memory_order_acquire));
  const std::size_t count = std::min(batch.size(), free);
  for (std::size_t i = 0; i < count; ++i) {
    Entry& e = ring_[(taken + i) % entries];
    e.bytes = std::min<std::uint32_t>(batch[i].bytes, room);
    e.destination = batch[i].destination;
    std::memcpy(e.data.data(), batch[i].data, e.bytes);
  }
  taken_.store(taken + count, std::memory_order_release);
  // Prefetches for the next answer of likely equal length: the sending thread has last read this entry.
  if (count) {
    const auto* next = reinterpret_cast<const std::byte*>(&ring_[(taken + count) % entries]);
    for (std::size_t i = 0; i < batch[count - 1].bytes; i += 64) __builtin_prefetch(next + i, 1);
  }
  return count;
}

void TransmitThread::run() noexcept {
  std::array<Datagram, 64> batch;
  Nanoseconds until = 0;  // give-up time, once the thread is ending
  for (std::uint64_t sent = 0;;) {
    const bool ending = ending_.load(std::memory_order_acquire);
    const std::uint64_t there = taken_.load(std::memory_order_acquire) - sent;
    if (ending) {
      if (until == 0) until = os::monotonic_now() + 1'000'000'000;
      if (there == 0 || os::monotonic_now() > until) return;
    }
    if (there == 0) {
      os::spin();
      if (stops_) stops_->time(os::monotonic_now());
      continue;
    }
    const std::size_t count = std::min<std::size_t>(there, batch.size());
    if (stops_) {
      // A stop shows in a backlog: it ends here, before the work that it has left.
      if (there > stats::PollingStops::most_work) stops_->time(os::monotonic_now());
      stops_->worked(count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& e = ring_[(sent + i) % entries];
      batch[i] = {e.data.data(), e.bytes, e.destination};
    }
    sent += inner_->send({batch.data(), count});
    sent_.store(sent, std::memory_order_release);
  }
}

}  // namespace nanet::card
