// SPDX-License-Identifier: Apache-2.0
// Nearest photomultiplier of a photon, by arithmetic on the hexagonal lattice: rows 15.588 mm apart, PMs 18
// mm apart in a row.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nanet/rich/geometry.hpp"

namespace nanet::rich {

inline constexpr int no_pm = -1;

class PmFinder {
 public:
  static constexpr float reach_mm = 10.4f;  // a photon farther than this from every PM is lost

  explicit PmFinder(const Geometry& geometry);
  // Nearest PM (0 - 975) of a disk to a point in the plane of the disk, or no_pm. Supercell positions are
  // rounded to 0.01 mm, so close to the midpoint of two PMs the result may be the other PM.
  int find(float x, float y) const { return at(place(x, y), x, y); }

  // find() in two steps: the nearest lattice position, then its contents. The first step has no branch and
  // vectorises.
  static int place(float x, float y) {
    const float at_y = within((y + bottom_mm) * (1.0f / row_mm), rows - 2.0f);
    const float at_x = within((x + left_mm) * (1.0f / pitch_mm), columns - 2.0f);
    // Nearest position in the row below and in the row above the point, then the nearer of the two.
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
  static constexpr std::int16_t edge = -2;                                     // empty, but next to a PM

  // Clamps points outside the lattice, and NaN, to its border, which has no PMs.
  static float within(float value, float high) {
    const float below = value < high ? value : high;
    return below > 1.0f ? below : 1.0f;
  }
  // Searches the neighbouring positions, for points outside the disk within reach of a PM at its rim.
  int search(float x, float y, int place) const;

  std::array<std::int16_t, rows * columns> table_;  // PM of each position, or edge, or no_pm
  std::array<Point, channels> position_;
};

// Nearest PM of a photon for any positions: a grid with cells of the reach, three by three of which are
// searched.
class NearestPm {
 public:
  explicit NearestPm(const Geometry& geometry);
  // PM ID nearest to a point in the plane of a disk, within the reach, or no_pm.
  int find(unsigned disk, float x, float y) const;

 private:
  int cell(unsigned disk, int column, int row) const {
    return (static_cast<int>(disk) * rows_ + row) * columns_ + column;
  }

  std::vector<Point> position_;
  float reach_, left_ = 0, bottom_ = 0;
  int columns_ = 0, rows_ = 0;        // with a border of empty cells
  std::vector<std::uint32_t> first_;  // of each cell in pm_
  std::vector<PmId> pm_;
};

}  // namespace nanet::rich
