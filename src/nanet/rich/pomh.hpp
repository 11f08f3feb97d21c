// SPDX-License-Identifier: Apache-2.0
// POMH: histogram of hit distances for every PM position as trial centre, parallel over problems. Each lane
// processes one centre. From the first GPU study: G. Collazuol et al., NIM A 662 (2012) 49.
#pragma once

#include <string_view>

#include "nanet/rich/pm_centres.hpp"
#include "nanet/rich/radius_histogram.hpp"
#include "nanet/rich/single_ring.hpp"

namespace nanet::rich {

// One ring per event; same bits as DOMH, which distributes the work the other way.
struct Pomh {
  static constexpr std::string_view name = "pomh";
  static constexpr bool rejects_noise = true;
  using Parameters = RingLimits;
  static Keys<Parameters> keys() { return robust_keys<Parameters>(); }
  struct Scratch {
    Hits hits;
  };

  Parameters parameters;

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& s, Rings& rings) const {
    using F = typename L::F;
    using I = typename L::I;
    const std::int32_t n = load_hits<L>(event, plane, s.hits);
    if (n < 3 || n < static_cast<std::int32_t>(parameters.min_hits)) return write_rings<L>(Rings{}, rings);

    const RadiusBins bins(parameters.r_min, parameters.r_max, 1.0f);
    const float* coordinates = &plane->x;
    Peak<L> peak;
    const std::int32_t centres = parameters.model.centres, beside = parameters.model.beside;
    for (std::int32_t first = 0; first < centres; first += lanes_step) {
      const I number = L::lane() + I(first);
      const typename L::M valid = number < I(centres);
      const I jura = L::select(valid, number, I(0)) << 1, saleve = jura + I(2 * beside);
      const F x = between<L>(L::gather(coordinates, jura), L::gather(coordinates, saleve));
      const F y = between<L>(L::gather(coordinates + 1, jura), L::gather(coordinates + 1, saleve));
      RadiusHistogram<L> histogram;
      histogram.fill(s.hits, n, bins, x, y);
      histogram.find_peak(number, valid, peak);
    }
    const BestPeak best = best_peak<L>(peak);
    if (best.score == 0) return write_rings<L>(Rings{}, rings);
    write_rings<L>(
        single_ring<L>(s.hits, n, peak_circle(plane, parameters.model, bins, best.code), parameters), rings);
  }
};

}  // namespace nanet::rich
