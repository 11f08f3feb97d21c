// SPDX-License-Identifier: Apache-2.0
// MULTIRING: search for one more ring, with 32 candidates in parallel, one per lane, over all hits.
#pragma once

#include "nanet/rich/hits.hpp"
#include "nanet/rich/multiring_model.hpp"

namespace nanet::rich {

// Hits for the search. Padding up to a multiple of 32 is far from every ring.
struct MultiringHits {
  alignas(64) float x[max_event_hits];
  alignas(64) float y[max_event_hits];
  alignas(64) float per[max_event_hits];          // 1 / intensity without the candidate ring, in noise units
  alignas(64) float most[max_event_hits];         // maximum gain from the hit: ln(1 + intensity on it)
  alignas(64) std::int32_t open[max_event_hits];  // hits without a ring
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

  // Approximate support of the hits for each lane's ring: maximum gain of each hit, weighted with its
  // proximity.
  NANET_HD F support(const LaneCircles<L>& c, float half_width) const {
    const F per_2r = F(0.5f) * L::reciprocal(c.r), half_r = c.r * F(-0.5f);
    const F slope{-1.0f / (half_width * half_width)};
    F sum{0.0f};
    NANET_ROLLED
    for (std::int32_t i = 0; i < 4 * fours; i += 4) {
      float x[4], y[4], most[4];
      L::four(hits.x + i, x);
      L::four(hits.y + i, y);
      L::four(hits.most + i, most);
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k) {
        const F dx = F(x[k]) - c.x, dy = F(y[k]) - c.y;
        const F off = L::fma(L::fma(dx, dx, dy * dy), per_2r, half_r);
        sum = L::fma(L::max(L::fma(off * slope, off, F(1.0f)), F(0.0f)), F(most[k]), sum);
      }
    }
    return sum;
  }

  // From here on lanes i and i + 16 hold the same ring; each processes one half of the hits.

  // ln of the likelihood ratio of the hits with and without each ring. half_width: of the band, mm.
  NANET_HD F gain(const LaneCircles<L>& c, float half_width) const {
    const Band band(*this, c, half_width);
    F sum{0.0f};
    const std::int32_t end = half();
    NANET_ROLLED
    for (std::int32_t i = 0; i < end; i += 4) {
      F x[4], y[4], per[4], product{1.0f};
      both_halves(i, x, y, per);
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k)
        product = product * L::fma(band.density(band.distance(x[k] - c.x, y[k] - c.y)), per[k], F(1.0f));
      sum = sum + logarithm<L>(product);
    }
    return sum + L::other_half(sum);
  }

  // One Gauss-Newton step towards the hits in the band, each weighted with the probability that the ring made
  // it.
  NANET_HD void step(LaneCircles<L>& c, float half_width) const {
    Sums sums;
    const Band band(*this, c, half_width);
    const std::int32_t end = half();
    NANET_ROLLED
    for (std::int32_t i = 0; i < end; i += 4) {
      F x[4], y[4], per[4];
      both_halves(i, x, y, per);
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k) {
        const F dx = x[k] - c.x, dy = y[k] - c.y;
        const F off = band.distance(dx, dy);
        const F odds = band.density(off) * per[k];
        sums.add(odds * rough_reciprocal<L>(odds + F(1.0f)), dx, dy, off);
      }
    }
    sums.join();
    sums.solve(c, band.per_2r + band.per_2r, r_min, r_max);
  }

  // Two rings per lane at once: one step of each with the other fixed.
  NANET_HD void step_pair(LaneCircles<L> (&pair)[2], float half_width) const {
    NANET_ROLLED
    for (int of = 0; of < 2; ++of) {
      LaneCircles<L> c = pair[0], beside = pair[1];
      if (of) c = pair[1], beside = pair[0];
      const Band own(*this, c, half_width), other(*this, beside, half_width);
      Sums sums;
      NANET_ROLLED
      for (std::int32_t i = 0; i < 4 * fours; i += 2) {
        NANET_UNROLLED
        for (std::int32_t k = i; k < i + 2; ++k) {
          const F x{hits.x[k]}, y{hits.y[k]}, per{hits.per[k]};
          const F dx = x - c.x, dy = y - c.y;
          const F off = own.distance(dx, dy);
          const F odds = own.density(off) * per;
          const F rest = other.density(other.distance(x - beside.x, y - beside.y));
          sums.add(odds * rough_reciprocal<L>(L::fma(rest, per, odds + F(1.0f))), dx, dy, off);
        }
      }
      sums.solve(c, own.per_2r + own.per_2r, r_min, r_max);
      if (of)
        pair[1] = c;
      else
        pair[0] = c;
    }
  }

  // gain() of two rings combined.
  NANET_HD F gain(const LaneCircles<L> (&pair)[2], float half_width) const {
    const Band one(*this, pair[0], half_width), other(*this, pair[1], half_width);
    F sum{0.0f};
    NANET_ROLLED
    for (std::int32_t i = 0; i < 4 * fours; i += 4) {
      F product{1.0f};
      NANET_UNROLLED
      for (std::int32_t k = i; k < i + 4; ++k) {
        const F x{hits.x[k]}, y{hits.y[k]};
        const F a = one.density(one.distance(x - pair[0].x, y - pair[0].y));
        const F b = other.density(other.distance(x - pair[1].x, y - pair[1].y));
        product = product * L::fma(a + b, F(hits.per[k]), F(1.0f));
      }
      sum = sum + logarithm<L>(product);
    }
    return sum;
  }

 private:
  // Hits per half of the lanes, a multiple of four.
  NANET_HD std::int32_t half() const { return (fours + 1) / 2 * 4; }
  NANET_HD void both_halves(std::int32_t i, F (&x)[4], F (&y)[4], F (&per)[4]) const {
    const std::int32_t j = i + half();
    L::four(hits.x + i, hits.x + j, x);
    L::four(hits.y + i, hits.y + j, y);
    L::four(hits.per + i, hits.per + j, per);
  }

  // Approximate hit density across a ring: biweight profile, with its square root folded in.
  struct Band {
    F per_2r, half_r, root, slope;
    NANET_HD Band(const MultiringSearch& s, const LaneCircles<L>& c, float half_width)
        : per_2r(F(0.5f) * L::reciprocal(c.r)), half_r(c.r * F(-0.5f)) {
      root = L::root(c.r * F(s.model.band_peak / half_width));
      slope = root * F(-1.0f / (half_width * half_width));
    }
    // Distance from the ring, mm: (d^2 - r^2) / 2r, which is (d - r) (1 + (d - r) / 2r).
    NANET_HD F distance(const F& dx, const F& dy) const {
      return L::fma(L::fma(dx, dx, dy * dy), per_2r, half_r);
    }
    NANET_HD F density(const F& off) const {
      const F t = L::max(L::fma(off * slope, off, root), F(0.0f));
      return t * t;
    }
  };

  // Normal equations of off = c ux + s uy + ur. (c, s): direction of a hit from the centre, here times r. A
  // small diagonal term keeps a ring without hits in place.
  struct Sums {
    F w{1e-3f}, c{0.0f}, s{0.0f}, cc{0.0f}, cs{0.0f}, ss{0.0f}, off{0.0f}, off_c{0.0f}, off_s{0.0f};
    NANET_HD void add(const F& weight, const F& dx, const F& dy, const F& distance_off) {
      const F wc = weight * dx, ws = weight * dy, wo = weight * distance_off;
      w = w + weight;
      c = c + wc;
      s = s + ws;
      cc = L::fma(wc, dx, cc);
      cs = L::fma(wc, dy, cs);
      ss = L::fma(ws, dy, ss);
      off = off + wo;
      off_c = L::fma(wo, dx, off_c);
      off_s = L::fma(wo, dy, off_s);
    }
    NANET_HD void join() {
      for (F* v : {&c, &s, &cc, &cs, &ss, &off, &off_c, &off_s}) *v = *v + L::other_half(*v);
      w = w + L::other_half(w);
    }
    NANET_HD void solve(LaneCircles<L>& circle, const F& per_r, float least, float most) const {
      const F per_r2 = per_r * per_r, per_w = L::reciprocal(w);
      const F sc = c * per_r, sn = s * per_r;
      const F mc = sc * per_w, ms = sn * per_w;
      const F a = L::fma(cc, per_r2, L::fma(-sc, mc, F(0.02f)));
      const F b = L::fma(cs, per_r2, -(sc * ms));
      const F d = L::fma(ss, per_r2, L::fma(-sn, ms, F(0.02f)));
      const F ec = L::fma(off_c, per_r, -(off * mc)), es = L::fma(off_s, per_r, -(off * ms));
      const F per_det = L::reciprocal(L::max(L::fma(a, d, -(b * b)), F(1e-4f)));
      const F ux = limit(L::fma(ec, d, -(es * b)) * per_det), uy = limit(L::fma(es, a, -(ec * b)) * per_det);
      const F ur = limit((off - L::fma(sc, ux, sn * uy)) * per_w);
      circle.x = circle.x + ux;
      circle.y = circle.y + uy;
      circle.r = L::min(L::max(circle.r + ur, F(least)), F(most));
    }
    NANET_HD static F limit(const F& v) { return L::min(L::max(v, F(-25.0f)), F(25.0f)); }
  };
};

// Seed selection. idx: running number per lane. A Weyl sequence spreads the selection evenly and
// reproducibly.
template <class L>
struct MultiringSeeds {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;

  const MultiringHits& hits;
  std::int32_t open;  // number of entries in hits.open, at least 3
  float r_min, r_max;

  // Circle through three open hits; good: a possible ring.
  NANET_HD M triplet(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    const I d1 = I(1) + (((idx * I(773)) & I(1023)) * I(open - 1) >> 10);
    const I d2 = I(1) + (((idx * I(583)) & I(1023)) * I(open - 2) >> 10);
    const I j = wrap(i + d1), k = wrap(i + d2 + L::select(d2 >= d1, I(1), I(0)));
    const F x0 = x(i), y0 = y(i);
    const F ax = x(j) - x0, ay = y(j) - y0, bx = x(k) - x0, by = y(k) - y0;
    const F twice = F(2.0f) * (ax * by - ay * bx);
    const M wide = L::abs(twice) > F(600.0f);  // four times the triangle area, mm^2
    const F per = L::reciprocal(L::select(wide, twice, F(1.0f)));
    const F a2 = L::fma(ax, ax, ay * ay), b2 = L::fma(bx, bx, by * by);
    const F ux = (by * a2 - ay * b2) * per, uy = (ax * b2 - bx * a2) * per;
    const F r = L::root(L::fma(ux, ux, L::fma(uy, uy, F(1e-6f))));
    c.x = x0 + ux;
    c.y = y0 + uy;
    c.r = L::min(r, F(r_max));
    return wide & (r >= F(r_min)) & (r <= F(1.2f * r_max));
  }

  // Circle through two open hits with one of six radii, on either side.
  NANET_HD M pair(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    const I j = wrap(i + I(1) + (((idx * I(773)) & I(1023)) * I(open - 1) >> 10));
    const I way = ((idx * I(583)) & I(1023)) * I(12) >> 10;
    const I size = way >> 1;
    // Most ring radii are close to the maximum.
    F part = L::select(size == I(0), F(0.986f), F(0.954f));
    part = L::select(size == I(2), F(0.902f), part);
    part = L::select(size == I(3), F(0.829f), part);
    part = L::select(size == I(4), F(0.724f), part);
    part = L::select(size == I(5), F(0.587f), part);
    const F r = part * F(r_max);
    const F dx = x(j) - x(i), dy = y(j) - y(i);
    const F d2 = L::fma(dx, dx, dy * dy);
    const M good = (d2 >= F(2500.0f)) & (d2 <= F(4.0f) * r * r);
    const F up =
        L::root(L::select(good, r * r * L::reciprocal(L::select(good, d2, F(1.0f))) - F(0.249999f), F(1.0f)));
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
    const F part = (L::to_float(i) + F(0.5f)) * L::reciprocal(F(static_cast<float>(open)));
    return i - L::to_int(part) * I(open);
  }
};

}  // namespace nanet::rich
