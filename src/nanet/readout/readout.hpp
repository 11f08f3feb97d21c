// SPDX-License-Identifier: Apache-2.0
// The emulated readout boards: frames of a generated pool, or a capture, sent on time over UDP, with faults
// if asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/readout/faults.hpp"
#include "nanet/readout/frame_pool.hpp"
#include "nanet/readout/pacer.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/readout/recording.hpp"
#include "nanet/readout/schedule.hpp"
#include "nanet/readout/times_file.hpp"

namespace nanet::readout {

struct ReadoutOptions {
  std::vector<wire::Endpoint> destinations;  // board b -> destination b mod count
  rich::GeneratorOptions generator;
  PackOptions pack;
  std::uint32_t pool_frames = 4096;  // generated; burst frame f is pool frame f mod this
  bool keep_truth = false;
  std::string pcap;                                   // send this capture instead
  std::uint16_t pcap_port = wire::mgp::default_port;  // of the capture's packets
  double speed = 1.0;        // detector seconds per wall-clock second; 0: as fast as it goes
  double duration_s = 0;     // wall clock; 0: no limit
  std::uint64_t events = 0;  // physics events after whose frame to stop; 0: no limit
  std::uint64_t bursts = 0;  // 0: no limit
  Frame burst_frames = default_max_frames;
  double burst_gap_s = 0;
  std::uint8_t first_burst = 0;
  FaultOptions faults;
  std::string times;         // --times file; needs duration, events or pcap
  bool segmentation = true;  // trains, where the kernel has UDP_SEGMENT
  bool spin = false;         // never sleep
  double batch_us = 100;     // frames gathered before they are sent, in wall-clock time
};

// What has been sent so far. One writer, any readers.
struct ReadoutCounters {
  card::Counter frames, bursts, events, fragments, behind_max_ns, started_ns, elapsed_ns, skipped_records;
  std::array<card::Counter, fault_count> faults;
};

class Readout {
 public:
  // Generates the pool or reads the capture, opens sockets and the times file. Throws std::invalid_argument
  // (options that contradict each other), std::system_error and std::runtime_error (socket, file), each with
  // a sentence.
  explicit Readout(const ReadoutOptions& options);
  ~Readout();

  void start();  // the sending thread
  void request_stop() noexcept {
    stop_.store(true, std::memory_order_relaxed);
  }  // ends with the frame at hand, and EOB
  bool running() const noexcept { return running_.load(std::memory_order_acquire); }
  void join();  // rethrows what the thread died of

  const ReadoutCounters& counters() const noexcept { return counters_; }
  std::uint64_t packets() const noexcept;
  std::uint64_t bytes() const noexcept;
  std::uint64_t messages() const noexcept;
  std::uint64_t errors(SendError error) const noexcept;
  bool segmenting() const noexcept;  // trains are in use
  const ReadoutOptions& options() const noexcept { return options_; }
  const FramePool* pool() const noexcept { return pool_.get(); }
  std::uint64_t frames_planned() const noexcept { return limit_; }  // UINT64_MAX: until stopped

 private:
  struct Board {
    Sequence sequence = 0;
    wire::mgp::EobCounts counts;
    std::byte marker[wire::mgp::eob_bytes];
  };

  void run();
  void run_pool();
  void run_recording();
  std::uint64_t frames_for_events() const;
  void send_sob(std::uint64_t index);
  void send_eob(std::uint64_t index);
  void send_marker(unsigned stream, std::uint64_t index, std::size_t size);
  void send_frames(std::uint64_t index, unsigned frames, Nanoseconds now);
  void send_frames_with_faults(std::uint64_t index, unsigned frames);
  std::byte* stamp_packet(unsigned stream, const FramePool::Slot& slot, std::uint64_t index);
  void count_frame(std::uint32_t pool_frame);
  void deliver();  // out_ -> sockets, with send times
  void publish(Nanoseconds now);
  std::uint8_t burst_number(std::uint64_t index) const {
    return static_cast<std::uint8_t>(options_.first_burst + schedule_.burst(index));
  }

  ReadoutOptions options_;
  Schedule schedule_;
  std::unique_ptr<FramePool> pool_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<TimesWriter> times_;
  std::vector<std::unique_ptr<PacketSender>> senders_;  // one per stream; of a capture, one per destination
  std::vector<Board> boards_;                           // per stream
  FaultLine faults_;
  std::vector<OutPacket> out_;
  std::uint64_t limit_ = 0;  // frames of the run
  ReadoutCounters counters_;

  std::atomic<bool> stop_{false}, running_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace nanet::readout
