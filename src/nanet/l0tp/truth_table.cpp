// SPDX-License-Identifier: Apache-2.0
// Table of true event times by frame.
#include "nanet/l0tp/truth_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace nanet::l0tp {

TruthTable::TruthTable(std::span<const std::uint16_t> burst, std::span<const Timestamp> timestamp,
                       std::span<const FineTime> fine, std::uint32_t period)
    : period_(period) {
  const std::size_t n = timestamp.size();
  if (burst.size() != n || fine.size() != n)
    throw std::invalid_argument("truth: burst, timestamp and fine_time must have one length");
  const std::uint16_t first_burst = n ? *std::min_element(burst.begin(), burst.end()) : std::uint16_t{0};

  if (period_ != 0) {
    for (std::size_t i = 0; i < n; ++i)
      if (timestamp[i] >> 8 >= period_)
        throw std::invalid_argument("truth: frame " + std::to_string(timestamp[i] >> 8) +
                                    " lies beyond the period of " + std::to_string(period_) +
                                    " frames; the file is damaged, write it again");
    base_ = {0, period_};
  } else {
    std::vector<std::uint64_t> frames;  // per burst
    for (std::size_t i = 0; i < n; ++i) {
      const auto b = static_cast<std::size_t>(burst[i] - first_burst);
      if (frames.size() <= b) frames.resize(b + 1, 0);
      frames[b] = std::max<std::uint64_t>(frames[b], (timestamp[i] >> 8) + 1);
    }
    base_.push_back(0);
    for (const std::uint64_t f : frames) base_.push_back(base_.back() + f);
  }

  const auto row = [&](std::size_t i) {
    const std::uint64_t frame = timestamp[i] >> 8;
    return period_ != 0 ? frame : base_[static_cast<std::size_t>(burst[i] - first_burst)] + frame;
  };
  first_.assign(base_.back() + 1, 0);
  for (std::size_t i = 0; i < n; ++i) ++first_[row(i) + 1];
  for (std::size_t r = 1; r < first_.size(); ++r) first_[r] += first_[r - 1];
  times_.resize(n);
  std::vector<std::uint64_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < n; ++i)
    times_[next[row(i)]++] = static_cast<std::uint16_t>((timestamp[i] & 0xFF) << 8 | fine[i]);
  for (std::size_t r = 0; r + 1 < first_.size(); ++r)
    std::sort(times_.begin() + static_cast<std::ptrdiff_t>(first_[r]),
              times_.begin() + static_cast<std::ptrdiff_t>(first_[r + 1]));
}

}  // namespace nanet::l0tp
