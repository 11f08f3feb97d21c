// SPDX-License-Identifier: Apache-2.0
// Sender of the software datapath: passes every number in order, sends posted answers, and answers
// header-only at the deadline, or once the consumer has returned the buffer without an answer. Only the
// sender decides which answers are late. An answer in a mailbox leaves before its descriptor is posted; its
// trace is read, and the observer called, once it is.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nanet/card/answer_deadline.hpp"
#include "nanet/card/counters.hpp"
#include "nanet/card/frame_table.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/card/transmit.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::card {

struct SenderOptions {
  std::uint8_t stream = 0;
  std::uint8_t source = rich_source;
  Nanoseconds deadline = 50'000'000;  // after the frame's first packet; <= 0: none (replay)
  // Gather mode packets: the deadline counts from the time at which the buffer was closed.
  bool from_closed = false;
};

class Sender {
 public:
  Sender(const SenderOptions& options, Consumers& consumers, FrameTable& table, Counters& counters,
         Transmit& transmit)
      : options_(options),
        deadline_{options.deadline, options.from_closed, nullptr},
        consumers_(consumers),
        table_(table),
        counters_(counters),
        transmit_(transmit) {}

  void observe(FrameObserver* observer) noexcept { observer_ = observer; }
  void observe_answers(AnswerObserver* observer) noexcept {
    answers_ = observer;
    wants_late_ = observer && observer->wants_late() && !options_.from_closed;
  }
  void limit_answers(const AnswerLimit* limit) noexcept { deadline_.limit = limit; }
  // Passes all numbers that can be passed at time `now`. `clock` is read after each batch for the send time.
  // Returns how many were passed.
  template <class Clock>
  std::size_t poll(Nanoseconds now, Clock clock) noexcept {
    std::size_t passed = 0;
    while (const std::size_t ready = gather(now)) {
      const std::size_t sent = transmit_.send({batch_.data(), ready});
      if (sent) finish(sent, clock());
      passed += sent;
      if (sent < ready) break;
    }
    if (unsettled_head_ != unsettled_tail_) settle(now);
    return passed;
  }
  // Waits a third of a microsecond for an answer in a mailbox to the next number: a round of the card takes
  // longer. quiet: no packet has come in this round, and the next one would cost a call of the system; then
  // up to two microseconds for the only number, soon after it was closed.
  void linger(bool quiet) const noexcept;
  // Reports late frames whose buffers have been returned: the consumer's answers are final. Called at the end
  // of a run.
  void reap_all() noexcept;
  // Deadline of the next number if no answer is posted; far in the future when no answer is pending.
  Nanoseconds next_deadline() const noexcept;

 private:
  static constexpr std::size_t batch_limit = 64;
  struct Passing {
    std::uint64_t n;
    Outcome outcome;
    bool has_buffer;
    std::uint32_t token;
    bool by_mailbox;
  };
  // Passed number whose observer has not been called, since it or an earlier one waits for its descriptor.
  struct Unsettled {
    std::uint64_t n;
    Nanoseconds first, closed, sent;
    Outcome outcome;
    bool waits;
  };
  static constexpr std::size_t unsettled_limit = 4096;
  static constexpr Nanoseconds settle_within = 1'000'000'000;  // a consumer that has failed posts nothing

  bool due(std::uint64_t n, bool closed, Nanoseconds now) const noexcept;
  static bool abandoned(const contract::View& view, std::uint64_t n) noexcept;
  bool sound(const contract::View& view, const contract::Descriptor& descriptor) const noexcept;
  std::size_t gather(Nanoseconds now) noexcept;
  void tell_late(std::uint64_t n) noexcept;
  void finish(std::size_t sent, Nanoseconds now) noexcept;
  std::size_t header_only(std::size_t at, Frame frame) noexcept;
  void settle(Nanoseconds now) noexcept;

  SenderOptions options_;
  AnswerDeadline deadline_;
  Consumers& consumers_;
  FrameTable& table_;
  Counters& counters_;
  Transmit& transmit_;
  FrameObserver* observer_ = nullptr;
  AnswerObserver* answers_ = nullptr;
  bool wants_late_ = false;
  std::array<Datagram, batch_limit> batch_{};
  std::array<Passing, batch_limit> passing_{};
  std::array<std::array<std::byte, wire::mtp::header_bytes>, batch_limit> header_{};
  static constexpr std::size_t answer_bytes = contract::send_buffer_bytes + contract::unit_data_bytes;
  std::vector<std::byte> answer_ = std::vector<std::byte>(batch_limit * answer_bytes);
  std::vector<Unsettled> unsettled_ = std::vector<Unsettled>(unsettled_limit);
  std::size_t unsettled_head_ = 0, unsettled_tail_ = 0;
};

}  // namespace nanet::card
