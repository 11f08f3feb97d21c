// SPDX-License-Identifier: Apache-2.0
// MULTIRING's search for one more ring: 32 candidates side by side, one per lane, each looking at all hits.
#pragma once

#include "nanet/rich/hits.hpp"
#include "nanet/rich/multiring_model.hpp"

namespace nanet::rich {

// Hits as the search sees them. Entries beyond the last hit up to a multiple of 32 are far from every ring.
struct MultiringHits {
  alignas(64) float x[max_event_hits];
  alignas(64) float y[max_event_hits];
  alignas(64) float per[max_event_hits];  // 1 / intensity without the ring that is looked for, in noise
  alignas(64) std::int32_t open[max_event_hits];  // hits that nothing explains yet
};

template <class L>
struct LaneCircles {
  typename L::F x, y, r;
};

template <class L>
struct MultiringSearch {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;

  const MultiringModel& model;
  const MultiringHits& hits;
  std::int32_t fours;  // hits / 4, rounded up
  float r_min, r_max;

  // ln of how much likelier the hits are with each lane's ring; half_width: of the band, mm.
  NANET_HD F gain(const LaneCircles<L>& c, float half_width) const {
    const F per_2r = F(0.5f) / c.r, half_r = c.r * F(-0.5f), on_ring = c.r * F(peak(half_width));
    const F per_width2{-1.0f / (half_width * half_width)};
    F sum{0.0f};
    for (std::int32_t i = 0; i < fours; i += 2) {
      F product{1.0f};
      for (std::int32_t j = i; j < i + 2; ++j) {
        float x[4], y[4], per[4];
        L::four(hits.x + 4 * j, x);
        L::four(hits.y + 4 * j, y);
        L::four(hits.per + 4 * j, per);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const F dx = F(x[k]) - c.x, dy = F(y[k]) - c.y;
          const F off = distance(dx, dy, per_2r, half_r);
          const F t = L::max(L::fma(off * per_width2, off, F(1.0f)), F(0.0f));
          const F density = on_ring * (t * t * L::fma(t, F(-1.3f), F(2.3f)));
          product = product * L::fma(density, F(per[k]), F(1.0f));
        }
      }
      sum = sum + logarithm<L>(product);
    }
    return sum + model.template standing<L>(c.x, c.y, c.r);
  }

  // One step of Gauss and Newton towards the hits in the band, each weighted with the probability that the
  // ring made it.
  NANET_HD void step(LaneCircles<L>& c, float half_width) const {
    Sums sums;
    const F per_2r = F(0.5f) / c.r, half_r = c.r * F(-0.5f), on_ring = c.r * F(peak(half_width));
    const F per_width2{-1.0f / (half_width * half_width)};
    const F per_r = per_2r + per_2r;
    for (std::int32_t i = 0; i < fours; ++i) {
      float x[4], y[4], per[4];
      L::four(hits.x + 4 * i, x);
      L::four(hits.y + 4 * i, y);
      L::four(hits.per + 4 * i, per);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const F dx = F(x[k]) - c.x, dy = F(y[k]) - c.y;
        const F off = distance(dx, dy, per_2r, half_r);
        const F t = L::max(L::fma(off * per_width2, off, F(1.0f)), F(0.0f));
        const F odds = on_ring * (t * t * L::fma(t, F(-1.3f), F(2.3f))) * F(per[k]);
        const F w = odds * rough_reciprocal<L>(odds + F(1.0f));
        sums.add(w, dx * per_r, dy * per_r, off);
      }
    }
    sums.solve(c, r_min, r_max);
  }

  // Two rings per lane at once, each stepped against the other.
  NANET_HD void step_pair(LaneCircles<L>& a, LaneCircles<L>& b, float half_width) const {
    step_beside(a, b, half_width);
    step_beside(b, a, half_width);
  }

  // gain() of two rings together.
  NANET_HD F gain_pair(const LaneCircles<L>& a, const LaneCircles<L>& b) const {
    const Band one(*this, a, MultiringModel::reach), other(*this, b, MultiringModel::reach);
    F sum{0.0f};
    for (std::int32_t i = 0; i < fours; i += 2) {
      F product{1.0f};
      for (std::int32_t k = 4 * i; k < 4 * i + 8; ++k) {
        const F x{hits.x[k]}, y{hits.y[k]};
        product = product * L::fma(one.density(x, y) + other.density(x, y), F(hits.per[k]), F(1.0f));
      }
      sum = sum + logarithm<L>(product);
    }
    return sum + model.template standing<L>(a.x, a.y, a.r) + model.template standing<L>(b.x, b.y, b.r);
  }

 private:
  // Off the ring, mm: (d^2 - r^2) / 2r and the next term of the series, 0.03 mm off at 12 mm.
  NANET_HD static F distance(const F& dx, const F& dy, const F& per_2r, const F& half_r) {
    const F q = L::fma(L::fma(dx, dx, dy * dy), per_2r, half_r);
    return L::fma(q * per_2r, -q, q);
  }
  NANET_HD float peak(float half_width) const { return model.peak * (MultiringModel::reach / half_width); }

  struct Band {
    const LaneCircles<L>& c;
    F per_2r, half_r, on_ring, per_width2;
    NANET_HD Band(const MultiringSearch& s, const LaneCircles<L>& circle, float half_width)
        : c(circle),
          per_2r(F(0.5f) / circle.r),
          half_r(circle.r * F(-0.5f)),
          on_ring(circle.r * F(s.peak(half_width))),
          per_width2(-1.0f / (half_width * half_width)) {}
    NANET_HD F density(const F& x, const F& y) const {
      const F off = distance(x - c.x, y - c.y, per_2r, half_r);
      const F t = L::max(L::fma(off * per_width2, off, F(1.0f)), F(0.0f));
      return on_ring * (t * t * L::fma(t, F(-1.3f), F(2.3f)));
    }
  };

  NANET_HD void step_beside(LaneCircles<L>& c, const LaneCircles<L>& beside, float half_width) const {
    const Band own(*this, c, half_width), other(*this, beside, half_width);
    const F per_r = own.per_2r + own.per_2r;
    Sums sums;
    for (std::int32_t i = 0; i < 4 * fours; ++i) {
      const F x{hits.x[i]}, y{hits.y[i]}, per{hits.per[i]};
      const F dx = x - c.x, dy = y - c.y;
      const F off = distance(dx, dy, own.per_2r, own.half_r);
      const F t = L::max(L::fma(off * own.per_width2, off, F(1.0f)), F(0.0f));
      const F odds = own.on_ring * (t * t * L::fma(t, F(-1.3f), F(2.3f))) * per;
      const F w = odds * rough_reciprocal<L>(L::fma(other.density(x, y), per, odds + F(1.0f)));
      sums.add(w, dx * per_r, dy * per_r, off);
    }
    sums.solve(c, r_min, r_max);
  }

  // Normal equations of distance = c ux + s uy + ur, (c, s) being the direction of a hit from the centre. A
  // little is added to the diagonal, so that a ring without hits stays where it is.
  struct Sums {
    F w{1e-3f}, c{0.0f}, s{0.0f}, cc{0.02f}, cs{0.0f}, ss{0.02f}, off{0.0f}, off_c{0.0f}, off_s{0.0f};
    NANET_HD void add(const F& weight, const F& cosine, const F& sine, const F& distance_off) {
      const F wc = weight * cosine, ws = weight * sine, wo = weight * distance_off;
      w = w + weight;
      c = c + wc;
      s = s + ws;
      cc = L::fma(wc, cosine, cc);
      cs = L::fma(wc, sine, cs);
      ss = L::fma(ws, sine, ss);
      off = off + wo;
      off_c = L::fma(wo, cosine, off_c);
      off_s = L::fma(wo, sine, off_s);
    }
    NANET_HD void solve(LaneCircles<L>& circle, float r_min, float r_max) const {
      const F per_w = F(1.0f) / w;
      const F mc = c * per_w, ms = s * per_w;
      const F a = L::fma(-c, mc, cc), b = L::fma(-c, ms, cs), d = L::fma(-s, ms, ss);
      const F ec = L::fma(-off, mc, off_c), es = L::fma(-off, ms, off_s);
      const F per_det = F(1.0f) / L::max(L::fma(a, d, -(b * b)), F(1e-4f));
      const F ux = limit(L::fma(ec, d, -(es * b)) * per_det), uy = limit(L::fma(es, a, -(ec * b)) * per_det);
      const F ur = limit((off - L::fma(c, ux, s * uy)) * per_w);
      circle.x = circle.x + ux;
      circle.y = circle.y + uy;
      circle.r = L::min(L::max(circle.r + ur, F(r_min)), F(r_max));
    }
    NANET_HD static F limit(const F& v) { return L::min(L::max(v, F(-25.0f)), F(25.0f)); }
  };
};

// Seeds. idx: a running number per lane; what it picks is spread evenly (a Weyl sequence), the same each
// time.
template <class L>
struct MultiringSeeds {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;

  const MultiringHits& hits;
  std::int32_t open;  // hits.open has so many, 3 at least
  float r_min, r_max;

  // The circle through three open hits; good: a circle that could be a ring.
  NANET_HD M triplet(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    const I d1 = I(1) + (((idx * I(773)) & I(1023)) * I(open - 1) >> 10);
    const I d2 = I(1) + (((idx * I(583)) & I(1023)) * I(open - 2) >> 10);
    const I j = wrap(i + d1), k = wrap(i + d2 + L::select(d2 >= d1, I(1), I(0)));
    const F x0 = x(i), y0 = y(i);
    const F ax = x(j) - x0, ay = y(j) - y0, bx = x(k) - x0, by = y(k) - y0;
    const F twice = F(2.0f) * (ax * by - ay * bx);
    const M wide = L::abs(twice) > F(600.0f);  // four times the triangle's area, mm^2
    const F per = F(1.0f) / L::select(wide, twice, F(1.0f));
    const F a2 = L::fma(ax, ax, ay * ay), b2 = L::fma(bx, bx, by * by);
    const F ux = (by * a2 - ay * b2) * per, uy = (ax * b2 - bx * a2) * per;
    const F r = L::sqrt(L::fma(ux, ux, uy * uy));
    c.x = x0 + ux;
    c.y = y0 + uy;
    c.r = L::min(r, F(r_max));
    return wide & (r >= F(r_min)) & (r <= F(1.2f * r_max));
  }

  // The circle through two open hits with one of six radii, on either side.
  NANET_HD M pair(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    const I j = wrap(i + I(1) + (((idx * I(773)) & I(1023)) * I(open - 1) >> 10));
    const I way = ((idx * I(583)) & I(1023)) * I(12) >> 10;
    const I size = way >> 1;
    // Most rings are nearly as large as they can be.
    F part = L::select(size == I(0), F(0.986f), F(0.954f));
    part = L::select(size == I(2), F(0.902f), part);
    part = L::select(size == I(3), F(0.829f), part);
    part = L::select(size == I(4), F(0.724f), part);
    part = L::select(size == I(5), F(0.587f), part);
    const F r = part * F(r_max);
    const F dx = x(j) - x(i), dy = y(j) - y(i);
    const F d2 = L::fma(dx, dx, dy * dy);
    const M good = (d2 >= F(2500.0f)) & (d2 <= F(4.0f) * r * r);
    const F up = L::sqrt(L::select(good, r * r / L::select(good, d2, F(1.0f)) - F(0.25f), F(0.0f)));
    const F side = L::select((way & I(1)) == I(1), up, -up);
    c.x = x(i) + dx * F(0.5f) - dy * side;
    c.y = y(i) + dy * F(0.5f) + dx * side;
    c.r = r;
    return good;
  }

 private:
  NANET_HD F x(const I& i) const { return L::gather(hits.x, L::gather(hits.open, i)); }
  NANET_HD F y(const I& i) const { return L::gather(hits.y, L::gather(hits.open, i)); }
  NANET_HD I wrap(const I& i) const { return L::select(i >= I(open), i - I(open), i); }
  NANET_HD I modulo(const I& i) const {
    const F part = (L::to_float(i) + F(0.5f)) * F(1.0f / static_cast<float>(open));
    return i - L::to_int(part) * I(open);
  }
};

}  // namespace nanet::rich
