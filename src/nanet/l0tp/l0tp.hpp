// SPDX-License-Identifier: Apache-2.0
// Emulated L0 trigger processor: receives, aligns and checks primitive packets. Compares them with the truth
// and measures their latency after the frame's packets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "nanet/card/counters.hpp"
#include "nanet/l0tp/aligner.hpp"
#include "nanet/l0tp/pairing.hpp"
#include "nanet/l0tp/truth_table.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/readout/times_file.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::l0tp {

struct L0tpCounters {
  stats::Counter packets, bytes, frames, frames_missing, frames_late, bursts, duplicates, out_of_order;
  stats::Counter primitives, calibration, expected, paired, socket_overflow, latency_unknown;
  std::array<stats::Counter, wire::mtp::refusal_count> bad;
  std::array<stats::Counter, static_cast<std::size_t>(Unpaired::count)> unpaired;
  std::array<stats::Counter, static_cast<std::size_t>(Unexpected::count)> unexpected;
  std::array<stats::Counter, 4> rings;             // primitives by number of rings; the last: three or more
  stats::Counter first_packet_ns, last_packet_ns;  // CLOCK_MONOTONIC
};

// Packet check, independent of the packet source.
class PacketCheck {
 public:
  // `truth` and `times` may be null. `burst_frames`: see Aligner.
  PacketCheck(const TruthTable* truth, readout::TimesReader* times, Frame burst_frames,
              std::uint8_t source = rich_source);

  // Checks one datagram received at `arrival` (CLOCK_MONOTONIC).
  void packet(std::span<const std::byte> datagram, Nanoseconds arrival) noexcept;
  // Settles pending frames; no packet may follow.
  void finish() noexcept;
  // Copies the counts of aligner and pairing to counters(). Call after each batch.
  void publish() noexcept;

  L0tpCounters& counters() noexcept { return counters_; }
  const L0tpCounters& counters() const noexcept { return counters_; }
  const stats::Histogram& from_first() const noexcept { return from_first_; }
  const stats::Histogram& from_last() const noexcept { return from_last_; }

 private:
  void measure(Frame frame, Nanoseconds arrival) noexcept;

  const TruthTable* truth_;
  readout::TimesReader* times_;
  std::uint8_t source_;
  Aligner aligner_;
  Pairing pairing_;
  L0tpCounters counters_;
  stats::Histogram from_first_, from_last_;
  std::array<wire::mtp::TimedPrimitive, wire::mtp::max_primitives> primitives_;
};

struct L0tpOptions {
  wire::Endpoint listen{0x7F000001, 58914};
  int buffer_bytes = 32 << 20;
  bool kernel_stamps = true;  // arrival from kernel time stamps; otherwise the clock read after the batch
  bool busy = false;          // poll without sleeping
  double duration_s = 0;      // from the start; 0: no limit
  double idle_s = 0;          // after the last packet; 0: no limit
  std::string times;          // --times file; may be created later
  std::shared_ptr<const TruthTable> truth;
  Frame burst_frames = 0;  // frames per burst, if known
};

class L0tp {
 public:
  // Opens the socket. Throws std::system_error with a full sentence (port in use, no permission).
  explicit L0tp(const L0tpOptions& options);
  ~L0tp();

  void start();  // starts the receiving thread
  void request_stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
  bool running() const noexcept { return running_.load(std::memory_order_acquire); }
  void join();

  const PacketCheck& check() const noexcept { return check_; }
  wire::Endpoint endpoint() const noexcept { return endpoint_; }
  int buffer_granted() const noexcept { return buffer_granted_; }
  double elapsed_s() const noexcept;  // from the first packet to the last
  const L0tpOptions& options() const noexcept { return options_; }

 private:
  struct Batch;
  void run();
  unsigned receive(Batch& batch) noexcept;

  L0tpOptions options_;
  os::Fd socket_;
  wire::Endpoint endpoint_;
  int buffer_granted_ = 0;
  std::optional<readout::TimesReader> times_;
  os::ClockOffset clock_;
  PacketCheck check_;
  std::atomic<bool> stop_{false}, running_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace nanet::l0tp
