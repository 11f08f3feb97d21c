// SPDX-License-Identifier: Apache-2.0
// Readout board in final mode: fragments kept for the latency, triggers answered when the board's own clock
// says t + L. Fixed memory; nothing allocates after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/mep.hpp"
#include "nanet/wire/trigger.hpp"

namespace nanet::ttc {

// Latency table: triggers by period, each due at t + L. Software counterpart of
// gateware/rtl/ttc/trigger_line.sv.
class LatencyTable {
 public:
  // latency: L in periods, 1 to 2^26. Throws std::invalid_argument that names value and remedy.
  explicit LatencyTable(Timestamp latency);

  struct Counts {
    std::uint64_t triggers = 0, answered = 0, joined = 0, late = 0, early = 0, untimed = 0, flushed = 0;
    bool operator==(const Counts&) const = default;
    bool balanced() const { return triggers == answered + joined + late + early + untimed + flushed; }
  };
  struct Due {
    wire::trigger::Trigger trigger;
    std::uint32_t number = 0;  // event number, 24 bits
  };

  // Begins a burst at period 0; triggers still held are flushed.
  void begin(std::uint8_t burst) noexcept;
  // Time was lost: held triggers are flushed, later ones count as untimed until begin().
  void lose() noexcept;
  // `now`: the board's present period. A trigger whose t + L is not after it is late and never answered.
  void accept(std::uint8_t burst, const wire::trigger::Trigger& trigger, std::uint32_t number,
              Timestamp now) noexcept;
  // Calls answer(const Due&) for every trigger with t + L <= now, in order of time.
  template <typename Answer>
  void advance(Timestamp now, Answer&& answer) {
    if (!timed_ || now < latency_) return;
    const Timestamp end = now - latency_;  // the last period due
    while (next_ <= end) {
      // Skip empty words of 64 places.
      const std::size_t at = next_ & mask_;
      std::uint64_t word = held_[at / 64] >> (at % 64);
      if (word == 0) {
        next_ += static_cast<Timestamp>(64 - at % 64);
        continue;
      }
      while ((word & 1) == 0) {
        word >>= 1;
        ++next_;
      }
      if (next_ > end) break;
      const std::size_t place = next_ & mask_;
      held_[place / 64] &= ~(std::uint64_t{1} << (place % 64));
      ++counts_.answered;
      answer(static_cast<const Due&>(places_[place]));
      ++next_;
    }
    if (next_ > end + 1) next_ = end + 1;
  }
  const Counts& counts() const noexcept { return counts_; }
  Timestamp latency() const noexcept { return latency_; }

 private:
  void flush() noexcept;

  Timestamp latency_;
  std::size_t mask_;
  std::vector<Due> places_;
  std::vector<std::uint64_t> held_;  // a bit a place
  std::uint8_t burst_ = 0;
  bool timed_ = false;
  Timestamp next_ = 0;  // first period not yet due
  Counts counts_;
};

// Packets of a board by frame, kept until they are overwritten after `keep` periods at least, and their
// fragments by period. A packet costs one copy: boards store far more packets than triggers ask for.
class FragmentStore {
 public:
  // keep: periods; bytes: memory for their packets. Throws std::invalid_argument that names value and remedy.
  FragmentStore(Timestamp keep, std::size_t bytes);

  void begin() noexcept;
  // Stores an MGP packet; several of a frame follow each other. False and counted: longer than an eighth of
  // the memory.
  bool put(std::span<const std::byte> packet) noexcept;
  // Copies the fragments (8 B and hits) of the periods `first` to `last`, at most a frame, to `out`; returns
  // bytes. Frames already overwritten, or whose place a later one has, and fragments without room are counted
  // and left out.
  std::size_t get(Timestamp first, Timestamp last, std::span<std::byte> out) noexcept;

  struct Counts {
    std::uint64_t stored = 0, refused = 0, overwritten = 0, no_room = 0;
  };
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Place {
    std::uint64_t position = 0;  // of the first packet, counted from the begin of the run
    Frame frame = 0;
    std::uint32_t epoch = 0;
    std::uint32_t bytes = 0;  // packets, each after its length
  };
  std::size_t mask_;
  std::vector<Place> places_;
  std::vector<std::byte> memory_;
  std::uint64_t written_ = 0;
  std::uint32_t epoch_ = 0;
  Counts counts_;
};

}  // namespace nanet::ttc
