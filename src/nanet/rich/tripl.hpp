// SPDX-License-Identifier: Apache-2.0
// TRIPL: combines the circles through many hit triplets to one ring. One of the five families of the first
// GPU study for the NA62 RICH: G. Collazuol et al., Nucl. Instr. Meth. A 662 (2012) 49.
#pragma once

#include <string_view>

#include "nanet/rich/single_ring.hpp"
#include "nanet/rich/triplets.hpp"

namespace nanet::rich {

// One ring per event. Lanes are triplets. The first study averaged their circles. This version averages
// around the best-supported circle, so that triplets with a noise hit do not bias the result.
struct Tripl {
  static constexpr std::string_view name = "tripl";
  static constexpr bool rejects_noise = true;
  struct Parameters : RingLimits {
    std::uint32_t triplets = 96;  // rounded up to a multiple of 32
    float separation = 40.0f;     // mm: minimum distance between two hits of a triplet
  };
  static constexpr std::uint32_t max_triplets = 192;
  static Keys<Parameters> keys() {
    using P = Parameters;
    return robust_keys<P>({
        {"triplets", &P::triplets, 1, max_triplets, "triplets of hits looked at, 32 at a time"},
        {"separation", &P::separation, 0, 1000, "least distance between two hits of a triplet in mm"},
    });
  }
  struct Scratch {
    Hits hits;
    alignas(64) float x[max_triplets];
    alignas(64) float y[max_triplets];
    alignas(64) float r[max_triplets];
    alignas(64) float weight[max_triplets];  // 0: no circle
  };

  Parameters parameters;

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& s, Rings& rings) const {
    using F = typename L::F;
    using M = typename L::M;
    const std::int32_t n = load_hits<L>(event, plane, s.hits);
    if (n < 3 || n < static_cast<std::int32_t>(parameters.min_hits)) return write_rings<L>(Rings{}, rings);

    // Circle of each triplet and its support by the hits. A hit on the circle counts 1, falling to 0 at twice
    // the cut.
    const std::int32_t triplets = static_cast<std::int32_t>(parameters.triplets);
    const float reach = 2.0f * parameters.cut, per_reach2 = 1.0f / (reach * reach);
    F best_support{0.0f}, best_x{0.0f}, best_y{0.0f}, best_r{0.0f};
    for (std::int32_t first = 0; first < triplets; first += lanes_step) {
      const TripletCircle<L> t = triplet_circle<L>(s.hits, n, first, parameters.separation);
      const M good = t.good & (t.r >= F(parameters.r_min)) & (t.r <= F(parameters.r_max));
      F supported{0.0f};
      for (std::int32_t i = 0; i < n; ++i) {
        const F dx = F(s.hits.x[i]) - t.x, dy = F(s.hits.y[i]) - t.y;
        const F off = L::sqrt(L::fma(dx, dx, dy * dy)) - t.r;
        supported = supported + L::max(F(0.0f), F(1.0f) - off * off * F(per_reach2));
      }
      const F weight = L::select(good, t.quality * supported, F(0.0f));
      L::store(s.x + first, t.x);
      L::store(s.y + first, t.y);
      L::store(s.r + first, t.r);
      L::store(s.weight + first, weight);
      const M better = good & (supported > best_support);
      best_support = L::select(better, supported, best_support);
      best_x = L::select(better, t.x, best_x);
      best_y = L::select(better, t.y, best_y);
      best_r = L::select(better, t.r, best_r);
    }
    const float most = L::max(best_support);
    if (!(most > 0.0f)) return write_rings<L>(Rings{}, rings);
    const int lane = first_lane<L>(best_support == F(most));
    Circle c{L::at(best_x, lane), L::at(best_y, lane), L::at(best_r, lane)};

    // Mode of the circles: an iterated weighted mean around the previous value. Each lane reads its own
    // writes.
    for (int step = 0; step < 2; ++step) {
      const float width = step == 0 ? 40.0f : 25.0f, per_width2 = 1.0f / (width * width);
      F sum{0.0f}, sum_x{0.0f}, sum_y{0.0f}, sum_r{0.0f};
      for (std::int32_t first = 0; first < triplets; first += lanes_step) {
        const F dx = L::load(s.x + first) - F(c.x), dy = L::load(s.y + first) - F(c.y);
        const F dr = L::load(s.r + first) - F(c.r);
        const F near = F(1.0f) - L::fma(dx, dx, L::fma(dy, dy, dr * dr)) * F(per_width2);
        const F weight = L::load(s.weight + first);
        const F w = L::select(weight > F(0.0f), L::max(F(0.0f), near) * weight, F(0.0f));
        sum = sum + w;
        sum_x = L::select(w > F(0.0f), L::fma(w, dx, sum_x), sum_x);
        sum_y = L::select(w > F(0.0f), L::fma(w, dy, sum_y), sum_y);
        sum_r = L::select(w > F(0.0f), L::fma(w, dr, sum_r), sum_r);
      }
      const float all = L::sum(sum);
      if (!(all > 0.0f)) break;
      c = {c.x + L::sum(sum_x) / all, c.y + L::sum(sum_y) / all, c.r + L::sum(sum_r) / all};
    }
    write_rings<L>(single_ring<L>(s.hits, n, c, parameters), rings);
  }
};

}  // namespace nanet::rich
