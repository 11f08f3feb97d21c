// SPDX-License-Identifier: Apache-2.0
// The sending half of a card: passes every owed number in order, sends what the consumer has posted and
// answers header-only what is not there at its deadline. The sender alone decides what is late.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nanet/card/counters.hpp"
#include "nanet/card/frame_table.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::card {

struct Datagram {
  const std::byte* data;
  std::uint32_t bytes;
  std::uint32_t destination;  // index into the table of endpoints
};

// Where datagrams leave: sockets, a capture, nowhere.
class Transmit {
 public:
  virtual ~Transmit() = default;
  // Takes the first of `batch` in order; returns how many were taken (0: try again later).
  virtual std::size_t send(std::span<const Datagram> batch) noexcept = 0;
  virtual std::uint32_t destinations() const noexcept = 0;
};

struct SenderOptions {
  std::uint8_t stream = 0;
  std::uint8_t source = rich_source;
  Nanoseconds deadline = 50'000'000;  // after the frame's first packet; <= 0: none (replay)
  // Gather mode packets: the deadline counts from the moment the buffer was closed.
  bool from_closed = false;
};

class Sender {
 public:
  Sender(const SenderOptions& options, Consumers& consumers, FrameTable& table, Counters& counters,
         Transmit& transmit)
      : options_(options), consumers_(consumers), table_(table), counters_(counters), transmit_(transmit) {}

  void observe(Observer* observer) noexcept { observer_ = observer; }
  // Passes what can be passed at time `now` (read again after each batch by `clock`, for the send time).
  // Returns how many.
  template <class Clock>
  std::size_t poll(Nanoseconds now, Clock clock) noexcept {
    std::size_t passed = 0;
    while (const std::size_t ready = gather(now)) {
      const std::size_t sent = transmit_.send({batch_.data(), ready});
      if (sent) finish(sent, clock());
      passed += sent;
      if (sent < ready) break;
    }
    return passed;
  }
  // Late ones whose buffers have come back by now: the consumer's answers are final. Called when everything
  // is quiet.
  void reap_all() noexcept;
  // When the next number falls due if nothing is posted; a far future when nothing is owed.
  Nanoseconds next_deadline() const noexcept;

 private:
  static constexpr std::size_t batch_limit = 64;
  struct Passing {
    std::uint64_t n;
    Outcome outcome;
    bool has_buffer;
    std::uint32_t token;
  };

  bool due(const FrameTable::Slot& slot, bool closed, Nanoseconds now) const noexcept;
  bool sound(const contract::View& view, const contract::Descriptor& descriptor) const noexcept;
  std::size_t gather(Nanoseconds now) noexcept;
  void finish(std::size_t sent, Nanoseconds now) noexcept;
  std::size_t header_only(std::size_t at, Frame frame) noexcept;

  SenderOptions options_;
  Consumers& consumers_;
  FrameTable& table_;
  Counters& counters_;
  Transmit& transmit_;
  Observer* observer_ = nullptr;
  std::array<Datagram, batch_limit> batch_{};
  std::array<Passing, batch_limit> passing_{};
  std::array<std::array<std::byte, wire::mtp::header_bytes>, batch_limit> header_{};
};

}  // namespace nanet::card
