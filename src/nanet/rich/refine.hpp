// SPDX-License-Identifier: Apache-2.0
// Circle refinement, the last step of the 32-lane algorithms: Gauss-Newton least squares over the hits near a
// rough circle, with a shrinking cut.
#pragma once

#include <cmath>

#include "nanet/rich/hits.hpp"

namespace nanet::rich {

struct Circle {  // mm, common plane
  float x = 0, y = 0, r = 0;
};

// Half width of the hit band around a circle. A photon is recorded at its PM centre, up to 10.4 mm away,
// after 1 mm of smear. Of the generator's hits 1 % are farther than 10 mm from their ring, and 1 in 7000
// farther than 12 mm.
inline constexpr float ring_cut_mm = 12.0f;

struct Support {
  std::int32_t hits = 0;  // within the cut
  float squares = 0;      // sum of (distance - r)^2 over them, mm^2
};

// chi2_ndf as defined in ring.hpp.
NANET_HD inline float chi2_per_freedom(const Support& s, const RingModel& model) {
  return s.hits > 3 ? s.squares / (model.sigma2 * static_cast<float>(s.hits - 3)) : 0.0f;
}

// Residual and direction of hit `first + lane` relative to the circle.
template <class L>
struct Residual {
  typename L::F off;     // distance to the centre - r
  typename L::F ux, uy;  // unit vector from the centre to the hit
};
template <class L>
NANET_HD inline Residual<L> residual(const Hits& hits, std::int32_t first, const Circle& c) {
  using F = typename L::F;
  const F dx = L::load(hits.x + first) - F(c.x), dy = L::load(hits.y + first) - F(c.y);
  const F d = L::sqrt(L::fma(dx, dx, dy * dy));
  const F inverse = F(1.0f) / L::max(d, F(1e-3f));
  return {d - F(c.r), dx * inverse, dy * inverse};
}

// Selects the hits of this ring from hits first + lane with residuals `off`. Default: all hits.
template <class L>
struct AnyHit {
  NANET_HD typename L::M operator()(std::int32_t, const typename L::F&) const { return typename L::M(true); }
};

// One step over the hits within `cut` of the circle that `mine` selects. Returns false, and leaves the circle
// unchanged, if the hits do not fix one.
template <class L, class Mine = AnyHit<L>>
NANET_HD inline bool gauss_newton(const Hits& hits, std::int32_t n, float cut, Circle& c,
                                  const Mine& mine = {}) {
  using F = typename L::F;
  using M = typename L::M;
  F s{0.0f}, su{0.0f}, sv{0.0f}, suu{0.0f}, suv{0.0f}, svv{0.0f}, se{0.0f}, sue{0.0f}, sve{0.0f};
  for (std::int32_t first = 0; first < n; first += lanes_step) {
    const Residual<L> a = residual<L>(hits, first, c);
    const M near = (L::abs(a.off) < F(cut)) & (L::lane() < typename L::I(n - first)) & mine(first, a.off);
    const F w = L::select(near, F(1.0f), F(0.0f));
    const F u = w * a.ux, v = w * a.uy;
    s = s + w;
    su = su + u;
    sv = sv + v;
    suu = L::fma(u, u, suu);
    suv = L::fma(u, v, suv);
    svv = L::fma(v, v, svv);
    se = L::fma(w, a.off, se);
    sue = L::fma(u, a.off, sue);
    sve = L::fma(v, a.off, sve);
  }
  const float weight = L::sum(s);
  if (!(weight >= 3.0f)) return false;
  // off(c + step) = off - u dx - v dy - dr: subtracting the means eliminates dr.
  const float mu = L::sum(su) / weight, mv = L::sum(sv) / weight, me = L::sum(se) / weight;
  const float uu = L::sum(suu) - weight * mu * mu, vv = L::sum(svv) - weight * mv * mv;
  const float uv = L::sum(suv) - weight * mu * mv;
  const float ue = L::sum(sue) - weight * mu * me, ve = L::sum(sve) - weight * mv * me;
  // Hits at fewer than three positions fix no circle: their directions span one dimension. Four hits on 30
  // degrees of a circle have det / trace^2 = 5e-3; rounding errors are 1e-7.
  const float trace = uu + vv;
  if (!(trace > 1e-4f * weight && uu * vv - uv * uv > 1e-5f * trace * trace)) return false;
  // Hits on a short arc hardly fix the centre along the arc; this stiffness keeps the step finite.
  const float ridge = 1e-3f * weight;
  const float a = uu + ridge, b = vv + ridge, det = a * b - uv * uv;
  float dx = (ue * b - ve * uv) / det, dy = (ve * a - ue * uv) / det;
  const float longest = 2.0f * cut;  // the linear step is invalid beyond this length
  const float length2 = dx * dx + dy * dy;
  if (!(length2 < 1e12f)) return false;
  if (length2 > longest * longest) {
    const float shrink = longest / sqrtf(length2);
    dx = dx * shrink;
    dy = dy * shrink;
  }
  c = {c.x + dx, c.y + dy, c.r + (me - mu * dx - mv * dy)};
  return true;
}

// Counts the hits within `cut` of the circle that `mine` selects.
template <class L, class Mine = AnyHit<L>>
NANET_HD inline Support support(const Hits& hits, std::int32_t n, float cut, const Circle& c,
                                const Mine& mine = {}) {
  using F = typename L::F;
  F squares{0.0f}, count{0.0f};
  for (std::int32_t first = 0; first < n; first += lanes_step) {
    const F off = residual<L>(hits, first, c).off;
    const typename L::M near =
        (L::abs(off) < F(cut)) & (L::lane() < typename L::I(n - first)) & mine(first, off);
    count = count + L::select(near, F(1.0f), F(0.0f));
    squares = L::select(near, L::fma(off, off, squares), squares);
  }
  return {static_cast<std::int32_t>(L::sum(count)), L::sum(squares)};
}

// Turns c into the least-squares circle of the hits within `cut` of it. The first steps use a wider cut,
// since the start may be off by as much. Six steps: a seventh would change 1 event in 200 by more than 0.001
// mm, for a start 12 mm off in the centre and 8 mm in the radius. Zero hits in the result: no circle fits.
template <class L>
NANET_HD inline Support refine(const Hits& hits, std::int32_t n, float cut, Circle& c) {
  float wider = 1.25f * cut;
  for (int step = 0; step < 6; ++step) {
    if (!gauss_newton<L>(hits, n, cut + wider, c)) return {};
    wider = step < 3 ? 0.5f * wider : 0.0f;
  }
  return support<L>(hits, n, cut, c);
}

}  // namespace nanet::rich
