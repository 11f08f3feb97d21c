// SPDX-License-Identifier: Apache-2.0
// TTC line of a simulated source, sampled at a constant rate: biphase mark, A channel idle, frames on the B
// channel. Input of gateware/rtl/ttc/ttc_sample.sv.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>

#include "nanet/ttc/code.hpp"

namespace nanet::ttc {

class Line {
 public:
  // samples_per_period: above 8.
  explicit Line(double samples_per_period) noexcept
      : half_cell_(static_cast<std::uint64_t>(std::llround(samples_per_period / half_cells * one))) {}

  // The frame's first bit is sent in period `from`, or in the first period after the frames before it.
  void send(const Command& command, std::uint64_t from) {
    frames_.push_back({from, encode(command), bits_of(command.addressed)});
  }
  // Number of the present period; the first one is 0.
  std::uint64_t period() const noexcept { return period_; }
  // Time of a period's begin, in samples.
  double begin_of(std::uint64_t period) const noexcept {
    return static_cast<double>(period * half_cells) * static_cast<double>(half_cell_) / one;
  }

  // Levels of the next `count` samples, the oldest in bit 0.
  unsigned samples(unsigned count) noexcept {
    unsigned word = 0;
    for (unsigned i = 0; i < count; ++i, time_ += static_cast<std::uint64_t>(one)) {
      if (time_ >= edge_) next_half_cell();
      word |= static_cast<unsigned>(level_) << i;
    }
    return word;
  }

 private:
  static constexpr double one = 65536;  // time units of a sample
  static constexpr unsigned half_cells = 4;

  struct Waiting {
    std::uint64_t from, bits;
    unsigned left;
  };

  // A cell begins with a transition; a 1 has another in its middle. A is the first cell, B the second.
  void next_half_cell() noexcept {
    const auto half = static_cast<unsigned>(edges_ % half_cells);
    if (half == 0) {
      period_ = edges_ / half_cells;
      bit_ = true;  // idle
      if (!frames_.empty() && period_ >= frames_.front().from) {
        Waiting& frame = frames_.front();
        bit_ = frame.bits >> --frame.left & 1;
        if (frame.left == 0) frames_.pop_front();
      }
    }
    if (half == 0 || half == 2 || (half == 3 && bit_)) level_ = !level_;
    edge_ = ++edges_ * half_cell_;
  }

  std::uint64_t half_cell_;
  std::uint64_t time_ = 0, edge_ = 0, edges_ = 0, period_ = 0;
  bool level_ = false, bit_ = true;
  std::deque<Waiting> frames_;
};

}  // namespace nanet::ttc
