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
  alignas(64) float per[max_event_hits];     // 1 / intensity without the candidate ring, in noise units
  alignas(64) float most[max_event_hits];    // maximum gain from the hit: ln(1 + intensity on it)
  alignas(64) float open_x[max_event_hits];  // hits without a ring
  alignas(64) float open_y[max_event_hits];
};

template <class L>
struct LaneCircles {
  typename L::F x, y, r;
};

// Parts of the hits that are summed apart, and words per lane of the sums for a step of two rings.
inline constexpr std::int32_t quarters = 4;
inline constexpr int pair_words = 18;

// Rings of the search, one per lane. Loops over hits treat one part of the lanes at a time (the CPU: one
// vector), so that the sums stay in registers. The sums of the four quarters of the hits are added in a fixed
// order: one lane for all, a lane for each, or a warp for each give the same bits.
template <class L>
struct MultiringSearch {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;
  using Row = typename L::Row;
  using RowF = typename Row::F;
  using Circles = LaneCircles<L>;
  using RowCircles = LaneCircles<Row>;

  const MultiringModel& model;
  const MultiringHits& hits;
  std::int32_t fours;  // hits / 4, rounded up
  float r_min, r_max;

  // Approximate support of the hits for each lane's ring: maximum gain of each hit, weighted with its
  // proximity.
  NANET_HD NANET_CPU_INLINED F support(const Circles& c, float half_width) const {
    using Two = typename L::Two;
    F sum;
    NANET_ROLLED
    for (int part = 0; part < L::template parts<Two>; ++part)
      L::template set_part<Two>(sum, part, support_of<Two>(of<Two>(c, part), half_width));
    return sum;
  }

  // From here on several lanes may hold the same ring; each processes its share of the hits.
  enum class Shared {
    by_one,   // every lane processes all hits
    by_two,   // lanes i and i + 16: lanes are threads
    by_four,  // lanes i, i + 8, i + 16 and i + 24
  };

  // ln of the likelihood ratio of the hits with and without each ring. half_width: of the band, mm.
  template <Shared shared>
  NANET_HD F gain(const Circles& c, float half_width) const {
    F sum{0.0f};
    if constexpr (shared == Shared::by_one) {
      const std::int32_t some = quarters_of_half();
      NANET_ROLLED
      for (int part = 0; part < L::template parts<Row>; ++part) {
        const RowCircles circles = of(c, part);
        const Band band(*this, circles, half_width);
        RowF half[2];
        NANET_ROLLED
        for (int h = 0; h < 2; ++h) {
          half[h] = gain_of(circles, band, quarter(2 * h));
          if (some > 1) half[h] = half[h] + gain_of(circles, band, quarter(2 * h + 1));
        }
        L::set_part(sum, part, half[0] + half[1]);
      }
      return sum;
    } else if constexpr (shared == Shared::by_two) {
      const std::int32_t some = quarters_of_half();
      NANET_ROLLED
      for (std::int32_t q = 0; q < some; ++q) sum = sum + gain_of(c, half_width, quarter(2 * L::upper() + q));
    } else {
      each_quarter([&](std::int32_t q, const M& here) {
        F of_quarter;
        for (int part = 0; part < L::template parts<Row>; ++part)
          L::set_part(of_quarter, part, gain_of(of(c, part), half_width, quarter(q)));
        sum = L::select(here, of_quarter, sum);
      });
      sum = sum + beside(sum);
    }
    return sum + L::other_half(sum);
  }

  // One Gauss-Newton step towards the hits in the band, each weighted with the probability that the ring made
  // it.
  template <Shared shared>
  NANET_HD void step(Circles& c, float half_width) const {
    Sums<L> sums;
    if constexpr (shared == Shared::by_one) {
      const std::int32_t some = quarters_of_half();
      NANET_ROLLED
      for (int part = 0; part < L::template parts<Row>; ++part) {
        const RowCircles circles = of(c, part);
        const Band band(*this, circles, half_width);
        Sums<Row> half[2];
        NANET_ROLLED
        for (int h = 0; h < 2; ++h) {
          half[h] = sums_of(circles, band, quarter(2 * h));
          if (some > 1) half[h].add(sums_of(circles, band, quarter(2 * h + 1)));
        }
        half[0].add(half[1]);
        sums.set_part(part, half[0]);
      }
    } else if constexpr (shared == Shared::by_two) {
      const std::int32_t some = quarters_of_half();
      NANET_ROLLED
      for (std::int32_t q = 0; q < some; ++q) sums.add(sums_of(c, half_width, quarter(2 * L::upper() + q)));
    } else {
      each_quarter([&](std::int32_t q, const M& here) {
        Sums<L> of_quarter;
        for (int part = 0; part < L::template parts<Row>; ++part)
          of_quarter.set_part(part, sums_of(of(c, part), half_width, quarter(q)));
        sums.set(here, of_quarter);
      });
      sums.each([](int, F& v) { v = v + beside(v); });
    }
    if constexpr (shared != Shared::by_one) sums.each([](int, F& v) { v = v + L::other_half(v); });
    sums.solve(c, r_min, r_max);
  }

  // Two rings per lane, of one lane each: the sums of a quarter for one step of both at once. room:
  // pair_words values per lane. adds: to those of other quarters.
  NANET_HD void pair_sums(const Circles (&pair)[2], float half_width, std::int32_t q, float* room,
                          bool adds) const {
    Sums<L> of_a, of_b;
    NANET_ROLLED
    for (int part = 0; part < L::template parts<Row>; ++part) {
      const RowCircles one = of(pair[0], part), other = of(pair[1], part);
      Sums<Row> a, b;
      pair_sums(one, other, Band(*this, one, half_width), Band(*this, other, half_width), quarter(q), a, b);
      of_a.set_part(part, a);
      of_b.set_part(part, b);
    }
    const auto put = [&](int word, const F& v) {
      float* const to = room + word * lanes_step;
      L::store(to, adds ? L::load(to) + v : v);
    };
    of_a.each([&](int i, const F& v) { put(i, v); });
    of_b.each([&](int i, const F& v) { put(Sums<L>::words + i, v); });
  }
  // That step. rooms: of the quarters, one after the other, or one for all.
  template <int rooms>
  NANET_HD void step_pair(Circles (&pair)[2], const float* room) const {
    NANET_UNROLLED
    for (int k = 0; k < 2; ++k) {
      Sums<L> sums;
      sums.each([&](int i, F& v) { v = L::load(room + (k * Sums<L>::words + i) * lanes_step); });
      NANET_UNROLLED
      for (int other = 1; other < rooms; ++other)
        sums.each([&](int i, F& v) {
          v = v + L::load(room + (other * pair_words + k * Sums<L>::words + i) * lanes_step);
        });
      sums.solve(pair[k], r_min, r_max);
    }
  }

  // That step from all hits: the CPU.
  NANET_HD void step_pair(Circles (&pair)[2], float half_width) const {
    Sums<L> of_a, of_b;
    NANET_ROLLED
    for (int part = 0; part < L::template parts<Row>; ++part) {
      const RowCircles a = of(pair[0], part), b = of(pair[1], part);
      const Band one(*this, a, half_width), other(*this, b, half_width);
      Sums<Row> all_a, all_b;
      pair_sums(a, b, one, other, quarter(0), all_a, all_b);
      NANET_ROLLED
      for (std::int32_t q = 1; q < quarters; ++q) {
        Sums<Row> more_a, more_b;
        pair_sums(a, b, one, other, quarter(q), more_a, more_b);
        all_a.add(more_a);
        all_b.add(more_b);
      }
      of_a.set_part(part, all_a);
      of_b.set_part(part, all_b);
    }
    of_a.solve(pair[0], r_min, r_max);
    of_b.solve(pair[1], r_min, r_max);
  }
  // gain() of two rings combined, from all hits: the CPU.
  NANET_HD F gain(const Circles (&pair)[2], float half_width) const {
    F sum;
    NANET_ROLLED
    for (int part = 0; part < L::template parts<Row>; ++part) {
      const RowCircles a = of(pair[0], part), b = of(pair[1], part);
      const Band one(*this, a, half_width), other(*this, b, half_width);
      RowF mine{0.0f};
      NANET_ROLLED
      for (std::int32_t q = 0; q < quarters; ++q) mine = mine + gain_of(a, b, one, other, quarter(q));
      L::set_part(sum, part, mine);
    }
    return sum;
  }

  // gain() of two rings combined, from a quarter of the hits.
  NANET_HD F gain(const Circles (&pair)[2], float half_width, std::int32_t q) const {
    F sum;
    NANET_ROLLED
    for (int part = 0; part < L::template parts<Row>; ++part)
      L::set_part(sum, part, gain_of(of(pair[0], part), of(pair[1], part), half_width, quarter(q)));
    return sum;
  }

 private:
  struct Quarter {
    std::int32_t from, to;  // hits; multiples of four
  };
  // Few hits are not worth dividing: the second and fourth quarters are then empty.
  static constexpr std::int32_t undivided = 4;  // fours of a half
  NANET_HD std::int32_t half() const { return (fours + 1) / 2; }
  NANET_HD std::int32_t quarters_of_half() const { return half() > undivided ? 2 : 1; }
  NANET_HD Quarter quarter(std::int32_t q) const {
    const std::int32_t first = half() > undivided ? (half() + 1) / 2 : half(),
                       from = (q >> 1) * half() + (q & 1) * first;
    const std::int32_t to = from + (q & 1 ? half() - first : first);
    // Padding adds nothing. A warp's lanes keep in step.
    if constexpr (lane_is_thread<L>) return {4 * from, 4 * to};
    return {4 * from, 4 * (to < fours ? to : fours)};
  }
  // Calls f(quarter of the lane, true): lanes 0 - 7 take the first one. Host: f(quarter, lanes that take it).
  template <class Of>
  NANET_HD static void each_quarter(const Of& f) {
    if constexpr (lane_is_thread<L>) {
      f(L::lane() >> 3, true);
    } else {
      for (std::int32_t q = 0; q < quarters; ++q) f(q, (L::lane() >> 3) == I(q));
    }
  }
  // Value of the lane 8 away.
  NANET_HD static F beside(const F& v) {
    return L::shuffle(v, (L::lane() & I(23)) + (I(8) - (L::lane() & I(8))));
  }
  template <class P = Row>
  NANET_HD static LaneCircles<P> of(const Circles& c, int part) {
    return {L::template part<P>(c.x, part), L::template part<P>(c.y, part), L::template part<P>(c.r, part)};
  }

  template <class P>
  NANET_HD NANET_CPU_INLINED typename P::F support_of(const LaneCircles<P>& c, float half_width) const {
    using PF = typename P::F;
    // Hits and centre in units in which (d^2 - r^2) / 2r, the distance from the ring, is 1 at half_width.
    const PF unit = P::root(P::reciprocal(c.r * PF(2.0f * half_width)));
    const PF x0 = -(c.x * unit), y0 = -(c.y * unit), r0 = c.r * unit, rest = -(r0 * r0);
    PF sum{0.0f};
    NANET_ROLLED
    for (std::int32_t i = 0; i < 4 * fours; i += 4) {
      float x[4], y[4], most[4];
      Row::four(hits.x + i, x);
      Row::four(hits.y + i, y);
      Row::four(hits.most + i, most);
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k) {
        const PF dx = P::fma(PF(x[k]), unit, x0), dy = P::fma(PF(y[k]), unit, y0);
        const PF off = P::fma(dx, dx, P::fma(dy, dy, rest));
        sum = P::fma(P::min(P::fma(off, off, PF(-1.0f)), PF(0.0f)), PF(most[k]), sum);
      }
    }
    return -sum;
  }

  // Approximate hit density across a ring: biweight profile, with its square root folded in.
  struct Band {
    RowF per_2r, half_r, root, slope;
    NANET_HD Band(const MultiringSearch& s, const RowCircles& c, float half_width)
        : per_2r(RowF(0.5f) * Row::reciprocal(c.r)), half_r(c.r * RowF(-0.5f)) {
      root = Row::root(c.r * RowF(s.model.band_peak / half_width));
      slope = root * RowF(-1.0f / (half_width * half_width));
    }
    // Distance from the ring, mm: (d^2 - r^2) / 2r, which is (d - r) (1 + (d - r) / 2r).
    NANET_HD RowF distance(const RowF& dx, const RowF& dy) const {
      return Row::fma(Row::fma(dx, dx, dy * dy), per_2r, half_r);
    }
    NANET_HD RowF density(const RowF& off) const {
      const RowF t = Row::max(Row::fma(off * slope, off, root), RowF(0.0f));
      return t * t;
    }
  };

  NANET_HD RowF gain_of(const RowCircles& c, float half_width, const Quarter& q) const {
    return gain_of(c, Band(*this, c, half_width), q);
  }
  NANET_HD RowF gain_of(const RowCircles& c, const Band& band, const Quarter& q) const {
    RowF sum{0.0f};
    NANET_ROLLED
    for (std::int32_t i = q.from; i < q.to; i += 4) {
      float x[4], y[4], per[4];
      Row::four(hits.x + i, x);
      Row::four(hits.y + i, y);
      Row::four(hits.per + i, per);
      RowF product{1.0f};
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k)
        product = product * Row::fma(band.density(band.distance(RowF(x[k]) - c.x, RowF(y[k]) - c.y)),
                                     RowF(per[k]), RowF(1.0f));
      sum = sum + logarithm<Row>(product);
    }
    return sum;
  }
  NANET_HD RowF gain_of(const RowCircles& a, const RowCircles& b, float half_width, const Quarter& q) const {
    return gain_of(a, b, Band(*this, a, half_width), Band(*this, b, half_width), q);
  }
  NANET_HD RowF gain_of(const RowCircles& a, const RowCircles& b, const Band& one, const Band& other,
                        const Quarter& q) const {
    RowF sum{0.0f};
    NANET_ROLLED
    for (std::int32_t i = q.from; i < q.to; i += 4) {
      RowF product{1.0f};
      NANET_UNROLLED
      for (std::int32_t k = i; k < i + 4; ++k) {
        const RowF x{hits.x[k]}, y{hits.y[k]};
        const RowF both =
            one.density(one.distance(x - a.x, y - a.y)) + other.density(other.distance(x - b.x, y - b.y));
        product = product * Row::fma(both, RowF(hits.per[k]), RowF(1.0f));
      }
      sum = sum + logarithm<Row>(product);
    }
    return sum;
  }

  // Normal equations of off = c ux + s uy + ur. (c, s): direction of a hit from the centre, here times r.
  template <class V>
  struct Sums {
    using VF = typename V::F;
    static constexpr int words = pair_words / 2;
    VF w{0.0f}, c{0.0f}, s{0.0f}, cc{0.0f}, cs{0.0f}, ss{0.0f}, off{0.0f}, off_c{0.0f}, off_s{0.0f};
    // Calls f(number, sum).
    template <class Of>
    NANET_HD void each(const Of& f) {
      int i = 0;
      for (VF* v : {&w, &c, &s, &cc, &cs, &ss, &off, &off_c, &off_s}) f(i++, *v);
    }
    NANET_HD void add(const Sums& of) {
      w = w + of.w;
      c = c + of.c;
      s = s + of.s;
      cc = cc + of.cc;
      cs = cs + of.cs;
      ss = ss + of.ss;
      off = off + of.off;
      off_c = off_c + of.off_c;
      off_s = off_s + of.off_s;
    }
    NANET_HD void set(const typename V::M& here, const Sums& of) {
      w = V::select(here, of.w, w);
      c = V::select(here, of.c, c);
      s = V::select(here, of.s, s);
      cc = V::select(here, of.cc, cc);
      cs = V::select(here, of.cs, cs);
      ss = V::select(here, of.ss, ss);
      off = V::select(here, of.off, off);
      off_c = V::select(here, of.off_c, off_c);
      off_s = V::select(here, of.off_s, off_s);
    }
    NANET_HD void add(const VF& weight, const VF& dx, const VF& dy, const VF& distance_off) {
      const VF wc = weight * dx, ws = weight * dy, wo = weight * distance_off;
      w = w + weight;
      c = c + wc;
      s = s + ws;
      cc = V::fma(wc, dx, cc);
      cs = V::fma(wc, dy, cs);
      ss = V::fma(ws, dy, ss);
      off = off + wo;
      off_c = V::fma(wo, dx, off_c);
      off_s = V::fma(wo, dy, off_s);
    }
    NANET_HD void set_part(int part, const Sums<Row>& of) {
      V::set_part(w, part, of.w);
      V::set_part(c, part, of.c);
      V::set_part(s, part, of.s);
      V::set_part(cc, part, of.cc);
      V::set_part(cs, part, of.cs);
      V::set_part(ss, part, of.ss);
      V::set_part(off, part, of.off);
      V::set_part(off_c, part, of.off_c);
      V::set_part(off_s, part, of.off_s);
    }
    // Small diagonal terms keep a ring without hits in place.
    NANET_HD void solve(LaneCircles<V>& circle, float least, float most) const {
      const VF per_r = V::reciprocal(circle.r), per_r2 = per_r * per_r, per_w = V::reciprocal(w + VF(2e-3f));
      const VF sc = c * per_r, sn = s * per_r;
      const VF mc = sc * per_w, ms = sn * per_w;
      const VF a = V::fma(cc, per_r2, V::fma(-sc, mc, VF(0.02f)));
      const VF b = V::fma(cs, per_r2, -(sc * ms));
      const VF d = V::fma(ss, per_r2, V::fma(-sn, ms, VF(0.02f)));
      const VF ec = V::fma(off_c, per_r, -(off * mc)), es = V::fma(off_s, per_r, -(off * ms));
      const VF per_det = V::reciprocal(V::max(V::fma(a, d, -(b * b)), VF(1e-4f)));
      const VF ux = limit(V::fma(ec, d, -(es * b)) * per_det), uy = limit(V::fma(es, a, -(ec * b)) * per_det);
      const VF ur = limit((off - V::fma(sc, ux, sn * uy)) * per_w);
      circle.x = circle.x + ux;
      circle.y = circle.y + uy;
      circle.r = V::min(V::max(circle.r + ur, VF(least)), VF(most));
    }
    NANET_HD static VF limit(const VF& v) { return V::min(V::max(v, VF(-25.0f)), VF(25.0f)); }
  };

  NANET_HD Sums<Row> sums_of(const RowCircles& c, float half_width, const Quarter& q) const {
    return sums_of(c, Band(*this, c, half_width), q);
  }
  NANET_HD Sums<Row> sums_of(const RowCircles& c, const Band& band, const Quarter& q) const {
    Sums<Row> sums;
    NANET_ROLLED
    for (std::int32_t i = q.from; i < q.to; i += 4) {
      float x[4], y[4], per[4];
      Row::four(hits.x + i, x);
      Row::four(hits.y + i, y);
      Row::four(hits.per + i, per);
      NANET_UNROLLED
      for (int k = 0; k < 4; ++k) {
        const RowF dx = RowF(x[k]) - c.x, dy = RowF(y[k]) - c.y;
        const RowF off = band.distance(dx, dy);
        const RowF odds = band.density(off) * RowF(per[k]);
        sums.add(odds * rough_reciprocal<Row>(odds + RowF(1.0f)), dx, dy, off);
      }
    }
    return sums;
  }
  NANET_HD void pair_sums(const RowCircles& a, const RowCircles& b, const Band& one, const Band& other,
                          const Quarter& q, Sums<Row>& of_a, Sums<Row>& of_b) const {
    NANET_ROLLED
    for (std::int32_t i = q.from; i < q.to; i += 2) {
      NANET_UNROLLED
      for (std::int32_t k = i; k < i + 2; ++k) {
        const RowF x{hits.x[k]}, y{hits.y[k]}, per{hits.per[k]};
        const RowF ax = x - a.x, ay = y - a.y, bx = x - b.x, by = y - b.y;
        const RowF off_a = one.distance(ax, ay), off_b = other.distance(bx, by);
        const RowF odds_a = one.density(off_a) * per, odds_b = other.density(off_b) * per;
        const RowF share = rough_reciprocal<Row>(odds_a + odds_b + RowF(1.0f));
        of_a.add(odds_a * share, ax, ay, off_a);
        of_b.add(odds_b * share, bx, by, off_b);
      }
    }
  }
};

// Seed selection. idx: running number per lane. A Weyl sequence spreads the selection evenly and
// reproducibly.
template <class L>
struct MultiringSeeds {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;

  const MultiringHits& hits;
  std::int32_t open;  // number of entries in hits.open_x, at least 3
  float r_min, r_max;
  float per_open;  // 1 / open

  // Circle through three open hits; good: a possible ring.
  NANET_HD NANET_CPU_INLINED M triplet(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    const I d1 = I(1) + (turn_of(idx) * I(open - 1) >> 10);
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
  NANET_HD NANET_CPU_INLINED M pair(std::int32_t first, LaneCircles<L>& c) const {
    const I idx = I(first) + L::lane(), i = modulo(idx);
    static constexpr Table table{};
    I turn, way;
    F part;
    if constexpr (lane_is_thread<L>) {
      turn = turn_of(idx);
      way = way_of(idx);
      part = part_of(way);
    } else {
      turn = L::load(table.turn + first);
      part = L::load(table.part + first);
    }
    const I j = wrap(i + I(1) + (turn * I(open - 1) >> 10));
    const F r = part * F(r_max);
    const F x0 = x(i), y0 = y(i);
    const F dx = x(j) - x0, dy = y(j) - y0;
    const F d2 = L::fma(dx, dx, dy * dy);
    const M good = (d2 >= F(2500.0f)) & (d2 <= F(4.0f) * r * r);
    const F up =
        L::root(L::select(good, r * r * L::reciprocal(L::select(good, d2, F(1.0f))) - F(0.249999f), F(1.0f)));
    F away;
    if constexpr (lane_is_thread<L>)
      away = L::select((way & I(1)) == I(1), up, -up);
    else
      away = up * L::load(table.side + first);
    c.x = x0 + dx * F(0.5f) - dy * away;
    c.y = y0 + dy * F(0.5f) + dx * away;
    c.r = r;
    return good;
  }

 private:
  template <class Number>
  NANET_HD static constexpr Number turn_of(const Number& idx) {
    return (idx * Number(773)) & Number(1023);
  }
  template <class Number>
  NANET_HD static constexpr Number way_of(const Number& idx) {
    return ((idx * Number(583)) & Number(1023)) * Number(12) >> 10;
  }
  // Radius, in units of the largest. Most ring radii are close to the maximum.
  NANET_HD static F part_of(const I& way) {
    const I size = way >> 1;
    F part = L::select(size == I(0), F(part_of_size(0)), F(part_of_size(1)));
    part = L::select(size == I(2), F(part_of_size(2)), part);
    part = L::select(size == I(3), F(part_of_size(3)), part);
    part = L::select(size == I(4), F(part_of_size(4)), part);
    return L::select(size == I(5), F(part_of_size(5)), part);
  }
  NANET_HD static constexpr float part_of_size(int size) {
    return size == 0   ? 0.986f
           : size == 1 ? 0.954f
           : size == 2 ? 0.902f
           : size == 3 ? 0.829f
           : size == 4 ? 0.724f
                       : 0.587f;
  }
  // The same for each idx: the CPU.
  struct Table {
    static constexpr std::int32_t size = 4 * lanes_step;
    alignas(64) std::int32_t turn[size]{};
    alignas(64) float part[size]{}, side[size]{};
    constexpr Table() {
      for (std::int32_t idx = 0; idx < size; ++idx) {
        const std::int32_t way = way_of(idx);
        turn[idx] = turn_of(idx);
        part[idx] = part_of_size(way >> 1);
        side[idx] = way & 1 ? 1.0f : -1.0f;
      }
    }
  };
  NANET_HD F x(const I& i) const { return L::gather(hits.open_x, i, open); }
  NANET_HD F y(const I& i) const { return L::gather(hits.open_y, i, open); }
  NANET_HD I wrap(const I& i) const { return L::select(i >= I(open), i - I(open), i); }
  NANET_HD I modulo(const I& i) const {
    const F part = (L::to_float(i) + F(0.5f)) * F(per_open);
    return i - L::to_int(part) * I(open);
  }
};

}  // namespace nanet::rich
