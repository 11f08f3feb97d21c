// SPDX-License-Identifier: Apache-2.0
// Pairs primitives with true events, one to one, nearest in time, within 5 ns (docs/rich.md, definitions),
// while they come; says of each that finds no partner why.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::l0tp {

// Why a true event has no primitive.
enum class Unpaired : std::uint8_t {
  merged_with_neighbour,  // another event within 8 ns has the primitive
  frame_late,             // its frame came header-only, sub ID 0xFF; or it lies within 5 ns of such a frame
  frame_missing,          // it lies within 5 ns of a frame that did not come
  out_of_order,           // its frame came behind a later one: not compared
  other,
  count,
};
// Why a primitive has no true event.
enum class Unexpected : std::uint8_t {
  split_at_frame_edge,  // within 5 ns of a frame's edge: the rest of an event of two frames
  outside_frame,        // its time is not of its packet's frame
  other,
  count,
};
std::string_view name(Unpaired reason);
std::string_view name(Unexpected reason);

class Pairing {
 public:
  static constexpr Lsb pair_lsb = static_cast<Lsb>(5.0 / lsb_ns);       // 51
  static constexpr Lsb neighbour_lsb = static_cast<Lsb>(8.0 / lsb_ns);  // 82

  struct Counts {
    std::uint64_t expected = 0, paired = 0;
    std::array<std::uint64_t, static_cast<std::size_t>(Unpaired::count)> unpaired{};
    std::array<std::uint64_t, static_cast<std::size_t>(Unexpected::count)> unexpected{};
  };

  // The next frame of the burst, ahead of those before. `truth`: LSB after its start, ascending; `primitives`
  // in order of time; `late`: sub ID 0xFF.
  void frame(Frame frame, std::span<const std::uint16_t> truth,
             std::span<const wire::mtp::TimedPrimitive> primitives, bool late);
  // A frame that came behind a later one, with so many true events: they count as expected, and stay
  // unpaired.
  void out_of_order(std::size_t truth);
  // The burst is over: settles what might still have found a partner across the edge of a frame.
  void end_burst();

  const Counts& counts() const { return counts_; }

 private:
  struct True {
    Lsb time;
    Unpaired reason;  // if it stays alone: other, unless its frame or the one next to it says more
    bool paired = false;
  };
  struct Found {
    Lsb time;
    bool paired = false;
  };
  struct Pair {
    Lsb distance;
    std::uint32_t truth, found;
  };

  void settle(Lsb limit);  // everything that nothing at or after `limit` can touch
  void resolve(std::size_t truth_from, std::size_t truth_to, std::size_t found_from, std::size_t found_to);
  void count_alone(const True& event, std::size_t from, std::size_t to);
  void count_alone(const Found& primitive);

  std::vector<True> truth_;
  std::vector<Found> found_;
  std::vector<Pair> pairs_;
  std::int64_t previous_ = -1;  // frame that came before; -1: none
  bool previous_late_ = false;
  Counts counts_;
};

}  // namespace nanet::l0tp
