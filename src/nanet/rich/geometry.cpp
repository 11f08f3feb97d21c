// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/geometry.hpp"

#include <iterator>

namespace nanet::rich {
namespace {

// PMs of a supercell relative to its centre: x in mm, y in rows. Pitch 18 mm; row distance 18 sin 60 deg = 9
// sqrt(3) mm.
struct Position {
  int x, row;
};
constexpr Position pm_in_cell[8] = {{-18, -1}, {0, -1}, {18, -1}, {-9, 0}, {9, 0}, {-18, 1}, {0, 1}, {18, 1}};
constexpr Position cell_step = {45, -1};
constexpr unsigned rows = 6;
constexpr unsigned cells_in_row[rows] = {12, 12, 11, 11, 9, 6};
// Centre of the first supercell of each row, upper and lower half disk. The published table gives y in mm
// with two decimals: 109.12 is row 7.
constexpr Position first_in_row[2][rows] = {
    {{-243, 7}, {-234, 10}, {-180, 12}, {-171, 15}, {-117, 17}, {-18, 18}},
    {{-252, 4}, {-261, 1}, {-270, -2}, {-279, -5}, {-243, -9}, {-207, -13}}};

}  // namespace

Geometry Geometry::make(Point mirror_jura, Point mirror_saleve) {
  Geometry geometry;
  const Point mirror[2] = {mirror_jura, mirror_saleve};
  geometry.shift.assign(std::begin(mirror), std::end(mirror));
  for (const Point& shift : mirror) {
    for (const auto& half : first_in_row) {
      for (unsigned row = 0; row < rows; ++row) {
        for (unsigned cell = 0; cell < cells_in_row[row]; ++cell) {
          for (const Position& pm : pm_in_cell) {
            const int row_number = half[row].row + static_cast<int>(cell) * cell_step.row + pm.row;
            const float x = static_cast<float>(half[row].x + static_cast<int>(cell) * cell_step.x + pm.x);
            const float y = static_cast<float>(row_number) * row_mm;
            geometry.disk.push_back({x, y});
            geometry.common.push_back({x - shift.x, y - shift.y});
            geometry.disk_of.push_back(static_cast<std::uint8_t>(&shift - mirror));
          }
        }
      }
    }
  }
  return geometry;
}

const std::shared_ptr<const Geometry>& na62() {
  static const auto geometry = std::make_shared<const Geometry>(Geometry::make());
  return geometry;
}

}  // namespace nanet::rich
