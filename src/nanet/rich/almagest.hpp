// SPDX-License-Identifier: Apache-2.0
// ALMAGEST: several rings by Ptolemy's theorem (G. Lamanna, NIM A 766 (2014) 241). Four points lie on a
// circle if and only if the products of opposite sides of their quadrilateral add up to the product of its
// diagonals.
#pragma once

#include <string_view>

#include "nanet/rich/single_ring.hpp"
#include "nanet/rich/triplets.hpp"

namespace nanet::rich {

// Up to four rings per event, found one after the other. Lanes are seed triplets. Each lane tests all
// remaining hits against the circle of its triplet, without computing the circle. The triplet with most hits
// is fitted, and its hits are removed. Finally each hit is assigned to the nearest ring, and the rings are
// refitted.
struct Almagest {
  static constexpr std::string_view name = "almagest";
  static constexpr unsigned most_rings = rich::max_rings;
  static constexpr bool rejects_noise = true;
  struct Parameters : RingLimits {
    std::uint32_t triplets = 256;  // seeds for each ring, 32 at a time
    float separation = 90.0f;      // mm: minimum distance between two hits of a seed, as in the experiment
    // mm^2, as in the experiment: cut on
    // AC BD - (AB CD + BC AD)
    // . It equals d^2 / 2 for a hit D at distance d from the circle, midway between two seed hits: 40 mm^2 is
    // 9 mm there. It is less near a seed hit.
    float ptolemy = 40.0f;
    std::uint32_t max_rings = rich::max_rings;
  };
  static constexpr std::uint32_t max_triplets = 1024;
  static Keys<Parameters> keys() {
    using P = Parameters;
    return robust_keys<P>({
        {"triplets", &P::triplets, 1, max_triplets, "seed triplets for each ring, 32 at a time"},
        {"separation", &P::separation, 0, 1000, "least distance between two hits of a seed in mm"},
        {"ptolemy", &P::ptolemy, 1, 10000,
         "how far from Ptolemy's equation a hit of the seed's ring may be, in mm^2"},
        {"max_rings", &P::max_rings, 1, rich::max_rings, "rings looked for"},
    });
  }
  // Fitted seeds per ring, the best of as many lanes. The fit with most hits becomes the ring.
  static constexpr std::int32_t tries = 4;
  struct Scratch {
    Hits hits;
    Hits left;  // hits without a ring
  };

  Parameters parameters;

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& s, Rings& rings) const {
    const std::int32_t n = load_hits<L>(event, plane, s.hits);
    std::int32_t left = load_hits<L>(event, plane, s.left), count = 0;
    Circle ring[rich::max_rings];
    const std::int32_t most = static_cast<std::int32_t>(parameters.max_rings);
    while (count < most && find_ring<L>(s.left, left, ring[count])) {
      left = take_away<L>(s.left, left, ring[count]);
      ++count;
    }
    write_rings<L>(settle<L>(s.hits, n, ring, count), rings);
  }

 private:
  // A seed and the number of hits compatible with it.
  template <class L>
  struct Seed {
    typename L::F score{0.0f}, x{0.0f}, y{0.0f}, r{0.0f};
  };

  // Fits a ring to the n hits; false if no seed gives one.
  template <class L>
  NANET_HD bool find_ring(const Hits& hits, std::int32_t n, Circle& ring) const {
    using F = typename L::F;
    if (n < 3 || n < static_cast<std::int32_t>(parameters.min_hits)) return false;
    Seed<L> seed;
    for (std::int32_t first = 0; first < static_cast<std::int32_t>(parameters.triplets); first += lanes_step)
      try_seeds<L>(hits, n, first, seed);
    Support most;
    for (std::int32_t k = 0; k < tries; ++k) {
      const float best = L::max(seed.score);
      if (!(best > 0.0f)) break;
      const int lane = first_lane<L>(seed.score == F(best));
      seed.score = L::select(L::lane() == typename L::I(lane), F(0.0f), seed.score);
      Circle c{L::at(seed.x, lane), L::at(seed.y, lane), L::at(seed.r, lane)};
      const Support now = refine<L>(hits, n, parameters.cut, c);
      if (!is_ring(parameters, c, now.hits)) continue;
      if (now.hits < most.hits || (now.hits == most.hits && now.squares >= most.squares)) continue;
      most = now;
      ring = c;
    }
    return most.hits > 0;
  }

  // Tests seeds first .. first + 31; each lane keeps its best seed.
  template <class L>
  NANET_HD void try_seeds(const Hits& hits, std::int32_t n, std::int32_t first, Seed<L>& seed) const {
    using F = typename L::F;
    using M = typename L::M;
    const Triplet<L> t = choose_triplet<L>(n, first);
    const F ax = L::gather(hits.x, t.a), ay = L::gather(hits.y, t.a);
    const F bx = L::gather(hits.x, t.b), by = L::gather(hits.y, t.b);
    const F cx = L::gather(hits.x, t.c), cy = L::gather(hits.y, t.c);
    const TripletCircle<L> circle = circle_through<L>(ax, ay, bx, by, cx, cy, parameters.separation);
    const M good = circle.good & (circle.r >= F(parameters.r_min)) & (circle.r <= F(parameters.r_max));
    if (!L::any(good)) return;
    const F ab = distance<L>(ax - bx, ay - by), bc = distance<L>(bx - cx, by - cy);
    const F ca = distance<L>(cx - ax, cy - ay);
    const float per_cut = 1.0f / parameters.ptolemy;
    F with{0.0f}, off{0.0f};
    for (std::int32_t i = 0; i < n; ++i) {
      const F dx{hits.x[i]}, dy{hits.y[i]};
      // The product of the diagonals is the largest, whichever pair they are.
      const F p = ab * distance<L>(cx - dx, cy - dy), q = bc * distance<L>(ax - dx, ay - dy);
      const F r = ca * distance<L>(bx - dx, by - dy);
      const F largest = L::max(p, L::max(q, r));
      const F amiss = L::abs(p + q + r - largest - largest) * F(per_cut);
      const M on = amiss < F(1.0f);
      with = with + L::select(on, F(1.0f), F(0.0f));
      off = off + L::select(on, amiss, F(0.0f));
    }
    // Most hits, including the three of the seed; the better fit resolves ties.
    const F score = with - off / with;
    const M enough = good & (with >= F(static_cast<float>(parameters.min_hits)));
    const M better = enough & (score > seed.score);
    seed.score = L::select(better, score, seed.score);
    seed.x = L::select(better, circle.x, seed.x);
    seed.y = L::select(better, circle.y, seed.y);
    seed.r = L::select(better, circle.r, seed.r);
  }

  template <class L>
  NANET_HD static typename L::F distance(const typename L::F& dx, const typename L::F& dy) {
    return L::sqrt(L::fma(dx, dx, dy * dy));
  }

  // Removes the hits within the cut of the ring. Returns the number of remaining hits.
  template <class L>
  NANET_HD std::int32_t take_away(Hits& hits, std::int32_t n, const Circle& ring) const {
    using F = typename L::F;
    std::int32_t kept = 0;
    for (std::int32_t first = 0; first < n; first += lanes_step) {
      const typename L::M off = L::abs(residual<L>(hits, first, ring).off) >= F(parameters.cut);
      const std::uint32_t stay = L::ballot(off & (L::lane() < typename L::I(n - first)));
      L::sync();
      for (std::int32_t i = 0; i < lanes_step; ++i) {
        if (!(stay >> i & 1u)) continue;
        if (leads<L>()) {
          hits.x[kept] = hits.x[first + i];
          hits.y[kept] = hits.y[first + i];
        }
        ++kept;
      }
      L::sync();
    }
    return kept;
  }

  // Hits nearer to ring `which` than to the other rings.
  template <class L>
  struct Nearest {
    const Hits& hits;
    const Circle* ring;
    std::int32_t count, which;
    NANET_HD typename L::M operator()(std::int32_t first, const typename L::F& off) const {
      typename L::M mine(true);
      for (std::int32_t k = 0; k < count; ++k)
        if (k != which) mine = mine & (L::abs(off) <= L::abs(residual<L>(hits, first, ring[k]).off));
      return mine;
    }
  };

  // Fits each ring to its nearest hits; drops rings with too few hits.
  template <class L>
  NANET_HD Rings settle(const Hits& hits, std::int32_t n, Circle* ring, std::int32_t count) const {
    Rings out;
    Support found[rich::max_rings];
    for (std::int32_t round = 0; round < static_cast<std::int32_t>(rich::max_rings) && count > 0; ++round) {
      for (std::int32_t step = 0; step < 3; ++step)
        for (std::int32_t k = 0; k < count; ++k)
          gauss_newton<L>(hits, n, parameters.cut, ring[k], Nearest<L>{hits, ring, count, k});
      std::int32_t worst = -1;
      for (std::int32_t k = 0; k < count; ++k) {
        found[k] = support<L>(hits, n, parameters.cut, ring[k], Nearest<L>{hits, ring, count, k});
        if (!is_ring(parameters, ring[k], found[k].hits) && (worst < 0 || found[k].hits < found[worst].hits))
          worst = k;
      }
      if (worst < 0) break;
      --count;
      ring[worst] = ring[count];
      found[worst] = found[count];
    }
    for (std::int32_t k = 0; k < count; ++k) {
      const Ring now{ring[k].x, ring[k].y, ring[k].r, chi2_per_freedom(found[k], parameters.model),
                     static_cast<std::uint8_t>(found[k].hits)};
      out.ambiguous = out.ambiguous || is_ambiguous(parameters, found[k].hits);
      std::int32_t at = k;
      while (at > 0 && (out.ring[at - 1].hits < now.hits ||
                        (out.ring[at - 1].hits == now.hits && out.ring[at - 1].r < now.r))) {
        out.ring[at] = out.ring[at - 1];
        --at;
      }
      out.ring[at] = now;
    }
    out.count = static_cast<std::uint8_t>(count);
    return out;
  }
};

}  // namespace nanet::rich
