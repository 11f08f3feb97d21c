// SPDX-License-Identifier: Apache-2.0
// Recorder of raw packets of a running trigger. The receiving thread copies packets to a bounded ring. A
// writer thread stores them in captures; packets that find the ring full are counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "nanet/card/counters.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::trigger {

struct RecordOptions {
  std::string folder;                              // created if missing
  std::uint64_t file_bytes = 256ull << 20;         // a file is closed at this size and at the end of a burst
  std::uint64_t limit_bytes = 4096ull << 20;       // total of all files, including earlier runs
  std::size_t ring_bytes = std::size_t{64} << 20;  // a power of two
  wire::Endpoint to;                               // destination in the headers of the captures
};

class Recorder final : public card::PacketObserver {
 public:
  // Throws std::system_error if the folder or its first file cannot be created.
  explicit Recorder(const RecordOptions& options);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Called in the receiving thread.
  void packet(std::span<const std::byte> datagram, bool refused, Nanoseconds stamp) noexcept override;
  void burst_began(std::uint32_t number) noexcept;

  // Writes the rest of the ring and ends the thread; no packet may follow.
  void stop() noexcept;
  // Error of the last write attempt; empty: none. Thread-safe.
  std::string trouble() const;

  // packets and bad_packets are on disk; ring_full and write_failed are not. After stop() every packet is in
  // one of them.
#define NANET_LINE(name, metric, text) stats::Counter name;
  NANET_RECORD_COUNTERS(NANET_LINE)
#undef NANET_LINE

 private:
  class Ring;
  class Series;
  void run() noexcept;
  bool write_some() noexcept;

  RecordOptions options_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Series> good_, bad_;
  std::atomic<bool> ending_{false};
  std::jthread thread_;
};

}  // namespace nanet::trigger
