// SPDX-License-Identifier: Apache-2.0
// Streaming pairing of primitives with true events: one to one, nearest in time, within 5 ns.
// Definitions: docs/quality.md. Gives a reason for each unpaired entry.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::l0tp {

// Reason why a true event has no primitive.
enum class Unpaired : std::uint8_t {
  merged_with_neighbour,  // another event within 8 ns has the primitive
  frame_late,             // its frame, or a frame within 5 ns, was answered header-only (sub ID 0xFF)
  frame_missing,          // within 5 ns of a missing frame
  out_of_order,           // its frame arrived behind a later one: not compared
  other,
  count,
};
// Reason why a primitive has no true event.
enum class Unexpected : std::uint8_t {
  split_at_frame_edge,  // within 5 ns of a frame edge: part of an event split between two frames
  outside_frame,        // its time is outside its packet's frame
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

  // Processes the next frame of the burst, later than all previous ones. `truth`: LSB after the frame start,
  // ascending; `primitives`: in time order; `late`: sub ID 0xFF.
  void frame(Frame frame, std::span<const std::uint16_t> truth,
             std::span<const wire::mtp::TimedPrimitive> primitives, bool late);
  // Counts a frame that arrived behind a later one. Its `truth` true events count as expected and unpaired.
  void out_of_order(std::size_t truth);
  // Ends the burst: settles entries that waited for the next frame.
  void end_burst();

  const Counts& counts() const { return counts_; }

 private:
  struct True {
    Lsb time;
    Unpaired reason;  // if unpaired: other, unless its frame or a neighbouring frame gives a reason
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

  void settle(Lsb limit);  // settles entries that nothing at or after `limit` can affect
  void resolve(std::size_t truth_from, std::size_t truth_to, std::size_t found_from, std::size_t found_to);
  void count_alone(const True& event, std::size_t from, std::size_t to);
  void count_alone(const Found& primitive);

  std::vector<True> truth_;
  std::vector<Found> found_;
  std::vector<Pair> pairs_;
  std::int64_t previous_ = -1;  // previous frame received; -1: none
  bool previous_late_ = false;
  Counts counts_;
};

}  // namespace nanet::l0tp
