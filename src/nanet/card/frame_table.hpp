// SPDX-License-Identifier: Apache-2.0
// Frame table: state of every number n, from opening by the receiver to passing by the sender. Both run in
// the card's thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "nanet/contract/producer.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/dealing.hpp"

namespace nanet::card {

// The consumer devices of a stream: their contract memory and the producer ends of their event queues.
struct Consumers {
  std::vector<contract::View> views;
  std::vector<contract::EventWriter> events;

  // Device of a number. The number of devices is a power of two.
  std::size_t device_of(std::uint64_t n) const noexcept { return n & (views[0].shape.devices - 1); }
  const contract::View& view_of(std::uint64_t n) const noexcept { return views[device_of(n)]; }

  explicit Consumers(std::vector<contract::View> of) : views(std::move(of)) {
    for (const auto& view : views) events.emplace_back(view);
  }
};

class FrameTable {
 public:
  enum class Status : std::uint8_t { skipped, open, closed, overrun };

  struct alignas(32) Slot {
    std::uint64_t n = 0;  // last number that used this buffer
    Nanoseconds first = 0, closed = 0;
    Frame frame = 0;
    bool used = false;  // used at least once
    bool seen = false;  // a packet of this frame has arrived
    bool passed_late = false;
    std::uint8_t complete = 0;
    struct Board {
      std::uint16_t indices = 0, bytes = 0;
      std::uint16_t units = 0;  // written to the mailbox
      std::uint8_t packets = 0, flags = 0;
      std::int8_t last = -1;                     // index of the packet with flag `last`
      std::uint8_t fragments = not_yet_indexed;  // in the mailbox's index
    } board[max_boards];
    static constexpr std::uint8_t not_yet_indexed = 0xFE, without_index = 0xFF;
  };

  FrameTable(std::uint32_t buffers, std::uint32_t devices, Frame max_frames = default_max_frames,
             wire::Dealing dealing = {})
      : slots_(std::size_t{buffers} * devices),
        // Size: one burst plus the numbers before it that the sender has not passed yet, even for short
        // bursts.
        status_(std::bit_ceil(max_frames + std::max<std::size_t>(max_frames / 4, slots_.size()) + 1)),
        mask_(slots_.size() - 1),
        status_mask_(status_.size() - 1),
        dealing_(dealing) {}

  Slot& slot(std::uint64_t n) noexcept { return slots_[n & mask_]; }
  Status status(std::uint64_t n) const noexcept { return status_[n & status_mask_]; }
  void set(std::uint64_t n, Status s) noexcept { status_[n & status_mask_] = s; }
  // Numbers whose status has been overwritten are closed.
  bool forgotten(std::uint64_t n) const noexcept { return n + status_.size() <= end; }
  // True if setting the status of n overwrites no number that the sender has not passed yet.
  bool has_room(std::uint64_t n) const noexcept { return n < next + status_.size(); }
  // Half of the distinguishable numbers.
  std::uint64_t reach() const noexcept { return status_.size() / 2; }
  std::size_t slots() const noexcept { return slots_.size(); }
  std::vector<Slot>& all() noexcept { return slots_; }

  std::uint64_t end = 0;   // numbers below have been seen by the receiver
  std::uint64_t next = 0;  // numbers below have been passed by the sender
  // Oldest number that has been passed but whose trace has not been read.
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t unsettled = none;
  // Numbers below have been passed and their traces read.
  std::uint64_t settled() const noexcept { return std::min(next, unsettled); }
  Frame frame_of_overrun(std::uint64_t n) const noexcept {
    return dealing_.frame(static_cast<Frame>(n - base_of(n)));
  }
  // Bases of the most recent bursts, newest last; they give the frame of a number without a buffer.
  void begin_burst(std::uint64_t base) noexcept {
    for (std::size_t i = 0; i + 1 < known_bursts; ++i) bases_[i] = bases_[i + 1];
    bases_[known_bursts - 1] = base;
  }
  std::uint64_t base_of(std::uint64_t n) const noexcept {
    for (std::size_t i = known_bursts; i-- > 0;)
      if (bases_[i] <= n) return bases_[i];
    return 0;
  }

 private:
  static constexpr std::size_t known_bursts = 16;
  std::vector<Slot> slots_;
  std::vector<Status> status_;  // ring, longer than a burst
  std::uint64_t mask_, status_mask_;
  wire::Dealing dealing_;
  std::uint64_t bases_[known_bursts] = {};
};

}  // namespace nanet::card
