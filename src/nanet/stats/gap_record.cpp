// SPDX-License-Identifier: Apache-2.0
#include "nanet/stats/gap_record.hpp"

#include <algorithm>

namespace nanet::stats {

void GapRecord::gap(Nanoseconds begin, Nanoseconds end) noexcept {
  const Nanoseconds length = end - begin;
  if (length <= least) return;
  gaps_.add(length);
  time_ += static_cast<std::uint64_t>(length);
  for (std::size_t i = 0; i < limits.size() && length > limits[i]; ++i) {
    ++above_[i].count;
    above_[i].time += static_cast<std::uint64_t>(length);
  }
  const std::size_t listed = listed_.load(std::memory_order_relaxed);
  if (length <= limits.front() || listed == most_listed) return;
  list_[listed] = {begin, end};
  listed_.store(listed + 1, std::memory_order_release);
}

double GapRecord::share_above(std::size_t i) const noexcept {
  const auto elapsed = static_cast<double>(elapsed_);
  return elapsed > 0 ? static_cast<double>(above_[i].time) / elapsed : 0;
}

double GapRecord::percentile(double p) const noexcept {
  const Nanoseconds ran = elapsed();
  if (ran <= 0) return 0;
  const double wanted = p * static_cast<double>(ran);
  auto seen = static_cast<double>(ran) - static_cast<double>(time_);
  if (seen >= wanted) return static_cast<double>(least);
  for (std::size_t i = Histogram::index(least); i < Histogram::bins; ++i) {
    const auto upper = static_cast<double>(Histogram::upper(i));
    seen += static_cast<double>(gaps_.in_bin(i)) * upper;
    if (seen >= wanted) return std::min(upper, static_cast<double>(longest()));
  }
  return static_cast<double>(longest());
}

}  // namespace nanet::stats
