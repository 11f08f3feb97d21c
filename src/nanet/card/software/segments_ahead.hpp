// SPDX-License-Identifier: Apache-2.0
// Segments of mailboxes that reading threads write, before the card's thread places the packet: of frames
// with one packet per board. The card's thread writes all others.
//
// A segment keeps one content, as docs/formats.md (Mailbox) demands, because
// - a board belongs to the reading thread that sees it first;
// - that thread writes each number once, in ascending order of frames, after its buffer has been returned;
// - it hands the packet over after its stores;
// - a number goes without mailbox if a packet written ahead was not placed, if a packet of the board came by
//   another thread, or if a board is missing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "nanet/card/frame_table.hpp"
#include "nanet/wire/dealing.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// What a reading thread has done for a packet.
struct WrittenSegment {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t n = none;  // whose segment it has written
  std::uint8_t units = 0, fragments = 0;
  bool foreign = false;  // the board belongs to another thread, which may have written its segment
};

class SegmentsAhead {
 public:
  // consumers outlive the object.
  SegmentsAhead(Consumers& consumers, const wire::Dealing& dealing) noexcept
      : consumers_(consumers), dealing_(dealing) {}

  // A reading thread. Its number: below `most_lanes`.
  struct alignas(64) Lane {
    explicit Lane(std::uint8_t its_number) noexcept : number(its_number) {}
    std::uint8_t number;
    std::uint64_t burst = no_burst;                 // to which `newest` belongs
    std::array<std::int64_t, max_boards> newest{};  // frame of each board
    std::atomic<bool> writes{false};
  };
  static constexpr std::size_t most_lanes = 255;

  // Card's thread. The added lanes and the mailboxes exist until disable() has returned.
  void enable() noexcept { enabled_.store(true, std::memory_order_seq_cst); }
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  void begin_burst(std::uint8_t number, std::uint64_t base) noexcept {
    burst_.store(std::uint64_t{number} << base_bits | (base & base_mask), std::memory_order_release);
  }
  // Returns when no thread writes any more.
  void disable() noexcept;

  // Before the threads run.
  void add(Lane& lane) { lanes_.push_back(&lane); }
  // Reading thread, around the packets of a batch. begin: false if there are no mailboxes.
  bool begin(Lane& lane) const noexcept;
  static void end(Lane& lane) noexcept;
  // A packet between begin() and end(). datagram: readable 64 B beyond.
  WrittenSegment write(Lane& lane, const wire::mgp::Checked& checked,
                       std::span<const std::byte> datagram) noexcept;

 private:
  static constexpr unsigned base_bits = 56;
  static constexpr std::uint64_t base_mask = (std::uint64_t{1} << base_bits) - 1;
  static constexpr std::uint64_t no_burst = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint8_t no_lane = 0xFF;
  struct alignas(64) Owner {
    std::atomic<std::uint8_t> lane{no_lane};
    std::atomic<bool> shared{false};      // other threads have its packets, too
    std::atomic<std::uint64_t> up_to{0};  // numbers below may have been written
  };

  bool returned(const contract::View& view, std::uint64_t n) const noexcept;

  Consumers& consumers_;
  wire::Dealing dealing_;
  alignas(64) std::atomic<bool> enabled_{false};
  std::atomic<std::uint64_t> burst_{no_burst};  // number of the current burst and n of its frame 0
  std::array<Owner, max_boards> owner_;
  std::vector<Lane*> lanes_;
};

}  // namespace nanet::card
