// SPDX-License-Identifier: Apache-2.0
// MULTIRING: the current set of rings with hit intensities, polishing steps and odds.
#pragma once

#include <cstring>

#include "nanet/rich/multiring_data.hpp"

namespace nanet::rich {

// The hits of one event and the current set of rings.
template <class L>
class MultiringHand {
 protected:
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;
  // Lanes of the loops over hits: a warp, or one vector of the CPU. Sums over hits are in fixed point.
  using Row = typename L::Row;
  using RowF = typename Row::F;
  using RowI = typename Row::I;
  using RowM = typename Row::M;
  // Lanes for a ring each: those of a warp, or one vector of four.
  using Few = typename L::Few;
  using FewF = typename Few::F;
  using FewI = typename Few::I;
  using FewCircles = LaneCircles<Few>;
  using State = Multiring::State;
  using Scratch = Multiring::Scratch;
  static constexpr float far_away = 1e4f;                // mm: position of padding hits
  static constexpr float per_step_width = 1.0f / 16.0f;  // 1/mm; half the band of the polishing steps

  NANET_HD MultiringHand(const MultiringParameters& parameters, const EventView& event, const Point* plane,
                         Scratch& scratch)
      : p_(parameters), model_(MultiringModel::make<Few>(parameters)), s_(scratch), r_min_(parameters.r_min) {
    load(event, plane);
  }

  NANET_HD void load(const EventView& event, const Point* plane) {
    hits_ = static_cast<std::int32_t>(event.hits < max_event_hits ? event.hits : max_event_hits);
    rows_ = (hits_ + Row::count - 1) / Row::count;
    NANET_ROLLED
    for (std::int32_t from = 0; from < hits_; from += lanes_step) {
      if constexpr (lane_is_thread<L>) {
        const std::int32_t i = from + L::lane();
        const Point at = i < hits_ ? plane[event.pm[i]] : Point{far_away, far_away};
        s_.hits.x[i] = at.x;
        s_.hits.y[i] = at.y;
        s_.hits.per[i] = s_.hits.most[i] = 0.0f;
      } else {
        for (std::int32_t i = from; i < from + lanes_step; ++i) {
          const Point at = i < hits_ ? plane[event.pm[i]] : Point{far_away, far_away};
          s_.hits.x[i] = at.x;
          s_.hits.y[i] = at.y;
        }
      }
    }
    if constexpr (lane_is_thread<L>) {
      NANET_ROLLED
      for (int k = 0; k < static_cast<int>(max_rings); ++k) put_ring(k, {p_.centre_x, 0.0f, 100.0f});
    } else {
      put_rings({FewF(p_.centre_x), FewF(0.0f), FewF(100.0f)});
    }
    L::sync();
  }
  NANET_HD float* total() const { return s_.intensity[max_rings]; }
  NANET_HD std::int32_t terms() const { return rows_ * Row::count; }

  // ---- Current rings: s_.x, y, r [0 .. count_), and their intensities on all hits.

  // Distance of a row's hits to a point, mm; never 0.
  NANET_HD RowF distance(std::int32_t row, float x, float y) const {
    const RowF dx = Row::load(s_.hits.x + row * Row::count) - RowF(x),
               dy = Row::load(s_.hits.y + row * Row::count) - RowF(y);
    return Row::root(Row::fma(dx, dx, Row::fma(dy, dy, RowF(1e-6f))));
  }
  // A ring as the unit circle. slope: of its intensity.
  struct Unit {
    float per_r, x, y, slope;
  };
  // Direction of a row's hits from the centre, times the distance in units of the radius.
  NANET_HD void direction(const Unit& unit, std::int32_t row, RowF& c, RowF& s) const {
    c = Row::fma(Row::load(s_.hits.x + row * Row::count), RowF(unit.per_r), RowF(unit.x));
    s = Row::fma(Row::load(s_.hits.y + row * Row::count), RowF(unit.per_r), RowF(unit.y));
  }
  // Distance from the unit circle to third order: e/2 - e^2/8 + e^3/16 with e = d^2 - 1. It is monotone.
  NANET_HD static RowF beyond(const RowF& c, const RowF& s) {
    const RowF e = Row::fma(c, c, Row::fma(s, s, RowF(-1.0f)));
    return e * Row::fma(e, Row::fma(e, RowF(0.0625f), RowF(-0.125f)), RowF(0.5f));
  }
  NANET_HD Unit unit_of(const Circle3& c) const {
    const float per_r = inverse(c.r);
    return {per_r, -(c.x * per_r), -(c.y * per_r), -(c.r * c.r * p_.model.per_reach2)};
  }
  NANET_HD Unit unit(int k) const {
    if constexpr (lane_is_thread<L>) {
      float of[4];
      L::four(s_.unit[k], of);
      return {of[0], of[1], of[2], of[3]};
    } else {
      return {s_.unit[0][k], s_.unit[1][k], s_.unit[2][k], s_.unit[3][k]};
    }
  }
  NANET_HD void put_unit(int k) {
    const Unit u = unit_of(ring(k));
    float* const to = s_.unit[k];
    to[0] = u.per_r;
    to[1] = u.x;
    to[2] = u.y;
    to[3] = u.slope;
  }
  // Of all rings, by member: the CPU.
  NANET_HD void put_units(const FewCircles& c) {
    const FewF per_r = Few::reciprocal(c.r);
    Few::store(s_.unit[0], per_r);
    Few::store(s_.unit[1], -(c.x * per_r));
    Few::store(s_.unit[2], -(c.y * per_r));
    Few::store(s_.unit[3], -(c.r * c.r * FewF(p_.model.per_reach2)));
  }
  NANET_HD RowF intensity_of(int k, std::int32_t row) const {
    return intensity_of(unit(k), model_.peak * s_.r[k], row);
  }
  NANET_HD RowF intensity_of(const Unit& unit, float on_ring, std::int32_t row) const {
    RowF x, y;
    direction(unit, row, x, y);
    const RowF off = beyond(x, y);
    const RowF t = Row::max(Row::fma(off * RowF(unit.slope), off, RowF(1.0f)), RowF(0.0f));
    return MultiringModel::shape(t) * RowF(on_ring);
  }
  // Intensities of the rings from `first` on, on all hits and in units of the noise. They depend on the rings
  // alone, bit for bit.
  NANET_HD NANET_INLINED void sum_rings(int first = 0) {
    L::sync();
    if constexpr (lane_is_thread<L>) {
      if (L::lane() < count_) put_unit(L::lane());
    } else if (count_ > 0) {
      put_units(rings());
    }
    L::sync();
    sum_units(first);
  }
  // The same with s_.unit up to date.
  NANET_HD NANET_INLINED void sum_units(int first = 0) {
    if constexpr (lane_is_thread<L>) {
      add_rings(first);
    } else {
      switch (count_ - first) {
        case 0:
          return add_rings<0>(first);
        case 1:
          return add_rings<1>(first);
        case 2:
          return add_rings<2>(first);
        case 3:
          return add_rings<3>(first);
        default:
          return add_rings<4>(first);
      }
    }
    L::sync();
  }
  NANET_HD NANET_INLINED void add_rings(int first) {
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      RowF all{1.0f};
      if (first > 0) all = Row::load(total() + row * Row::count);
      const auto add = [&](int k, const RowF& own) {
        all = all + own;
        Row::store(s_.intensity[k] + row * Row::count, own);
      };
      if constexpr (L::for_latency) {
        RowF own[max_rings];
        NANET_UNROLLED
        for (int k = 0; k < static_cast<int>(max_rings); ++k) own[k] = intensity_of(k, row);
        NANET_UNROLLED
        for (int k = 0; k < static_cast<int>(max_rings); ++k)
          if (k >= first && k < count_) add(k, own[k]);
      } else {
        NANET_ROLLED
        for (int k = first; k < count_; ++k) add(k, intensity_of(k, row));
      }
      Row::store(total() + row * Row::count, all);
    }
  }
  // The same of a known number of rings, whose constants stay in registers: the CPU.
  template <int rings>
  NANET_HD void add_rings(int first) {
    Unit units[rings > 0 ? rings : 1];
    float on_ring[rings > 0 ? rings : 1];
    for (int k = 0; k < rings; ++k) {
      units[k] = unit(first + k);
      on_ring[k] = model_.peak * s_.r[first + k];
    }
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      RowF all{1.0f};
      if (first > 0) all = Row::load(total() + row * Row::count);
      NANET_UNROLLED
      for (int k = 0; k < rings; ++k) {
        const RowF own = intensity_of(units[k], on_ring[k], row);
        all = all + own;
        Row::store(s_.intensity[first + k] + row * Row::count, own);
      }
      Row::store(total() + row * Row::count, all);
    }
  }
  NANET_HD void put_ring(int k, const Circle3& c) {
    if constexpr (lane_is_thread<L>) {
      L::put(s_.x + k, c.x);
      L::put(s_.y + k, c.y);
      L::put(s_.r + k, c.r);
    } else {
      // In whole vectors: a vector loaded behind a store of one number waits for it.
      put_rings(selected(Few::lane() == FewI(k), {FewF(c.x), FewF(c.y), FewF(c.r)}, rings()));
    }
  }
  // All rings: the CPU.
  NANET_HD FewCircles rings() const { return {Few::load(s_.x), Few::load(s_.y), Few::load(s_.r)}; }
  NANET_HD static FewCircles selected(const typename Few::M& is, const FewCircles& a, const FewCircles& b) {
    return {Few::select(is, a.x, b.x), Few::select(is, a.y, b.y), Few::select(is, a.r, b.r)};
  }
  NANET_HD void put_rings(const FewCircles& c) {
    Few::store(s_.x, c.x);
    Few::store(s_.y, c.y);
    Few::store(s_.r, c.r);
  }
  NANET_HD Circle3 ring(int k) const { return {s_.x[k], s_.y[k], s_.r[k]}; }
  NANET_HD void take(const State& state) {
    take_rings(state);
    sum_rings();
  }
  // Without their intensities.
  NANET_HD void take_rings(const State& state) {
    L::sync();
    count_ = state.count;
    each_ring(state.x, s_.x);
    each_ring(state.y, s_.y);
    each_ring(state.r, s_.r);
  }
  NANET_HD void save(State& state, float value) {
    L::sync();
    each_ring(s_.x, state.x);
    each_ring(s_.y, state.y);
    each_ring(s_.r, state.r);
    L::put(&state.value, value);
    put(state.count, count_);
    L::sync();
  }
  NANET_HD static void each_ring(const float* from, float* to) { copy_words(from, to, max_rings); }
  NANET_HD static void copy(const State& from, State& to) {
    L::sync();
    copy_words(reinterpret_cast<const float*>(&from), reinterpret_cast<float*>(&to), sizeof from / 4);
    L::sync();
  }
  // words: at most the number of lanes.
  NANET_HD static void copy_words(const float* from, float* to, unsigned words) {
    if constexpr (lane_is_thread<L>) {
      if (static_cast<unsigned>(L::lane()) < words) to[L::lane()] = from[L::lane()];
    } else {
      std::memcpy(to, from, words * sizeof *to);
    }
  }
  template <class T>
  NANET_HD static void put(T& at, const T& v) {
    if constexpr (lane_is_thread<L>) {
      if (L::lane() == 0) at = v;
    } else {
      at = v;
    }
  }

  // Intensity of noise and rings on the hits of a row, without rings a and b.
  NANET_HD RowF others(std::int32_t row, int a, int b) const {
    RowF m = Row::load(total() + row * Row::count);
    if (a >= 0) m = m - Row::load(s_.intensity[a] + row * Row::count);
    if (b != a) m = m - Row::load(s_.intensity[b] + row * Row::count);
    return Row::max(m, RowF(1.0f));
  }

  // Prepares the search for a ring with rings a and b removed (-1: none). Returns the number of open hits.
  NANET_HD NANET_INLINED std::int32_t look_beside(int a, int b) {
    std::int32_t open = 0;
    L::sync();
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      const RowF per = Row::reciprocal(others(row, a, b));
      const RowI index = RowI(row * Row::count) + Row::lane();
      Row::store(s_.hits.per + row * Row::count, per);
      Row::store(s_.hits.most + row * Row::count,
                 logarithm<Row>(Row::fma(per, RowF(0.9f * model_.peak * p_.r_max), RowF(1.0f))));
      const RowM is_open = (per > RowF(0.5f)) & (index < RowI(hits_));
      const std::uint32_t word = Row::ballot(is_open);
      Row::append(s_.hits.open_x + open, Row::load(s_.hits.x + row * Row::count), is_open, word);
      Row::append(s_.hits.open_y + open, Row::load(s_.hits.y + row * Row::count), is_open, word);
      open += popcount(word);
    }
    L::sync();
    return open;
  }
  NANET_HD static std::int32_t popcount(std::uint32_t word) {
#ifdef __CUDA_ARCH__
    return __popc(word);
#else
    return __builtin_popcount(word);
#endif
  }

  // Normal equations of one Gauss-Newton step of a ring towards the hits in a band, in units of its radius:
  // sums over the hits, each weighted with the probability that the ring made it. k: ring that it replaces
  // (-1: none). per_width: 1 / half width, 1/mm.
  static constexpr int step_bits = 18;
  using StepSum = FixedSum<Row, step_bits>;
  // Members, not an array: g++ 12 keeps an array in memory.
  struct StepSums {
    StepSum w, c, s, cc, cs, off, off_c, off_s;
    template <class T>
    NANET_HD void get(T (&of)[8]) const {
      of[0] = w.sum;
      of[1] = c.sum;
      of[2] = s.sum;
      of[3] = cc.sum;
      of[4] = cs.sum;
      of[5] = off.sum;
      of[6] = off_c.sum;
      of[7] = off_s.sum;
    }
  };
  struct Step {
    float slope, peak;
    NANET_HD Step(const MultiringHand& hand, float r, float per_width) {
      // A hit in the band is at most 8 radii off.
      const float given = r * per_width, width = given > 0.125f ? given : 0.125f;
      slope = -(width * width);
      peak = hand.model_.peak * hand.p_.model.reach * width;
    }
    // rest: intensity of noise and other rings.
    NANET_HD void add(StepSums& v, RowF cosine, RowF sine, const RowF& rest) const {
      const RowF off = beyond(cosine, sine);
      const RowF t = Row::max(Row::fma(off * RowF(slope), off, RowF(1.0f)), RowF(0.0f));
      const RowF own = MultiringModel::shape(t) * RowF(peak);
      const RowF w = own * rough_reciprocal<Row>(rest + own);
      const RowF per_d = rough_reciprocal<Row>(off + RowF(1.0f));  // cosine and sine stay below 1.01
      cosine = cosine * per_d;
      sine = sine * per_d;
      const RowF wc = w * cosine, ws = w * sine, wo = w * off;
      v.w.add(w);
      v.c.add(wc);
      v.s.add(ws);
      v.cc.add(wc, cosine);
      v.cs.add(wc, sine);
      v.off.add(wo);
      v.off_c.add(wo, cosine);
      v.off_s.add(wo, sine);
    }
  };
  NANET_HD void step_sums(const Unit& u, float r, int k, float per_width, std::int32_t (&total)[8]) const {
    const Step step(*this, r, per_width);
    StepSums v;
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      RowF cosine, sine;
      direction(u, row, cosine, sine);
      RowF rest{1.0f};
      if (k >= 0) rest = others(row, k, k);
      step.add(v, cosine, sine, rest);
    }
    RowI sums[8];
    v.get(sums);
    Row::sum(sums, total);
  }
  // A ring per lane. terms: number of terms in each sum.
  NANET_HD NANET_CPU_INLINED FewCircles solved(const FewI (&total)[8], std::int32_t terms,
                                               const FewCircles& from) const {
    const auto sum = [&](int j) { return StepSum::template values<Few>(total[j], terms); };
    const FewF weight = sum(0), c = sum(1), s = sum(2), cc = sum(3), off = sum(5), w = weight + FewF(1e-3f);
    const FewF per_w = Few::reciprocal(w), mc = c * per_w, ms = s * per_w;
    const FewF a = Few::fma(-c, mc, cc + FewF(0.02f)), b = Few::fma(-c, ms, sum(4));
    const FewF d = Few::fma(-s, ms, weight - cc + FewF(0.02f));
    const FewF ec = Few::fma(-off, mc, sum(6)), es = Few::fma(-off, ms, sum(7));
    const FewF det = Few::fma(a, d, -(b * b));
    const FewF per_det = Few::reciprocal(Few::max(det, FewF(1e-4f))) * from.r;
    const FewF ux = limit(Few::fma(ec, d, -(es * b)) * per_det, 25.0f);
    const FewF uy = limit(Few::fma(es, a, -(ec * b)) * per_det, 25.0f);
    const FewF r = from.r + limit(Few::fma(off, from.r, -Few::fma(c, ux, s * uy)) * per_w, 25.0f);
    return {from.x + ux, from.y + uy, Few::min(Few::max(r, FewF(r_min_)), FewF(p_.r_max))};
  }
  NANET_HD static FewF limit(const FewF& v, float most) {
    return Few::min(Few::max(v, FewF(-most)), FewF(most));
  }
  NANET_HD NANET_INLINED Circle3 step(const Circle3& c, float per_width) const {
    std::int32_t total[8];
    step_sums(unit_of(c), c.r, -1, per_width, total);
    if constexpr (lane_is_thread<L>) {
      const FewCircles to = solved(total, terms(), {c.x, c.y, c.r});
      return {to.x, to.y, to.r};
    } else {
      FewI sums[8];
      for (int j = 0; j < 8; ++j) sums[j] = FewI(total[j]);
      const FewCircles to = solved(sums, terms(), {FewF(c.x), FewF(c.y), FewF(c.r)});
      return {Few::at(to.x, 0), Few::at(to.y, 0), Few::at(to.r, 0)};
    }
  }
  // Puts the steps of all rings and their units: the CPU. total: by ring; behind the last ring: any numbers.
  NANET_HD NANET_CPU_INLINED void put_solved(const std::int32_t (&total)[max_rings][8]) {
    FewI sums[8];
    Few::columns(total, sums);
    const FewCircles from = rings();
    const FewCircles c = selected(Few::lane() < FewI(count_), solved(sums, terms(), from), from);
    put_rings(c);
    put_units(c);
  }

  // One step of every ring at once, the others fixed.
  NANET_HD NANET_INLINED void polish() {
    const float per_width = per_step_width * p_.model.per_scale;
    if constexpr (lane_is_thread<L>) {
      polish_by_groups(per_width);
      sum_rings();
    } else {
      std::int32_t total[max_rings][8] = {};
      NANET_ROLLED
      for (int k = 0; k < count_; ++k) step_sums(unit(k), s_.r[k], k, per_width, total[k]);
      put_solved(total);
      sum_units();
    }
  }
  // Each ring in a group of 32, 16 or 8 lanes: with few hits a row would leave most lanes idle. Lanes are
  // threads.
  NANET_HD void polish_by_groups(float per_width) {
    const int width = lanes_step >> (count_ > 2 ? 2 : count_ - 1), group = L::lane() / width,
              k = group < count_ ? group : count_ - 1;
    const std::int32_t steps = (hits_ + width - 1) / width;
    const Circle3 from = ring(k);
    const Unit u = unit(k);
    const Step step(*this, from.r, per_width);
    StepSums v;
    std::int32_t at = L::lane() & (width - 1);
    const auto add = [&] {
      const float x = L::one(s_.hits.x + at), y = L::one(s_.hits.y + at);
      const float rest = L::max(L::one(total() + at) - L::one(s_.intensity[k] + at), 1.0f);
      step.add(v, L::fma(x, u.per_r, u.x), L::fma(y, u.per_r, u.y), rest);
      at += width;
    };
    if constexpr (L::for_latency) {
      NANET_UNROLLED_TWICE
      for (std::int32_t i = 0; i < steps; ++i) add();
    } else {
      NANET_ROLLED
      for (std::int32_t i = 0; i < steps; ++i) add();
    }
    std::int32_t total[8];
    v.get(total);
    NANET_ROLLED
    for (int far = width / 2; far > 0; far /= 2) {
      NANET_UNROLLED
      for (int j = 0; j < 8; ++j) total[j] = L::add(total[j], L::shuffle(total[j], L::lane() ^ far));
    }
    const FewCircles c = solved(total, steps * width, {from.x, from.y, from.r});
    L::sync();
    if (group < count_ && (L::lane() & (width - 1)) == 0) {
      s_.x[k] = c.x;
      s_.y[k] = c.y;
      s_.r[k] = c.r;
    }
    L::sync();
  }
  NANET_HD void polish_all(int times) {
    for (int i = 0; i < times && count_ > 0; ++i) polish();
  }

  // ln of the odds of the current rings.
  NANET_HD NANET_INLINED float value() {
    FixedSum<Row, 16> sum;
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row)
      sum.add(logarithm<Row>(Row::max(Row::load(total() + row * Row::count), RowF(1.0f))));
    float value = sum.total(terms());
    if (count_ == 0) return value;
    static_assert(max_rings == 4);
    const FewF rings =
        model_.template standing<Few>(Few::load_four(s_.x), Few::load_four(s_.y), Few::load_four(s_.r));
    if constexpr (L::for_latency) {
      float each[max_rings];
      NANET_UNROLLED
      for (int i = 0; i < static_cast<int>(max_rings); ++i) each[i] = Few::at(rings, i);
      NANET_UNROLLED
      for (int i = 0; i < static_cast<int>(max_rings); ++i)
        if (i < count_) value += each[i];
    } else {
      NANET_ROLLED
      for (int i = 0; i < count_; ++i) value += Few::at(rings, i);
    }
    return value - (model_.first_cost + static_cast<float>(count_ - 1) * model_.ring_cost);
  }

  NANET_HD float standing(const Circle3& c) const {
    return Few::at(model_.template standing<Few>(FewF(c.x), FewF(c.y), FewF(c.r)), 0);
  }
  NANET_HD float expected(const Circle3& c) const {
    return Few::at(model_.template expected<Few>(FewF(c.x), FewF(c.y), FewF(c.r)), 0);
  }
  NANET_HD static float uniform_root(float v) {
    if constexpr (lane_is_thread<L>)
      return L::root(v);
    else
      return __builtin_sqrtf(v);
  }
  NANET_HD static float inverse(float v) {
    if constexpr (lane_is_thread<L>)
      return L::reciprocal(v);
    else
      return 1.0f / v;
  }

  // ---- A single clean ring.

  // Tests for a single ring with hardly any other hits. If true, the ring is in the current set.
  NANET_HD bool one_clean_ring() {
    F v[8];
    for (F& each : v) each = F(0.0f);
    float sum[8];
    NANET_ROLLED
    for (std::int32_t row = 0; row * lanes_step < hits_; ++row) {
      const M is = I(row * lanes_step) + L::lane() < I(hits_);
      const F x = L::select(is, L::load(s_.hits.x + row * lanes_step) - F(p_.centre_x), F(0.0f));
      const F y = L::select(is, L::load(s_.hits.y + row * lanes_step), F(0.0f));
      const F z = L::fma(x, x, y * y);
      v[0] = v[0] + x;
      v[1] = v[1] + y;
      v[2] = L::fma(x, x, v[2]);
      v[3] = L::fma(y, y, v[3]);
      v[4] = L::fma(x, y, v[4]);
      v[5] = L::fma(x, z, v[5]);
      v[6] = L::fma(y, z, v[6]);
    }
    L::sum(v, sum);
    // MATH: moments about the centroid, one 2 x 2 system.
    const float per_n = inverse(static_cast<float>(hits_)), mx = sum[0] * per_n, my = sum[1] * per_n;
    const float xx = fused(-sum[0], mx, sum[2]), yy = fused(-sum[1], my, sum[3]),
                xy = fused(-sum[0], my, sum[4]);
    const float z = sum[2] + sum[3];
    const float ez = 0.5f * (sum[5] - mx * z), fz = 0.5f * (sum[6] - my * z);
    const float det = fused(xx, yy, -(xy * xy)), trace = xx + yy;
    if (!(det > 1e-5f * trace * trace)) return false;
    const float per_det = inverse(det);
    const float cx = fused(ez, yy, -(fz * xy)) * per_det, cy = fused(fz, xx, -(ez * xy)) * per_det;
    const float dx = cx - mx, dy = cy - my;
    const float r = uniform_root(fused(dx, dx, fused(dy, dy, trace * per_n)));
    if (!(r > r_min_ && r < 1.2f * p_.r_max)) return false;
    count_ = 1;
    Circle3 found{cx + p_.centre_x, cy, r < p_.r_max ? r : p_.r_max};
    found = step(found, p_.model.per_scale / 40.0f);
    found = step(found, p_.model.per_scale / 20.0f);
    put_ring(0, found);
    L::sync();
    sum_rings();
    if (look_beside(-1, -1) > most_stray) return clear();
    polish_all(1);
    const std::int32_t open = look_beside(-1, -1);
    if (open > most_stray || hits_ - open < 8 || above(hits_ - open, expected(ring(0)))) return clear();
    return true;
  }
  // Whether a ring from which `likely` hits are expected has too many.
  NANET_HD static bool above(std::int32_t hits, float likely) {
    return static_cast<float>(hits) > MultiringModel::most_hits(likely, uniform_root(likely));
  }
  NANET_HD bool clear() {
    count_ = 0;
    return false;
  }

  const MultiringParameters& p_;
  const MultiringModel model_;
  Scratch& s_;
  const float r_min_;
  std::int32_t hits_ = 0, rows_ = 0;
  std::int32_t count_ = 0;
};

}  // namespace nanet::rich
