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

}  // namespace nanet::rich
