// SPDX-License-Identifier: Apache-2.0
// What a host knows of a card that receives and sends by itself: reads its event queues beside the consumers,
// its counters from the registers, passes returned buffers and doorbells on, and tells whoever follows bursts
// and frames.
#pragma once

#include <cstdint>
#include <vector>

#include "nanet/card/frame_table.hpp"
#include "nanet/card/receiver.hpp"
#include "nanet/gateware/driver.hpp"

namespace nanet::gateware {

class Follower final : public card::Reception {
 public:
  Follower(Driver& driver, card::Consumers& consumers, card::FrameTable& table, card::Counters& counters);

  // Takes what is new in the event queues; passes on what the consumer has returned and posted. True if there
  // was anything. Used with every round of the card's thread.
  bool follow();
  // Mirrors the registers into the counters, if they belong together just now.
  bool read_counters();
  // Passes the numbers without a buffer that the sender has passed.
  void pass_overruns();

  // Frames that were received and not yet passed; buffers that are out with the consumer.
  std::uint64_t waiting() const noexcept { return received_ - passed_; }
  std::size_t out() const noexcept;
  // Of the counters as they were read last: every owed number has been passed, and seen to be.
  bool passed_all() const noexcept;
  bool in_burst() const noexcept { return open_bursts_ > 0; }
  // Packets that were lost before they came to the card; counted with its own from the next look on.
  std::uint64_t lost_before = 0;
  // Likewise packets that were refused.
  std::array<std::uint64_t, wire::mgp::refusal_count> refused_before{};

  std::int64_t missing() const noexcept override { return driver_.missing(); }

 private:
  struct Queue {
    explicit Queue(const contract::View& v) : view(v) { out.reserve(v.shape.buffers); }
    contract::View view;
    std::uint64_t next = 0, finished = 0;        // entries
    std::uint64_t sent_to = 0;                   // numbers of its device below have had all their events
    std::uint64_t ended_base = 0, ended_to = 0;  // so have these, of a burst that is over
    std::uint64_t bursts_begun = 0, bursts_ended = 0;
    std::uint32_t bell = ~std::uint32_t{0};
    std::vector<std::uint64_t> out;  // numbers whose buffers the consumer has
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
  std::vector<Sent> sent_;     // of the numbers that have a buffer
  std::uint64_t sent_to_ = 0;  // numbers below are passed by the sender
  std::uint64_t reference_ = 0;  // n of a recent event
  std::uint64_t received_ = 0, passed_ = 0;
  std::uint64_t bursts_begun_ = 0, bursts_ended_ = 0;
  std::uint32_t number_ = 0;  // of the newest burst, wraps counted
  unsigned open_bursts_ = 0;
};

}  // namespace nanet::gateware
