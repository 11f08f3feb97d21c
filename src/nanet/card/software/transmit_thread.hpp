// SPDX-License-Identifier: Apache-2.0
// Transmit thread: sends from a separate thread, so that the card's thread does not wait for the kernel. It
// copies: a send buffer may be reused as soon as the card has passed its number.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "nanet/card/transmit.hpp"
#include "nanet/stats/polling_stops.hpp"

namespace nanet::card {

class TransmitThread final : public Transmit {
 public:
  // cpu: core of the thread, or -1; it never sleeps. stops: its record, or nullptr. Throws std::system_error
  // (no such core).
  TransmitThread(std::unique_ptr<Transmit> inner, int cpu, stats::PollingStops* stops = nullptr);
  // Sends the datagrams it has taken, for at most one second.
  ~TransmitThread() override;

  // Takes as many datagrams as fit. Called from one thread.
  std::size_t send(std::span<const Datagram> batch) noexcept override;
  std::uint32_t destinations() const noexcept override { return inner_->destinations(); }

 private:
  static constexpr std::size_t entries = 256, room = 2048;  // half a megabyte: stays in the caches
  struct Entry {
    std::uint32_t bytes, destination;
    std::array<std::byte, room> data;
  };
  void run() noexcept;

  std::unique_ptr<Transmit> inner_;
  stats::PollingStops* stops_;
  std::vector<Entry> ring_;
  alignas(64) std::atomic<std::uint64_t> taken_{0};
  alignas(64) std::atomic<std::uint64_t> sent_{0};
  std::atomic<bool> ending_{false};
  std::jthread thread_;
};

}  // namespace nanet::card
