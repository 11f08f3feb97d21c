// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/pm_finder.hpp"

#include <algorithm>
#include <cmath>

namespace nanet::rich {

PmFinder::PmFinder(const Geometry& geometry) {
  std::copy_n(geometry.disk.begin(), channels, position_.begin());
  table_.fill(no_pm);
  for (int pm = 0; pm < channels; ++pm) {
    const Point& p = position_[static_cast<unsigned>(pm)];
    const auto row = static_cast<int>(std::lround((p.y + bottom_mm) / row_mm));
    const float shift = static_cast<float>(row & 1) * 0.5f;
    const auto column = static_cast<int>((p.x + left_mm) / pitch_mm + shift);
    table_[static_cast<unsigned>(row * columns + column)] = static_cast<std::int16_t>(pm);
  }
  for (int row = 1; row < rows - 1; ++row) {
    for (int column = 1; column < columns - 1; ++column) {
      std::int16_t& place = table_[static_cast<unsigned>(row * columns + column)];
      for (int near = 0; near < 9 && place == no_pm; ++near) {
        const int at = (row + near / 3 - 1) * columns + column + near % 3 - 1;
        if (table_[static_cast<unsigned>(at)] >= 0) place = edge;
      }
    }
  }
}

int PmFinder::search(float x, float y, int place) const {
  float nearest = reach_mm * reach_mm;
  int found = no_pm;
  const int row = place / columns, column = place % columns;
  for (int r = std::max(row - 1, 0); r <= std::min(row + 1, rows - 1); ++r) {
    for (int c = std::max(column - 1, 0); c <= std::min(column + 1, columns - 1); ++c) {
      const int pm = table_[static_cast<unsigned>(r * columns + c)];
      if (pm < 0) continue;
      const Point& p = position_[static_cast<unsigned>(pm)];
      const float dx = p.x - x, dy = p.y - y, distance = dx * dx + dy * dy;
      if (distance >= nearest) continue;
      nearest = distance;
      found = pm;
    }
  }
  return found;
}

NearestPm::NearestPm(const Geometry& geometry)
    : position_(geometry.disk), reach_(static_cast<float>(geometry.monte_carlo.reach_mm)) {
  float right = position_[0].x, top = position_[0].y;
  left_ = right;
  bottom_ = top;
  for (const Point& p : position_) {
    left_ = std::min(left_, p.x);
    bottom_ = std::min(bottom_, p.y);
    right = std::max(right, p.x);
    top = std::max(top, p.y);
  }
  left_ -= 2 * reach_;
  bottom_ -= 2 * reach_;
  columns_ = static_cast<int>((right - left_) / reach_) + 3;
  rows_ = static_cast<int>((top - bottom_) / reach_) + 3;
  std::vector<std::vector<PmId>> cells(geometry.shift.size() * static_cast<std::size_t>(rows_ * columns_));
  for (std::size_t pm = 0; pm < position_.size(); ++pm) {
    const int column = static_cast<int>((position_[pm].x - left_) / reach_),
              row = static_cast<int>((position_[pm].y - bottom_) / reach_);
    cells[static_cast<std::size_t>(cell(geometry.disk_of[pm], column, row))].push_back(static_cast<PmId>(pm));
  }
  for (const auto& cell : cells) {
    first_.push_back(static_cast<std::uint32_t>(pm_.size()));
    pm_.insert(pm_.end(), cell.begin(), cell.end());
  }
  first_.push_back(static_cast<std::uint32_t>(pm_.size()));
}

int NearestPm::find(unsigned disk, float x, float y) const {
  const float at_x = (x - left_) / reach_, at_y = (y - bottom_) / reach_;
  if (!(at_x >= 1 && at_y >= 1 && at_x < static_cast<float>(columns_ - 1) &&
        at_y < static_cast<float>(rows_ - 1)))
    return no_pm;  // also NaN
  float nearest = reach_ * reach_;
  int found = no_pm;
  for (int row = static_cast<int>(at_y) - 1, end = row + 3; row < end; ++row) {
    const int column = static_cast<int>(at_x) - 1;
    const std::uint32_t first = first_[static_cast<std::size_t>(cell(disk, column, row))],
                        last = first_[static_cast<std::size_t>(cell(disk, column + 2, row)) + 1];
    for (std::uint32_t i = first; i < last; ++i) {
      const float dx = position_[pm_[i]].x - x, dy = position_[pm_[i]].y - y, distance = dx * dx + dy * dy;
      if (distance >= nearest) continue;
      nearest = distance;
      found = pm_[i];
    }
  }
  return found;
}

}  // namespace nanet::rich
