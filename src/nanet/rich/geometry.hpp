// SPDX-License-Identifier: Apache-2.0
// Detector: positions of the channels, disks, boards, and parameters of rings and Monte Carlo. NA62's RICH is
// compiled in (source of each number: docs/detector.md); others come from files (python/nanet/detector).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nanet/rich/ring.hpp"
#include "nanet/units.hpp"

namespace nanet::rich {

// Row distance: 9 sqrt(3) mm. y of a PM on its disk is exactly float(row) * row_mm.
inline constexpr float row_mm = 15.588457f;

// Parameters of the toy Monte Carlo; the defaults are NA62's.
struct MonteCarlo {
  // Radiator.
  double focal_mm = 17.02e3, index = 1.0 + 62.8e-6, radiator_cm = 1700.0, merit_per_cm = 65.0;
  // Assumptions of the toy model.
  double momentum_low = 12.0, momentum_high = 60.0;  // GeV/c
  double centre_x = -152.0, centre_sigma = 60.0;     // mm; the mean ring centre is (centre_x, 0)
  double optics_mm = 1.0;
  double reach_mm = 10.4;                                           // a photon farther from every PM is lost
  std::array<double, 4> particle_shares = {0.10, 0.55, 0.35, 0.0};  // in the order of Particle
  std::array<double, 5> ring_shares = {0.05, 0.45, 0.27, 0.18, 0.05};  // events with 0 - 4 rings
  double hit_sigma_ns = 0.3, board_offset_ns = 1.0;
};

// Positions in mm. NA62: PM ID = 976 * disk + 488 * down + 8 * supercell + pm; disk 0 Jura, 1 Saleve.
struct Geometry {
  std::string name = "NA62 RICH";
  std::vector<Point> disk;            // in the plane of its disk, by PM ID
  std::vector<Point> common;          // common plane: position on the disk - shift of the disk
  std::vector<std::uint8_t> disk_of;  // number of the disk, by PM ID
  std::vector<Point> shift;           // by disk
  std::vector<std::uint32_t> first_of_board = {0, 512, 1024, 1536, pm_count};  // last: number of PMs
  RingModel rings;
  MonteCarlo monte_carlo;
  std::map<std::string, std::map<std::string, double>> parameters;  // defaults by algorithm and key

  std::size_t channels() const { return disk.size(); }
  unsigned boards() const { return static_cast<unsigned>(first_of_board.size() - 1); }
  unsigned board_of(PmId pm) const {
    unsigned board = 0;
    while (board + 1 < boards() && pm >= first_of_board[board + 1]) ++board;
    return board;
  }
  // PM IDs have 16 bits in packets and hits no time (hit encoding 1).
  bool wide() const { return channels() > pm_count; }

  static Geometry make(Point mirror_jura = {127.0f, 0.0f}, Point mirror_saleve = {177.0f, 0.0f});
};

// NA62's RICH.
const std::shared_ptr<const Geometry>& na62();

}  // namespace nanet::rich
