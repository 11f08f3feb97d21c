// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/geometry.hpp"

namespace nanet::rich {
namespace {

struct Position {
  double x, y;
};

// PMs of a supercell around its centre, mm: 18 mm pitch, rows 15.588 mm (18 sin 60 deg) apart.
constexpr Position pm_in_cell[8] = {{-18, -15.588}, {0, -15.588},  {18, -15.588}, {-9, 0},
                                    {9, 0},         {-18, 15.588}, {0, 15.588},   {18, 15.588}};
constexpr Position row_step = {45, -15.588};
constexpr unsigned rows = 6;
constexpr unsigned cells_in_row[rows] = {12, 12, 11, 11, 9, 6};
// Centre of the first supercell of each row, mm, upper and lower half disk.
constexpr Position first_in_row[2][rows] = {
    {{-243, 109.12}, {-234, 155.88}, {-180, 187.06}, {-171, 233.83}, {-117, 265.00}, {-18, 280.59}},
    {{-252, 62.35}, {-261, 15.59}, {-270, -31.18}, {-279, -77.94}, {-243, -140.30}, {-207, -202.65}}};

}  // namespace

Geometry Geometry::make(Point mirror_jura, Point mirror_saleve) {
  Geometry geometry;
  const Point mirror[2] = {mirror_jura, mirror_saleve};
  std::size_t id = 0;
  for (const Point& shift : mirror) {
    for (const auto& half : first_in_row) {
      for (unsigned row = 0; row < rows; ++row) {
        for (unsigned cell = 0; cell < cells_in_row[row]; ++cell) {
          for (const Position& pm : pm_in_cell) {
            const double x = half[row].x + cell * row_step.x + pm.x;
            const double y = half[row].y + cell * row_step.y + pm.y;
            geometry.disk[id] = {static_cast<float>(x), static_cast<float>(y)};
            geometry.common[id] = {static_cast<float>(x - static_cast<double>(shift.x)),
                                   static_cast<float>(y - static_cast<double>(shift.y))};
            ++id;
          }
        }
      }
    }
  }
  return geometry;
}

}  // namespace nanet::rich
