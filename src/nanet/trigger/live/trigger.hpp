// SPDX-License-Identifier: Apache-2.0
// Trigger processor: a card, one CLOP, an executor, and their accounting.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/stats/polling_stops.hpp"
#include "nanet/trigger/account/accounting.hpp"
#include "nanet/trigger/account/burst_reports.hpp"
#include "nanet/trigger/build/conditions.hpp"
#include "nanet/trigger/executors/executor.hpp"
#include "nanet/trigger/live/choke.hpp"
#include "nanet/trigger/live/final_threads.hpp"
#include "nanet/trigger/live/final_trigger.hpp"
#include "nanet/trigger/live/recorder.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::trigger {

struct TriggerOptions {
  std::string card = "socket";
  card::ClopOptions clop;
  std::string algorithm{rich::default_algorithm};
  rich::Parameters parameters;
  ProcessOptions process;
  ExecutorMaker executor;  // empty: CPU executor
  unsigned threads = 1;
  std::vector<int> pin;  // cores: card's thread, its additional threads, then the workers, cyclic
  bool busy = false;     // never block, even when idle
  std::string keep_bad;  // pcap file of refused packets; empty: none
  std::size_t keep_bad_count = 1000;  // number of last packets kept
  ChokeOptions choke;
  std::shared_ptr<const Conditions> conditions;  // from the first burst on; nullptr: conditions unsupported
  RecordOptions record;                          // folder empty: no recording
  FinalTriggerOptions final;                     // boards empty: no final trigger
  bool stops = false;                            // record the stops of the card's polling threads
};

// State of a run, with the names used in results and views.
enum class State : std::uint8_t { ready, waiting, burst, draining, stopped };
inline constexpr std::array<std::string_view, 5> state_names = {"ready", "waiting", "burst", "draining",
                                                                "stopped"};

// Keeps the last refused packets in memory and writes them at the end of the run.
class BadPackets {
 public:
  explicit BadPackets(std::size_t keep) : ring_(keep) {}
  void add(std::span<const std::byte> datagram, Nanoseconds stamp) noexcept;
  // Throws std::system_error when the file cannot be written.
  void write(const std::string& path, std::uint16_t port) const;

 private:
  struct Packet {
    Nanoseconds stamp = 0;
    std::uint32_t size = 0;
    std::array<std::byte, 9000> bytes;
  };
  std::vector<Packet> ring_;
  std::size_t count_ = 0;
};

class Trigger {
 public:
  // Opens sockets and memory. Throws std::invalid_argument or std::system_error with the remedy.
  explicit Trigger(const TriggerOptions& options);
  ~Trigger();

  void start();
  void request_stop() noexcept { stopping_ = true; }
  // Waits up to timeout_s; returns true once drained and stopped.
  bool join(double timeout_s);
  bool running() const noexcept { return running_; }

  Account account() const;
  const Accounting& accounting() const noexcept { return *accounting_; }
  std::vector<const Physics*> physics() const { return executor_->physics(); }
  // From the first packet to the last answer so far, to the precision of a round of the card's thread.
  double elapsed_s() const noexcept;
  std::vector<wire::Endpoint> listening() const;
  std::uint32_t buffers() const noexcept { return clop_->view().shape.buffers; }
  bool event_overrun() const noexcept { return executor_->event_overrun(); }
  std::string_view card_name() const noexcept { return card_->name(); }
  std::vector<std::pair<std::string, double>> card_figures() const { return card_->figures(); }
  // Error at the end of the run (writing --keep-bad); empty: none.
  std::string trouble() const { return trouble_; }
  const Executor& executor() const noexcept { return *executor_; }

  State state() const noexcept;
  const Choke& choke() const noexcept { return choke_; }
  // Burst reports; one caller uses their take().
  BurstReports& bursts() noexcept { return *bursts_; }
  const BurstReports& bursts() const noexcept { return *bursts_; }
  // nullptr if the trigger runs without conditions or without recording.
  ConditionsStore* conditions() const noexcept { return conditions_.get(); }
  const Recorder* recorder() const noexcept { return recorder_.get(); }
  // nullptr without final trigger.
  const FinalTrigger* final_trigger() const noexcept {
    return final_threads_ ? &final_threads_->first() : final_.get();
  }
  std::uint64_t final_datagrams() const noexcept {
    return final_threads_ ? final_threads_->datagrams() : std::uint64_t{final_->counters().datagrams};
  }
  std::uint64_t final_send_errors() const noexcept {
    return final_threads_ ? final_threads_->send_errors() : std::uint64_t{final_->counters().send_errors};
  }
  Timestamp final_latency() const noexcept { return options_.final.latency; }
  // Stops of the card's polling threads. The card's own thread polls with `busy` only. nullptr: not recorded.
  const stats::PollingThreads* stops() const noexcept { return stops_.get(); }
  // Packets lost as `late` or `overrun`. After the run.
  const std::vector<card::ReceiveStatus::LostPacket>& lost_packets() const noexcept {
    return card_->stream(*clop_).receive_status().lost_packets();
  }
  // nullptr without sync datagrams.
  const ExperimentTime* experiment_time() const noexcept { return time_.get(); }

 private:
  // Forwards bursts to the burst reports and the recorder.
  class BurstForwarder final : public card::BurstObserver {
   public:
    explicit BurstForwarder(Trigger& trigger) : trigger_(trigger) {}
    void burst_began(std::uint32_t number, std::uint64_t base) noexcept override {
      trigger_.bursts_->burst_began(number, base);
      if (trigger_.recorder_) trigger_.recorder_->burst_began(number);
      if (trigger_.time_) trigger_.time_->burst_began(number, base);
      if (trigger_.final_) trigger_.final_->burst_began(number, base);
      if (trigger_.final_threads_) trigger_.final_threads_->burst_began(number, base);
    }
    void burst_ended(const card::BurstEnded& burst) noexcept override {
      trigger_.bursts_->burst_ended(burst);
    }

   private:
    Trigger& trigger_;
  };

  void open_final(card::Stream& stream);
  void run() noexcept;
  void note_times(const card::Stream& stream, Nanoseconds now) noexcept;
  void look(card::Stream& stream, Nanoseconds now) noexcept;

  TriggerOptions options_;
  std::unique_ptr<stats::PollingThreads> stops_;
  std::unique_ptr<card::Card> card_;
  card::Clop* clop_ = nullptr;
  std::unique_ptr<TraceTable> traces_;
  std::unique_ptr<Accounting> accounting_;
  Choke choke_;
  BufferFill fill_;
  std::unique_ptr<ConditionsStore> conditions_;
  std::unique_ptr<BurstReports> bursts_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<FinalTrigger> final_;  // in the card's thread, or in separate threads
  std::unique_ptr<FinalThreads> final_threads_;
  std::unique_ptr<ExperimentTime> time_;  // or nullptr
  BurstForwarder burst_forwarder_{*this};
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<BadPackets> bad_;
  std::atomic<bool> stopping_{false}, running_{false};
  std::atomic<Nanoseconds> started_{0}, first_packet_{0}, last_answer_{0};
  std::uint64_t answers_ = 0;
  std::string trouble_;
  std::jthread thread_;
};

}  // namespace nanet::trigger
