// SPDX-License-Identifier: Apache-2.0
// Receiver in gather mode `packets`: P payloads per buffer in order of arrival. n counts buffers. A buffer
// closes when it is full, at EOB of all boards, or at drain.
#pragma once

#include <array>

#include "nanet/card/software/receiver.hpp"

namespace nanet::card {

class PacketReceiver final : public Receiver {
 public:
  PacketReceiver(const ReceiverOptions& options, Consumers& consumers, FrameTable& table, Counters& counters);

  using Receiver::checked_packet;
  void checked_packet(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
                      const WrittenSegment& written, Nanoseconds stamp) noexcept override;
  void expire(Nanoseconds safe) noexcept override;
  void drain(Nanoseconds now) noexcept override { close(now); }
  Nanoseconds next_timer() const noexcept override;
  std::int64_t missing() const noexcept override;

 private:
  bool open(const wire::mgp::Header& header, Nanoseconds stamp) noexcept;
  void close(Nanoseconds now) noexcept;

  struct Board {
    SequenceTracker sequence;
    bool eob = false, jumping = false, sob_pending = false;
    Sequence jump_sequence = 0;
  };
  struct Burst {
    std::uint8_t number = 0;
    std::array<Board, max_boards> board;
  };
  Burst* burst_of(const wire::mgp::Header& header, Nanoseconds stamp) noexcept;
  bool admit(Board& board, const wire::mgp::Header& header) noexcept;
  void report_overrun() noexcept;

  Consumers& consumers_;
  FrameTable& table_;
  Counters& counters_;
  std::uint8_t expected_;
  Burst current_, old_;
  Nanoseconds old_until_ = 0, candidate_time_ = 0;
  std::int64_t missing_before_ = 0;
  bool any_burst_ = false, old_known_ = false, candidate_ = false;
  std::uint8_t candidate_number_ = 0, kept_sob_ = 0;
  contract::Event overrun_;               // bytes: payloads dropped and not yet reported
  std::uint32_t filled_ = 0, bytes_ = 0;  // of the open buffer, number table_.end - 1
  bool open_ = false;
};

}  // namespace nanet::card
