// SPDX-License-Identifier: Apache-2.0
// Emulated readout boards: frames of a generated pool, or a capture, sent on schedule over UDP, with optional
// faults.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nanet/readout/boards.hpp"
#include "nanet/readout/frame_pool.hpp"
#include "nanet/readout/lockstep.hpp"
#include "nanet/readout/options.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/readout/recording.hpp"
#include "nanet/readout/schedule.hpp"
#include "nanet/readout/times_file.hpp"

namespace nanet::readout {

// Totals sent so far by all threads. Frames, events and bursts count once every board has sent them.
struct ReadoutCounters {
  std::uint64_t frames = 0, bursts = 0, events = 0, fragments = 0, behind_max_ns = 0, elapsed_ns = 0;
  std::uint64_t skipped_records = 0;  // records of the capture
  std::array<std::uint64_t, fault_count> faults{};
  std::array<std::uint64_t, wire::max_nodes> dealt{};  // frames per node
};

class Readout {
 public:
  // Generates the pool or reads the capture, opens sockets and the times file. Throws std::invalid_argument
  // (conflicting options), std::system_error or std::runtime_error (socket, file), each with a full sentence.
  explicit Readout(const ReadoutOptions& options);
  ~Readout();

  void start();  // starts the sending threads
  void request_stop() noexcept {
    stop_.store(true, std::memory_order_relaxed);
  }  // ends after the current frame and EOB
  bool running() const noexcept { return at_work_.load(std::memory_order_acquire) > 0; }
  void join();  // rethrows the exception of a thread

  ReadoutCounters counters() const noexcept;
  std::uint64_t packets() const noexcept;
  std::uint64_t bytes() const noexcept;
  std::uint64_t messages() const noexcept;
  std::uint64_t errors(SendError error) const noexcept;
  // Sums over the senders of one node.
  std::uint64_t packets_to(unsigned node) const noexcept;
  std::uint64_t errors_to(unsigned node, SendError error) const noexcept;
  // Share of the sends that found the one before refused; 1 while no program listens.
  double refused_share(unsigned node) const noexcept;
  bool segmenting() const noexcept;  // trains are in use
  const ReadoutOptions& options() const noexcept { return options_; }
  const FramePool* pool() const noexcept { return pool_.get(); }
  const FinalBoards* final_boards() const noexcept { return final_.get(); }  // or null
  // With late_us, after join().
  std::span<const LateSend> late_sends() const noexcept {
    return times_ ? times_->late() : std::span<const LateSend>{};
  }
  std::uint64_t frames_planned() const noexcept { return limit_; }  // UINT64_MAX: unlimited

 private:
  void run(std::size_t thread);
  void run_recording(Nanoseconds start);
  void start_final();
  Nanoseconds started_together();
  std::uint64_t frames_for_events() const;
  template <class Count>
  std::uint64_t sum_to(unsigned node, const Count& count) const noexcept;

  ReadoutOptions options_;
  Schedule schedule_;
  std::unique_ptr<FramePool> pool_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<TimesWriter> times_;
  std::vector<std::unique_ptr<PacketSender>>
      senders_;              // of stream s to node k: s * nodes + k; with a capture: one per endpoint
  std::uint64_t limit_ = 0;  // number of frames in the run
  std::unique_ptr<Lockstep> lockstep_;
  std::vector<std::unique_ptr<Boards>> boards_;  // one per thread; empty with a capture
  Tally recorded_;                               // of the capture
  std::unique_ptr<FinalBoards> final_;           // or null

  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> at_work_{0}, ready_{0};  // threads
  std::atomic<Nanoseconds> start_{0};               // start of the schedule
  std::mutex failing_;
  std::exception_ptr failure_;  // of the first failed thread
  std::vector<std::jthread> threads_;
};

}  // namespace nanet::readout
