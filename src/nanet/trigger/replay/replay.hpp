// SPDX-License-Identifier: Apache-2.0
// Replay: recorded traffic through the trigger at full speed. Uses the receiver, builder, executors, sender
// and account of a live run, without sockets, clocks and deadlines.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nanet/card/playback.hpp"
#include "nanet/card/software/software_stream.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/account/accounting.hpp"
#include "nanet/trigger/executors/executor.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::trigger {

struct ReplayOptions {
  std::string pcap;
  std::vector<std::string> more;  // further captures, appended to form one run
  std::string mtp;                // pcap file of the answers; empty: none
  bool rings = false;
  std::uint16_t port = wire::mgp::default_port;
  // "socket": the software datapath without sockets; otherwise a registered card with playback.
  std::string card = "socket";
  card::ClopOptions clop;  // its sockets and times are unused
  // Assumes a merged stream if most of the first 1000 packets are valid packets of board 0xFF.
  bool detect_merged = false;
  std::string algorithm{rich::default_algorithm};
  rich::Parameters parameters;
  ProcessOptions process;
  // Reconstructor for many frames at a time instead of the CPU algorithm, for example
  // gpu::make_reconstructor with the same algorithm and parameters. Requires threads = 1.
  std::function<std::unique_ptr<rich::Reconstructor>(const rich::Reconstructor& cpu,
                                                     const rich::Geometry& geometry)>
      device;
  // Factory of an executor that replaces the above, for example a GPU-resident executor.
  ExecutorMaker executor;
  bool mailboxes = false;  // the card writes to that executor's mailboxes
  unsigned threads = 1;
  std::vector<int> pin;
  std::string keep_bad;
  std::shared_ptr<const Conditions> conditions;  // for all bursts; nullptr: none
};

// Columns of rings.parquet. NaN in x, y, r and chi2_ndf becomes null in the file.
struct RingColumns {
  std::vector<std::uint16_t> burst, event_hits, primitive;
  std::vector<std::uint64_t> event;
  std::vector<std::uint32_t> timestamp;
  std::vector<std::uint8_t> fine_time, ring, n_rings, n_hits;
  std::vector<float> x, y, r, chi2_ndf;
};

class Replay {
 public:
  // Opens the files. Throws std::system_error or std::runtime_error naming the file, std::invalid_argument
  // for options.
  explicit Replay(const ReplayOptions& options);
  ~Replay();

  // Runs to the end of the captures in the calling thread (or until request_stop). Throws std::system_error
  // when the MTP capture cannot be written.
  void run();
  void request_stop() noexcept { stopping_ = true; }
  Account account() const;
  const Accounting& accounting() const noexcept { return *accounting_; }
  std::vector<const Physics*> physics() const { return executor_->physics(); }
  const Executor& executor() const noexcept { return *executor_; }
  double elapsed_s() const noexcept { return elapsed_s_; }
  double progress() const noexcept;  // fraction of the captures read
  bool truncated() const noexcept { return reader_.truncated(); }
  // Indices of captures that end within a record: 0 is `pcap`, then `more` in order.
  std::vector<std::size_t> truncated_files() const { return reader_.truncated_files(); }
  // Card name as in ReplayOptions::card.
  std::string_view card_name() const noexcept { return playback_ ? playback_->name() : "socket"; }
  std::vector<std::pair<std::string, double>> card_figures() const {
    return playback_ ? playback_->figures() : std::vector<std::pair<std::string, double>>{};
  }
  // Rows of rings.parquet since the last call, ordered by burst, frame and time.
  RingColumns take_rings();

 private:
  bool looks_merged() noexcept;
  void run_receiver(wire::PcapWriter* bad, std::exception_ptr& trouble);
  void run_card();

  class Rows;
  class Answers;
  class Follower;

  ReplayOptions options_;
  wire::PcapSeries reader_;
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<card::Playback> playback_;
  std::unique_ptr<card::SoftwareStream> own_stream_;
  card::Stream* stream_ = nullptr;  // stream of the playback, or of the software datapath
  std::unique_ptr<TraceTable> traces_;
  std::unique_ptr<Accounting> accounting_;
  std::unique_ptr<Rows> rows_;
  std::unique_ptr<Follower> follower_;
  std::unique_ptr<ConditionsStore> conditions_;
  std::unique_ptr<Executor> executor_;
  std::array<stats::Counter, wire::not_mgp_count> not_mgp_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<double> elapsed_s_{0};
};

}  // namespace nanet::trigger
