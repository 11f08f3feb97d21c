// SPDX-License-Identifier: Apache-2.0
// Readout boards in final mode: each keeps its fragments for the latency and answers a trigger with an MEP
// when its own clock says t + L.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "nanet/os/clock.hpp"
#include "nanet/os/datagram_batch.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/readout/faults.hpp"
#include "nanet/stats/counter.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/ttc/board.hpp"
#include "nanet/ttc/time_base.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mep.hpp"
#include "nanet/wire/trigger.hpp"

namespace nanet::readout {

// Periods on each side of a trigger's that its answer holds: fragments of one event spread over 4 ns.
inline constexpr Timestamp final_window = 1;

struct FinalOptions {
  std::vector<wire::Endpoint> listen;  // trigger datagrams of board b: entry b; empty: no final mode
  wire::Endpoint farm;                 // takes the MEPs
  Timestamp latency = 0;               // L, periods
  wire::Endpoint sync{};               // takes sync datagrams of the boards' clock; port 0: none
};

// Counts of one board.
struct FinalCounts {
  ttc::LatencyTable::Counts triggers;
  std::uint64_t datagrams = 0, lost = 0, out_of_order = 0;  // by sequence number
  std::array<std::uint64_t, wire::trigger::refusal_count> refused{};
  std::uint64_t packets = 0, bytes = 0, send_errors = 0;  // MEPs
  std::uint64_t empty = 0;                                // answers without a fragment
  std::uint64_t overwritten = 0;  // frames that were already overwritten, fragments that did not fit
};

// In ns of the experiment: t + L - arrival of triggers in time; arrival - t - L of late ones.
struct FinalTiming {
  stats::Histogram slack, late_by;
};

class FinalBoards {
 public:
  // threads: that answer, each for its boards; one with faults, whose delays keep the order of all boards.
  // period: of the boards' clock in wall-clock ns. frame_bytes: mean bytes of a board per frame. Throws
  // std::invalid_argument or std::system_error (sockets), naming the value and the remedy.
  FinalBoards(const FinalOptions& options, unsigned boards, double period_ns, std::size_t frame_bytes,
              const FaultOptions& faults, unsigned threads = 1);
  ~FinalBoards();

  // Thread-safe. SOB of a board; `sob`: local time of period 0.
  void begin(unsigned board, std::uint8_t burst, Nanoseconds sob) noexcept;
  // Thread-safe. Keeps the events of an MGP packet, as the board sends it.
  void keep(unsigned board, std::span<const std::byte> packet) noexcept;

  unsigned threads() const noexcept { return static_cast<unsigned>(threads_.size()); }
  // Takes datagrams of a thread's boards, each at its arrival time, and answers the triggers due at `now`.
  void round(Nanoseconds now, unsigned thread = 0) noexcept;
  // Rounds of a thread until `done` returns true, and for the latency from then on.
  void run(unsigned thread, const std::function<bool()>& done) noexcept;

  // Thread-safe.
  FinalCounts counts(unsigned board) const noexcept;
  unsigned boards() const noexcept { return static_cast<unsigned>(boards_.size()); }
  Timestamp latency() const noexcept { return options_.latency; }
  double period_ns() const noexcept { return period_ns_; }
  std::vector<wire::Endpoint> listening() const;
  std::uint64_t syncs() const noexcept { return syncs_; }  // sent
  // Adds the triggers of all boards so far.
  void timing(FinalTiming& into) const noexcept;
  // Smallest slack of a trigger in time, ns; -1 without triggers.
  Nanoseconds slack_min() const noexcept;

 private:
  struct Board;
  // State of an answering thread.
  struct Thread {
    Thread();
    os::DatagramBatch batch;
    os::ClockOffset clock;
    FinalTiming timing;
    std::atomic<Nanoseconds> slack_min{-1};
  };
  void receive(Thread& thread, Board& board, Nanoseconds now) noexcept;
  void accept(Thread& thread, Board& board, std::span<const std::byte> datagram,
              Nanoseconds arrival) noexcept;
  void deliver(Thread& thread, Nanoseconds now) noexcept;
  void advance(Board& board, Timestamp now) noexcept;
  void send(Board& board) noexcept;
  void send_sync(Nanoseconds now) noexcept;
  std::uint64_t frame_at(Nanoseconds now) const noexcept;

  FinalOptions options_;
  double period_ns_;
  std::vector<std::unique_ptr<Board>> boards_;
  std::vector<std::unique_ptr<Thread>> threads_;
  os::Fd farm_, sync_;
  // Of the first thread.
  Nanoseconds tai_offset_ = 0, tai_read_ = 0;
  std::uint32_t sync_sequence_ = 0;
  stats::Counter syncs_;
  bool faulty_;
  FaultLine faults_;  // of the only thread
  std::vector<OutPacket> out_;
  Nanoseconds start_;
};

}  // namespace nanet::readout
