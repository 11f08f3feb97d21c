// SPDX-License-Identifier: Apache-2.0
// Farm of the final trigger: receives trigger datagrams and MEPs, builds the events, and compares the kept
// ones with the truth.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nanet/l0tp/pairing.hpp"
#include "nanet/l0tp/truth_table.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/ttc/farm.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/trigger.hpp"

namespace nanet::l0tp {

// True events by number of rings: 0, 1, 2, 3 or more.
using TruthByRings = std::array<std::shared_ptr<const TruthTable>, 4>;

// Share of the true events that were kept, by number of rings. A complete event keeps the true event nearest
// to its trigger, within 5 ns.
class KeptShare {
 public:
  explicit KeptShare(TruthByRings truth) : truth_(std::move(truth)) {}
  // Events in order of time.
  void closed(const ttc::Farm::Closed& event);
  void finish() {
    if (any_) end_frame(frame_ + 1);
  }
  struct Counts {
    std::uint64_t expected = 0, kept = 0;
  };
  const Counts& counts(std::size_t rings) const { return counts_[rings]; }

 private:
  void end_frame(Frame next);
  TruthByRings truth_;
  std::array<Counts, 4> counts_;
  std::vector<std::uint16_t> kept_;  // of the current frame: LSB after its start
  bool any_ = false;
  std::uint8_t burst_ = 0;
  std::uint64_t bursts_ = 0;
  Frame frame_ = 0;
};

struct FarmOptions {
  wire::Endpoint listen{0x7F000001, 58916};  // MEPs; trigger datagrams: the next port
  unsigned boards = 4;
  std::size_t open = 1 << 18;  // events that wait for answers, a power of two
  int buffer_bytes = 32 << 20;
  TruthByRings truth;  // entries may be null
};

// Independent of the sockets.
class FarmCheck {
 public:
  explicit FarmCheck(const FarmOptions& options);
  void triggers(std::span<const std::byte> datagram) noexcept;
  void answers(std::span<const std::byte> packet) noexcept { farm_.receive(packet); }
  void finish() noexcept;

  struct Counts {
    ttc::Farm::Counts events;
    std::uint64_t datagrams = 0, datagrams_lost = 0, datagrams_out_of_order = 0;
    std::array<std::uint64_t, wire::trigger::refusal_count> refused_datagrams{};
    std::array<std::uint64_t, wire::mep::refusal_count> refused_packets{};
    std::vector<std::uint64_t> answers;  // by board
    std::array<KeptShare::Counts, 4> kept;
  };
  Counts counts() const;

 private:
  ttc::Farm farm_;
  KeptShare kept_;
  bool truth_;
  bool begun_ = false;
  std::uint32_t sequence_ = 0, number_ = 0;
  Counts counts_;
  std::array<wire::trigger::Trigger, wire::trigger::max_triggers> triggers_{};
};

class FarmReceiver {
 public:
  // Opens both sockets. Throws std::system_error or std::invalid_argument with a full sentence.
  explicit FarmReceiver(const FarmOptions& options);
  ~FarmReceiver();

  void start();
  // Ends once both sockets are empty; gives up the events that are open.
  void stop();
  FarmCheck::Counts counts() const;
  wire::Endpoint endpoint() const noexcept { return endpoint_; }
  const FarmOptions& options() const noexcept { return options_; }

 private:
  void run();
  bool round();

  FarmOptions options_;
  os::Fd packets_, triggers_;
  wire::Endpoint endpoint_;
  mutable std::mutex mutex_;  // guards check_
  FarmCheck check_;
  std::vector<std::byte> bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace nanet::l0tp
