// SPDX-License-Identifier: Apache-2.0
// Photomultiplier hit by a photon, by arithmetic on the hexagonal lattice: rows 15.588 mm apart, PMs 18 mm
// apart in a row.
#pragma once

#include <array>
#include <cstdint>

#include "nanet/rich/geometry.hpp"

namespace nanet::rich {

inline constexpr int no_pm = -1;

class PmFinder {
 public:
  static constexpr float reach_mm = 10.4f;  // a photon farther than this from every PM is lost

  explicit PmFinder(const Geometry& geometry);
  // The nearest PM (0 - 975) of a disk to a point of the disk's plane, or no_pm. (Supercells are placed to
  // 0.01 mm; so near the middle between two PMs it may be the other one.)
  int find(float x, float y) const { return at(place(x, y), x, y); }

  // The same in two steps, of which the first has no branch and vectorises: the place of the lattice nearest
  // to a point, and its contents.
  static int place(float x, float y) {
    const float at_y = within((y + bottom_mm) * (1.0f / row_mm), rows - 2.0f);
    const float at_x = within((x + left_mm) * (1.0f / pitch_mm), columns - 2.0f);
    // The nearest place of the row below the point and of the row above it, and then of the two.
    const int row = static_cast<int>(at_y);
    const float odd = static_cast<float>(row & 1) * 0.5f;  // rows alternate by half a pitch
    const int low = static_cast<int>(at_x + odd), high = static_cast<int>(at_x + (0.5f - odd));
    const float low_x = (at_x + odd - static_cast<float>(low) - 0.5f) * pitch_mm;
    const float high_x = (at_x + (0.5f - odd) - static_cast<float>(high) - 0.5f) * pitch_mm;
    const float low_y = (at_y - static_cast<float>(row)) * row_mm, high_y = row_mm - low_y;
    const int above = low_x * low_x + low_y * low_y > high_x * high_x + high_y * high_y;
    return (row + above) * columns + low + (high - low) * above;
  }
  int at(int place, float x, float y) const {
    const int pm = table_[static_cast<unsigned>(place)];
    return pm != edge ? pm : search(x, y, place);
  }

 private:
  static constexpr float row_mm = 15.588f, pitch_mm = 18.0f;
  static constexpr int rows = 44, columns = 38, channels = pm_count / 2;
  static constexpr float bottom_mm = 21 * row_mm, left_mm = 18.5f * pitch_mm;  // (0, 0) is row 21, column 18
  static constexpr std::int16_t edge = -2;                                     // no PM here, but next to here

  // Points beyond the lattice are taken to its border, where there are no PMs. NaN too.
  static float within(float value, float high) {
    const float below = value < high ? value : high;
    return below > 1.0f ? below : 1.0f;
  }
  // Among the places about; for points outside the disk that a PM at its rim may reach.
  int search(float x, float y, int place) const;

  std::array<std::int16_t, rows * columns> table_;  // PM of each place, or edge, or no_pm
  std::array<Point, channels> position_;
};

}  // namespace nanet::rich
