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
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/l0tp/aligner.hpp"
#include "nanet/l0tp/merger.hpp"
#include "nanet/l0tp/pairing.hpp"
#include "nanet/l0tp/truth_table.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/datagram_batch.hpp"
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

// Account of one trigger node: frames_expected = frames + frames_missing.
struct NodeCounters {
  stats::Counter frames, frames_late, frames_missing, frames_expected;
  stats::Counter frames_silent;            // part of frames_missing: passed over while the node was silent
  stats::Counter stale;                    // answers more than 1024 frames behind; their frames stay missing
  stats::Counter misdealt;                 // answers from the address of another node
  stats::Counter silent;                   // 1 while the node is silent
  stats::Counter silences, returns;        // how often it fell silent and came back
  stats::Counter from;                     // address << 16 | port of the last answer; 0: none
  stats::Counter last_frame, last_packet;  // frame and arrival time of the last answer
};

// Packet check, independent of the packet source.
class PacketCheck {
 public:
  // `truth` and `times` may be null. merge.nodes: trigger nodes whose answers are merged.
  PacketCheck(const TruthTable* truth, readout::TimesReader* times, const MergerOptions& merge,
              std::uint8_t source = rich_source);
  PacketCheck(const TruthTable* truth, readout::TimesReader* times, Frame burst_frames)
      : PacketCheck(truth, times, MergerOptions{.burst_frames = burst_frames}) {}

  // Checks one datagram received at `arrival` (CLOCK_MONOTONIC).
  void packet(std::span<const std::byte> datagram, Nanoseconds arrival,
              const wire::Endpoint& from = {}) noexcept;
  // Ends waits for silent nodes. now: all datagrams that arrived before have been checked.
  void advance(Nanoseconds now) noexcept { merger_.advance(now); }
  // Settles pending frames; no packet may follow.
  void finish() noexcept;
  // Copies the counts of aligner and pairing to counters(). Call after each batch.
  void publish() noexcept;

  L0tpCounters& counters() noexcept { return counters_; }
  const L0tpCounters& counters() const noexcept { return counters_; }
  std::span<const NodeCounters> nodes() const noexcept { return nodes_; }
  // Late frames, counted from 0 over the run, in order of arrival; the first `most_late_listed`. Only after
  // finish().
  const std::vector<std::uint64_t>& late_frames() const noexcept { return late_frames_; }
  const stats::Histogram& from_first() const noexcept { return from_first_; }
  const stats::Histogram& from_last() const noexcept { return from_last_; }

 private:
  static constexpr std::size_t most_late_listed = 1 << 20;
  void measure(Frame frame, Nanoseconds arrival) noexcept;
  void merged(Position at, std::span<const std::byte> datagram, Nanoseconds arrival, bool behind) noexcept;
  void check(const wire::mtp::Decoded& decoded, Arrival arrived, Nanoseconds arrival) noexcept;
  Arrival place(Frame frame, std::uint64_t bursts) noexcept;
  void pass_over(Frame from, Frame to) noexcept;
  void expect(Frame from, Frame to) noexcept;
  void note_source(NodeCounters& node, const wire::Endpoint& from) noexcept;
  void settle_ends() noexcept;

  const TruthTable* truth_;
  readout::TimesReader* times_;
  std::uint8_t source_;
  MergerOptions merge_;
  Aligner aligner_;
  Merger merger_;
  std::vector<NodeCounters> nodes_;
  std::vector<std::uint64_t> expected_before_;  // per node: frames of the bursts before the current one
  std::uint64_t burst_ = 0;                     // of the last answer in order, as in Position
  Frame joined_ = 0;                            // first frame of the run
  Pairing pairing_;
  L0tpCounters counters_;
  std::vector<std::uint64_t> late_frames_;
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
  Frame burst_frames = 0;       // frames per burst, if known
  unsigned nodes = 1;           // trigger nodes, to which frames are dealt
  double node_silence_s = 1.0;  // see MergerOptions::silence
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
  void run();
  unsigned receive(os::DatagramBatch& batch) noexcept;

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
