// SPDX-License-Identifier: Apache-2.0
// Queue monitor: host-side account of a card that receives and sends in hardware. Reads event queues and
// counters, forwards returned buffers and doorbells, notifies observers.
#pragma once

#include <cstdint>
#include <vector>

#include "nanet/card/frame_table.hpp"
#include "nanet/card/software/receiver.hpp"
#include "nanet/gateware/driver.hpp"

namespace nanet::gateware {

class QueueMonitor final : public card::ReceiveStatus {
 public:
  QueueMonitor(Driver& driver, card::Consumers& consumers, card::FrameTable& table, card::Counters& counters);

  // Reads new events and forwards returned buffers and posted answers. Returns true if there were any. Called
  // in every round of the card's thread.
  bool poll();
  // Copies the registers to the counters; returns false if no consistent read succeeded.
  bool read_counters();
  // Passes the numbers without a buffer that the card's sender has passed.
  void pass_overruns();

  // Frames received and not yet passed; buffers held by the consumer.
  std::uint64_t waiting() const noexcept { return received_ - passed_; }
  std::size_t out() const noexcept;
  // True if every number that needs an answer has been passed and reported, by the last counters read.
  bool passed_all() const noexcept;
  bool in_burst() const noexcept { return open_bursts_ > 0; }
  // Packets lost before the card; the next read includes them in the counters.
  std::uint64_t lost_before = 0;
  // Packets refused before the card; included likewise.
  std::array<std::uint64_t, wire::mgp::refusal_count> refused_before{};

  std::int64_t missing() const noexcept override { return driver_.missing(); }

 private:
  struct Queue {
    explicit Queue(const contract::View& v) : view(v) { out.reserve(v.shape.buffers); }
    contract::View view;
    std::uint64_t next = 0, finished = 0;        // entries
    std::uint64_t sent_to = 0;                   // numbers of its device below have all their events
    std::uint64_t ended_base = 0, ended_to = 0;  // likewise, for a finished burst
    std::uint64_t bursts_begun = 0, bursts_ended = 0;
    std::uint32_t bell = ~std::uint32_t{0};
    std::vector<std::uint64_t> out;  // numbers whose buffers the consumer holds
  };
  enum class Sent : std::uint8_t { no, answered, late };

  void take(Queue& queue, const contract::Event& event);
  void burst_began(std::uint64_t base, std::uint32_t number);
  void burst_ended(Queue& queue, std::uint64_t n, std::uint32_t last);
  void known(std::uint64_t n);
  void received(std::uint64_t n, Frame frame);
  void advance();
  void pass(std::uint64_t n, card::Outcome outcome);
  bool forward(Queue& queue);
  Sent& sent(std::uint64_t n) noexcept { return sent_[n & (sent_.size() - 1)]; }

  Driver& driver_;
  card::FrameTable& table_;
  card::Counters& counters_;
  std::vector<Queue> queues_;
  const bool by_packets_;
  std::vector<Sent> sent_;       // of numbers with a buffer
  std::uint64_t sent_to_ = 0;    // numbers below are passed by the sender
  std::uint64_t reference_ = 0;  // a number close to those of the next events
  std::uint64_t received_ = 0, passed_ = 0;
  std::uint64_t bursts_begun_ = 0, bursts_ended_ = 0;
  std::uint32_t number_ = 0;  // of the newest burst, wraps counted
  unsigned open_bursts_ = 0;
};

}  // namespace nanet::gateware
