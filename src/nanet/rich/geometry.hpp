// SPDX-License-Identifier: Apache-2.0
// The photomultiplier lattice of the NA62 RICH, by rule (docs/detector.md gives the source of each number).
#pragma once

#include <array>

#include "nanet/rich/ring.hpp"
#include "nanet/units.hpp"

namespace nanet::rich {

// Rows of PMs are 9 sqrt(3) mm apart: y of a PM on its disk is exactly float(row) * row_mm.
inline constexpr float row_mm = 15.588457f;

// Positions in mm. PM ID = 976 * disk + 488 * down + 8 * supercell + pm; disk 0 Jura, 1 Saleve.
struct Geometry {
  std::array<Point, pm_count> disk;    // on its own disk
  std::array<Point, pm_count> common;  // common plane: disk position - mirror rotation of the disk

  static Geometry make(Point mirror_jura = {127.0f, 0.0f}, Point mirror_saleve = {177.0f, 0.0f});
};

}  // namespace nanet::rich
