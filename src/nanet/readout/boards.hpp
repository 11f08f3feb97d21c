// SPDX-License-Identifier: Apache-2.0
// Readout boards of one thread: stamps the pool's frames and sends them on schedule.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/readout/frame_pool.hpp"
#include "nanet/readout/lockstep.hpp"
#include "nanet/readout/options.hpp"
#include "nanet/readout/pacer.hpp"
#include "nanet/readout/schedule.hpp"
#include "nanet/readout/times_file.hpp"
#include "nanet/readout/tx_path.hpp"

namespace nanet::readout {

// Data shared by all threads of a run.
struct Run {
  const ReadoutOptions& options;
  const Schedule& schedule;
  FramePool& pool;  // each thread writes only the bytes of its boards
  Senders senders;  // of stream s to node k: s * nodes + k
  unsigned nodes;
  TimesWriter* times;  // or null
  FinalBoards* final;  // or null
  Lockstep& lockstep;
  const std::atomic<bool>& stop;
  std::uint64_t limit;  // frames of the run
  unsigned batch;       // frames to gather
  unsigned most;        // maximum frames per batch, even when behind
};

class Boards {
 public:
  // Boards of thread `thread` of options.threads.
  Boards(const Run& run, std::size_t thread);

  // Sends each board's stream from SOB to EOB, starting at `start` (CLOCK_MONOTONIC), until the run ends or
  // is stopped.
  void send(Nanoseconds start);
  const Tally& tally() const noexcept { return tally_; }

 private:
  struct alignas(64) Board {  // one stream to one node
    Sequence sequence = 0;
    wire::mgp::EobCounts counts;
    std::byte marker[wire::mgp::eob_bytes];
  };

  void send_sob(std::uint64_t index);
  void send_eob(std::uint64_t index);
  void send_marker(unsigned stream, unsigned node, std::uint64_t index, std::size_t size);
  void send_frames(std::uint64_t index, unsigned frames);
  void send_frames_with_faults(std::uint64_t index, unsigned frames);
  std::byte* stamp_packet(unsigned stream, const FramePool::Slot& slot, std::uint64_t index);
  void count_frame(std::uint64_t index);
  unsigned within_reach(std::uint64_t index, unsigned frames);
  void publish(Nanoseconds now);
  std::uint8_t burst_number(std::uint64_t index) const {
    return static_cast<std::uint8_t>(run_.options.first_burst + run_.schedule.burst(index));
  }
  unsigned node_of(std::uint64_t index) const {
    return wire::node_of(run_.schedule.frame(index), run_.nodes);
  }
  unsigned sender_of(unsigned stream, unsigned node) const { return stream * run_.nodes + node; }
  template <class F>
  void each_stream(const F& f) const {
    for (auto s = static_cast<unsigned>(thread_); s < run_.pool.streams(); s += step_) f(s);
  }
  template <class F>
  void each_sender(const F& f) const {
    each_stream([&](unsigned s) {
      for (unsigned k = 0; k < run_.nodes; ++k) f(s, k);
    });
  }
  std::vector<std::size_t> senders_of_thread() const;

  Run run_;
  std::size_t thread_;
  unsigned step_;
  TxPath tx_path_;
  std::vector<Board> boards_;  // as the senders; those of other threads are unused
  Tally tally_;
  Nanoseconds start_ = 0;
  std::uint64_t reach_ = 0;  // limit from the progress of the other threads, at the last check
};

}  // namespace nanet::readout
