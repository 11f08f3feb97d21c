// SPDX-License-Identifier: Apache-2.0
// Truth table: times of true events by frame, for comparison with primitives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::l0tp {

class TruthTable {
 public:
  // One entry per physics event with at least one hit: burst (with wraps counted), timestamp and fine time.
  // Three arrays of equal length, in any order. `period`: the events belong to frames 0 to period - 1, sent
  // repeatedly. Frame f of every burst then has the events of frame f mod period (pool of readout). 0: every
  // frame of every burst has separate events. Bursts count from the smallest in the input. Throws
  // std::invalid_argument if the lengths differ or a frame lies beyond the period.
  TruthTable(std::span<const std::uint16_t> burst, std::span<const Timestamp> timestamp,
             std::span<const FineTime> fine, std::uint32_t period);

  // Times in LSB after the frame start, ascending. `burst` counts from 0. Empty for unknown frames.
  std::span<const std::uint16_t> at(std::uint64_t burst, Frame frame) const noexcept {
    std::uint64_t row = 0;
    if (period_ != 0) {
      row = frame % period_;
    } else {
      if (burst >= base_.size() - 1) return {};
      row = base_[burst] + frame;
      if (row >= base_[burst + 1]) return {};
    }
    return {times_.data() + first_[row], first_[row + 1] - first_[row]};
  }
  std::size_t events() const noexcept { return times_.size(); }
  std::uint32_t period() const noexcept { return period_; }

 private:
  std::uint32_t period_;
  std::vector<std::uint64_t> base_;   // row of frame 0 of each burst, then the number of rows
  std::vector<std::uint64_t> first_;  // per row: index of its first time, then the end
  std::vector<std::uint16_t> times_;
};

}  // namespace nanet::l0tp
