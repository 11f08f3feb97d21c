// SPDX-License-Identifier: Apache-2.0
// Choice of hit triplets, and the circle through three points; for TRIPL and ALMAGEST.
#pragma once

#include "nanet/rich/hits.hpp"

namespace nanet::rich {

template <class L>
struct Triplet {
  typename L::I a, b, c;  // indices of three different hits
};

// Triplet number first + lane of n >= 3 hits. Uses point t of an additive sequence that fills the unit cube
// evenly, one coordinate per hit. Any number of triplets thus covers all hits evenly, without a table.
// Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018; steps g^-1, g^-2, g^-3
// with g^4 = g + 1.
template <class L>
NANET_HD inline Triplet<L> choose_triplet(std::int32_t n, std::int32_t first) {
  using F = typename L::F;
  using I = typename L::I;
  const F t = L::to_float(L::lane() + I(first)) + F(0.5f);
  const auto pick = [&](float step, std::int32_t among) {
    const F at = t * F(step);
    const F fraction = at - L::to_float(L::to_int(at));  // [0, 1)
    const I i = L::to_int(fraction * F(static_cast<float>(among)));
    return L::select(i < I(among), i, I(among - 1));  // rounding may reach `among`
  };
  const I zero{0}, one{1};
  const I a = pick(0.8191725f, n);
  I b = pick(0.6710436f, n - 1);
  b = b + L::select(b >= a, one, zero);
  const I low = L::select(a < b, a, b), high = L::select(a < b, b, a);
  I c = pick(0.5497005f, n - 2);
  c = c + L::select(c >= low, one, zero);
  c = c + L::select(c >= high, one, zero);
  return {a, b, c};
}

template <class L>
struct TripletCircle {
  typename L::F x, y, r;  // mm; undefined unless good
  typename L::F quality;  // triangle quality: 1 if equilateral, 0 if flat
  typename L::M good;     // points are far enough apart and not collinear
};

// Circle through three points; tests that they are at least `separation` mm apart.
template <class L>
NANET_HD inline TripletCircle<L> circle_through(typename L::F ax, typename L::F ay, typename L::F bx,
                                                typename L::F by, typename L::F cx, typename L::F cy,
                                                float separation) {
  using F = typename L::F;
  const F ux = bx - ax, uy = by - ay, vx = cx - ax, vy = cy - ay, wx = cx - bx, wy = cy - by;
  const F uu = L::fma(ux, ux, uy * uy), vv = L::fma(vx, vx, vy * vy), ww = L::fma(wx, wx, wy * wy);
  const F det = ux * vy - uy * vx, around = uu + vv + ww;
  const F apart{separation * separation};
  const typename L::M good =
      (uu >= apart) & (vv >= apart) & (ww >= apart) & (det * det > F(1e-4f) * around * around);
  const F half = F(0.5f) / L::select(good, det, F(1.0f));
  const F px = (vy * uu - uy * vv) * half, py = (ux * vv - vx * uu) * half;
  const F quality = F(12.0f) * det * det / L::max(around * around, F(1e-6f));
  return {ax + px, ay + py, L::sqrt(L::fma(px, px, py * py)), quality, good};
}

template <class L>
NANET_HD inline TripletCircle<L> triplet_circle(const Hits& hits, std::int32_t n, std::int32_t first,
                                                float separation) {
  const Triplet<L> t = choose_triplet<L>(n, first);
  return circle_through<L>(L::gather(hits.x, t.a), L::gather(hits.y, t.a), L::gather(hits.x, t.b),
                           L::gather(hits.y, t.b), L::gather(hits.x, t.c), L::gather(hits.y, t.c),
                           separation);
}

}  // namespace nanet::rich
