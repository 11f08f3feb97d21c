// SPDX-License-Identifier: Apache-2.0
// HOUGH: accumulator over centre and radius, first coarse, then fine around its peaks. Adaptive Hough
// transform (J. Illingworth and J. Kittler, IEEE PAMI 9 (1987) 690), for circles.
#pragma once

#include <string_view>

#include "nanet/rich/radius_histogram.hpp"
#include "nanet/rich/single_ring.hpp"

namespace nanet::rich {

// One ring per event. Lanes are trial centres: each lane holds the radius axis of the accumulator at its
// centre.
struct Hough {
  static constexpr std::string_view name = "hough";
  static constexpr bool rejects_noise = true;
  struct Parameters : RingLimits {
    float cell = 20.0f;  // mm: step of the 16 x 16 coarse centres around the centroid of the hits
  };
  static constexpr std::int32_t coarse_side = 16, fine_side = 8, candidates = 4;
  static Keys<Parameters> keys() {
    using P = Parameters;
    return robust_keys<P>({{"cell", &P::cell, 1, 100, "step of the coarse trial centres in mm"}});
  }
  struct Scratch {
    Hits hits;
  };

  Parameters parameters;

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& s, Rings& rings) const {
    const std::int32_t n = load_hits<L>(event, plane, s.hits);
    if (n < 3 || n < static_cast<std::int32_t>(parameters.min_hits)) return write_rings<L>(Rings{}, rings);

    // Coarse: hit distances are off by up to 0.7 cells, so bins are twice as wide.
    const RadiusBins wide(parameters.r_min, parameters.r_max, 2.0f);
    const Grid coarse{middle<L>(s.hits, n), parameters.cell, coarse_side};
    Peak<L> peak;
    search<L>(s.hits, n, wide, coarse, 0, peak);

    // Fine: grids around the best coarse centre of the best lanes, slightly wider than two cells.
    const RadiusBins bins(parameters.r_min, parameters.r_max, 1.0f);
    Peak<L> fine_peak;
    BestPeak best;
    Circle start;
    for (std::int32_t k = 0; k < candidates; ++k) {
      const BestPeak cell = best_peak<L>(peak);
      if (cell.score == 0) break;
      peak.score = L::select(peak.code == typename L::I(cell.code), typename L::I(0), peak.score);
      const Grid fine{coarse.centre(cell.code / radius_bins), 0.27f * parameters.cell, fine_side};
      search<L>(s.hits, n, bins, fine, k, fine_peak);
      const BestPeak now = best_peak<L>(fine_peak);
      if (now.score <= best.score) continue;
      best = now;
      const Point p = fine.centre(now.code / radius_bins % (fine_side * fine_side));
      start = {p.x, p.y, bins.middle(now.code % radius_bins)};
    }
    if (best.score == 0) return write_rings<L>(Rings{}, rings);
    write_rings<L>(single_ring<L>(s.hits, n, start, parameters), rings);
  }

 private:
  // Grid of side x side centres around a point, row by row.
  struct Grid {
    Point about;
    float step;
    std::int32_t side;  // 8 or 16: the same number of centres for every lane
    NANET_HD float offset(std::int32_t i) const {
      return (static_cast<float>(i) - 0.5f * static_cast<float>(side - 1)) * step;
    }
    NANET_HD Point centre(std::int32_t number) const {
      return {about.x + offset(number % side), about.y + offset(number / side)};
    }
  };

  // Centroid of the hits.
  template <class L>
  NANET_HD static Point middle(const Hits& hits, std::int32_t n) {
    using F = typename L::F;
    F x{0.0f}, y{0.0f};
    for (std::int32_t first = 0; first < n; first += lanes_step) {  // entries after the last hit are 0
      x = x + L::load(hits.x + first);
      y = y + L::load(hits.y + first);
    }
    return {L::sum(x) / static_cast<float>(n), L::sum(y) / static_cast<float>(n)};
  }

  // Updates the peak with the centres of a grid; code: (round * centres + centre) * radius_bins + bin.
  template <class L>
  NANET_HD static void search(const Hits& hits, std::int32_t n, const RadiusBins& bins, const Grid& grid,
                              std::int32_t round, Peak<L>& peak) {
    using F = typename L::F;
    using I = typename L::I;
    const std::int32_t centres = grid.side * grid.side, shift = grid.side == 16 ? 4 : 3;
    const float half = 0.5f * static_cast<float>(grid.side - 1);
    for (std::int32_t first = 0; first < centres; first += lanes_step) {
      const I number = L::lane() + I(first);
      const F column = L::to_float(number & I(grid.side - 1)), row = L::to_float(number >> shift);
      RadiusHistogram<L> histogram;
      histogram.fill(hits, n, bins, F(grid.about.x) + (column - F(half)) * F(grid.step),
                     F(grid.about.y) + (row - F(half)) * F(grid.step));
      histogram.find_peak(number + I(round * centres), typename L::M(true), peak);
    }
  }
};

}  // namespace nanet::rich
