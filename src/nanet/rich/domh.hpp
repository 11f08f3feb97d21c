// SPDX-License-Identifier: Apache-2.0
// DOMH: histogram of hit distances for every PM position as trial centre, parallel over data. Lanes are the
// hits of one centre, then its bins. From the first GPU study: G. Collazuol et al., NIM A 662 (2012) 49.
#pragma once

#include <string_view>

#include "nanet/rich/pm_centres.hpp"
#include "nanet/rich/radius_histogram.hpp"
#include "nanet/rich/single_ring.hpp"

namespace nanet::rich {

// One ring per event; same bits as POMH, which distributes the work the other way.
struct Domh {
  static constexpr std::string_view name = "domh";
  static constexpr bool rejects_noise = true;
  using Parameters = RingLimits;
  static Keys<Parameters> keys() { return robust_keys<Parameters>(); }
  static constexpr std::int32_t row = radius_bins + 4;  // two extra bins at either end
  struct Scratch {
    Hits hits;
    std::int32_t bin[row];
  };
  static_assert(radius_bins == lanes_step, "a lane is a bin");

  Parameters parameters;

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& s, Rings& rings) const {
    using F = typename L::F;
    using I = typename L::I;
    using M = typename L::M;
    const std::int32_t n = load_hits<L>(event, plane, s.hits);
    if (n < 3 || n < static_cast<std::int32_t>(parameters.min_hits)) return write_rings<L>(Rings{}, rings);
    const std::int32_t votes = n < max_votes ? n : max_votes;

    const RadiusBins bins(parameters.r_min, parameters.r_max, 1.0f);
    const I lane = L::lane();
    const M edge = (lane < I(2)) | (lane >= I(radius_bins - 2));
    L::store(s.bin, I(0));
    L::sync();
    L::store(s.bin + row - lanes_step, I(0));
    L::sync();
    Peak<L> peak;
    for (std::int32_t centre = 0; centre < parameters.model.centres; ++centre) {
      const Point p = pm_centre(plane, parameters.model, centre);
      I count(0);
      for (std::int32_t first = 0; first < votes; first += lanes_step) {
        const F at =
            bin_place<L>(bins, L::load(s.hits.x + first) - F(p.x), L::load(s.hits.y + first) - F(p.y));
        const M inside =
            (at >= F(0.0f)) & (at < F(static_cast<float>(radius_bins))) & (lane < I(votes - first));
        const I bin = L::to_int(L::select(inside, at, F(0.0f)));
        count = count + how_many<L>(hits_of_lane<L>(bin, inside));
      }
      // Triangular sum around each bin.
      L::store(s.bin + 2, count);
      L::sync();
      const I outer = L::load(s.bin) + L::load(s.bin + 4), inner = L::load(s.bin + 1) + L::load(s.bin + 3);
      L::sync();
      peak.offer(outer + (inner << 1) + count + (count << 1), lane + I(centre * radius_bins), !edge);
    }
    const BestPeak best = best_peak<L>(peak);
    if (best.score == 0) return write_rings<L>(Rings{}, rings);
    write_rings<L>(
        single_ring<L>(s.hits, n, peak_circle(plane, parameters.model, bins, best.code), parameters), rings);
  }

 private:
  // Transposes ballots: bit i of lane b is set if the value of lane i is b. Five ballots, one per value bit.
  template <class L>
  NANET_HD static typename L::I hits_of_lane(const typename L::I& value, const typename L::M& inside) {
    using I = typename L::I;
    I hits(static_cast<std::int32_t>(L::ballot(inside)));
    for (std::int32_t bit = 0; bit < 5; ++bit) {
      const I set(static_cast<std::int32_t>(L::ballot((value & I(1 << bit)) != I(0))));
      const I mine = (L::lane() >> bit) & I(1);
      hits = hits & (set ^ (mine - I(1)));
    }
    return hits;
  }
  // Number of set bits in each lane.
  template <class L>
  NANET_HD static typename L::I how_many(typename L::I v) {
    using I = typename L::I;
    const I ones(0x11111111);  // groups of four bits keep clear of the sign bit; pairs would not
    v = (v & ones) + ((v >> 1) & ones) + ((v >> 2) & ones) + ((v >> 3) & ones);
    v = (v + (v >> 4)) & I(0x0F0F0F0F);
    v = v + (v >> 8);
    v = v + (v >> 16);
    return v & I(0x3F);
  }
};

}  // namespace nanet::rich
