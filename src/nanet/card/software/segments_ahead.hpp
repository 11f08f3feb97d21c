// SPDX-License-Identifier: Apache-2.0
// Segments that reading threads write, to CLOP and mailbox, before the card's thread places the packet: of
// frames with one packet per board. The card's thread writes all others.
//
// A segment has one writer at a time, because
// - a board belongs to the reading thread that sees it first;
// - that thread writes the first packet that it sees of a frame, or none, in ascending order of frames, after
//   the buffer has been returned and its number passed, and hands the packet over after its stores;
// - if a packet comes by another thread, the board's own writes no more, and the card's thread waits for the
//   end of what it may be writing;
// - before a buffer gets its next number although a packet of the last one is missing, the card's thread
//   forbids the last one, and finds whether it is being written;
// - a burst begins after the threads have seen it: what they have written beyond the last one is over.
// A segment of a mailbox keeps one content, as docs/formats.md (Mailbox) demands: a number goes without
// mailbox if a packet written ahead was not placed, if a packet of the board came by another thread, or if a
// board is missing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "nanet/card/frame_table.hpp"
#include "nanet/wire/dealing.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// What a reading thread has done for a packet.
struct WrittenSegment {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t n = none;   // to whose segment, from its begin on, it has copied the packet
  bool in_mailbox = false;  // and to the mailbox's
  std::uint16_t units = 0;
  std::uint8_t fragments = 0;
  bool foreign = false;  // the board belongs to another thread, which may have written its segment
};

class SegmentsAhead {
 public:
  // consumers outlive the object.
  SegmentsAhead(Consumers& consumers, const wire::Dealing& dealing)
      : consumers_(consumers),
        dealing_(dealing),
        slots_(std::size_t{consumers.views[0].shape.buffers} * consumers.views[0].shape.devices),
        least_(std::make_unique<std::atomic<std::uint64_t>[]>(slots_)),
        reserved_(slots_) {}

  // A reading thread. Its number: below `most_lanes`.
  struct alignas(64) Lane {
    explicit Lane(std::uint8_t its_number) noexcept : number(its_number) {
      for (auto& of_board : newest) of_board.fill(-1);
    }
    std::uint8_t number;
    std::uint64_t burst = no_burst;  // last one seen begun
    // Largest frame seen, by board and number of the burst; numbers far from the current one: -1.
    std::array<std::array<std::int64_t, 256>, max_boards> newest;
    std::atomic<bool> writes{false};
  };
  static constexpr std::size_t most_lanes = 255;

  // Card's thread. The added lanes and the mailboxes exist until disable() has returned.
  void enable() noexcept { enabled_.store(true, std::memory_order_seq_cst); }
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  // Returns when no thread writes a number of the last burst. Returned: numbers from base on and below it may
  // have been written for frames of that burst.
  std::uint64_t begin_burst(std::uint8_t number, std::uint64_t base) noexcept;
  // Numbers below `passed` have been passed and their traces read. Called in every round.
  void pass(std::uint64_t passed) noexcept {
    if (passed - passed_now_ < (slots_ + 7) / 8) return;  // seldom: each store costs the threads a cache miss
    passed_now_ = passed;
    passed_.store(passed, std::memory_order_release);
  }
  // Returns when no thread writes any more.
  void disable() noexcept;
  // Before the card's thread copies a packet that is `foreign`: returns when the board's own thread does not
  // write, and will not.
  void wait_for_owner(unsigned board) const noexcept;
  // Before n gets a buffer whose last number may lack packets: none of an earlier number will be written to
  // it. False: one is being written.
  bool reserve(std::uint64_t n) noexcept;

  // Before the threads run.
  void add(Lane& lane) { lanes_.push_back(&lane); }
  // Reading thread, around the packets of a batch. begin: false if there are no mailboxes; then nothing may
  // be written, and there is no end().
  bool begin(Lane& lane) const noexcept;
  static void end(Lane& lane) noexcept;
  // A thread hands over packets that write() has not seen, as `foreign`: no thread writes from now on.
  void distrust() noexcept;
  // Every other packet of the thread, in order. may_write: it lies between begin() and end(). datagram:
  // readable 64 B beyond.
  WrittenSegment write(Lane& lane, const wire::mgp::Checked& checked, std::span<const std::byte> datagram,
                       bool may_write) noexcept;

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
  bool is_first_of_its_frame(Lane& lane, unsigned board, const wire::mgp::Header& header,
                             std::uint64_t burst) const noexcept;
  const Lane* owner_lane(unsigned board) const noexcept;
  void wait_for_all() const noexcept;

  Consumers& consumers_;
  wire::Dealing dealing_;
  std::size_t slots_;  // buffers of all devices, a power of two
  // By slot: smallest number that may be written.
  std::unique_ptr<std::atomic<std::uint64_t>[]> least_;
  // Card's thread, by slot: no smaller number is being written.
  std::vector<std::uint64_t> reserved_;
  std::uint64_t passed_now_ = 0;
  alignas(64) std::atomic<bool> enabled_{false};
  std::atomic<std::uint64_t> burst_{no_burst};  // number of the current burst and n of its frame 0
  std::atomic<std::uint64_t> passed_{0};
  std::array<Owner, max_boards> owner_;
  std::vector<Lane*> lanes_;
};

}  // namespace nanet::card
