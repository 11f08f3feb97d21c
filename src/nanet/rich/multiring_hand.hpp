// SPDX-License-Identifier: Apache-2.0
// MULTIRING: data structures, and the current set of rings with hit intensities, polishing steps and odds.
#pragma once

#include <cstring>
#include <string_view>

#include "nanet/rich/multiring_search.hpp"
#include "nanet/rich/parameters.hpp"

namespace nanet::rich {

struct Multiring {
  static constexpr std::string_view name = "multiring";
  static constexpr unsigned most_rings = rich::max_rings;
  static constexpr bool rejects_noise = true;
  static constexpr bool assumes_centre = true;  // prior on the ring centres
  using Parameters = MultiringParameters;

  // A set of rings. value: ln of the likelihood ratio of the hits with and without the rings, costs included.
  struct State {
    float x[max_rings], y[max_rings], r[max_rings];
    float value;
    std::int32_t count;
  };
  // Candidate ring for a state; promise: value of both before polishing.
  struct Candidate {
    Circle3 circle;
    float promise;
    std::int32_t state;
  };
  static constexpr int max_breadth = 4;
  static constexpr int ways = 2;    // candidates tried per state
  static constexpr int rounds = 3;  // of seeds, 32 each
  // State passed from one kernel to the next.
  struct Kept {
    State best;
    float best_of[max_rings + 1];  // best value for each number of rings
    std::int32_t settled;          // no search and no split needed
  };
  // State of the search, shared by the warps of a team.
  struct Board {
    State now[max_breadth], next[max_breadth * ways];
    Candidate candidate[max_breadth * ways];
    std::uint32_t candidates[max_breadth];  // one bit per candidate of a state
    Kept kept;
  };
  struct Scratch {
    MultiringHits hits;
    alignas(64) float intensity[max_rings][max_event_hits];  // per ring, in units of the noise
    alignas(64) float all[max_event_hits];                   // noise and all rings
    alignas(64) float x[lane_count];                         // current rings
    alignas(64) float y[lane_count];
    alignas(64) float r[lane_count];
    Board board;
  };

  Parameters parameters;
  static Keys<Parameters> keys() {
    using P = Parameters;
    return {
        {"min_hits", &P::min_hits, 3, max_event_hits, "fewest hits that make a ring"},
        {"r_min", &P::r_min, 5, 1000, "smallest radius of a ring in mm"},
        {"r_max", &P::r_max, 5, 1000, "radius at beta = 1 in mm: no ring is larger"},
        {"yield", &P::yield, 1, 100, "photoelectrons of a ring of radius r_max, on average"},
        {"noise", &P::noise, 0.05, 50, "noise hits per event, on average"},
        {"centre_x", &P::centre_x, -1000, 1000, "middle of the rings' centres in x in mm; in y it is 0"},
        {"centre_sigma", &P::centre_sigma, 5, 10000, "spread of the rings' centres per axis in mm"},
        {"radius_prior", &P::radius_prior, 0, 5,
         "rings are spread in radius as (1.06 - (r / r_max)^2)^-this; 0: evenly"},
        {"first_cost", &P::first_cost, 0, 50, "ln of the odds against an event's first ring"},
        {"ring_cost", &P::ring_cost, 0, 50, "ln of the odds against each further ring"},
        {"noise_adaption", &P::noise_adaption, 0, 5,
         "how much an event's stray hits count against its only ring; 0: not at all"},
        {"ambiguity_margin", &P::ambiguity_margin, 0, 50,
         "an event is ambiguous when another number of rings comes this near in ln of the odds"},
        {"breadth", &P::breadth, 1, max_breadth,
         "ways of taking rings followed side by side: more is better and slower"},
    };
  }

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& scratch, Rings& rings) const;
};

// The hits of one event and the current set of rings.
template <class L>
class MultiringHand {
 protected:
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;
  using State = Multiring::State;
  using Scratch = Multiring::Scratch;
  static constexpr float far_away = 1e4f;                // mm: position of padding hits
  static constexpr float per_step_width = 1.0f / 16.0f;  // 1/mm; half the band of the polishing steps

  NANET_HD MultiringHand(const MultiringParameters& parameters, const EventView& event, const Point* plane,
                         Scratch& scratch)
      : p_(parameters), model_(MultiringModel::make<L>(parameters)), s_(scratch), r_min_(parameters.r_min) {
    load(event, plane);
  }

  NANET_HD void load(const EventView& event, const Point* plane) {
    hits_ = static_cast<std::int32_t>(event.hits < max_event_hits ? event.hits : max_event_hits);
    rows_ = (hits_ + lanes_step - 1) / lanes_step;
    NANET_ROLLED
    for (std::int32_t from = 0; from < rows_ * lanes_step; from += lanes_step) {
      if constexpr (lane_is_thread<L>) {
        const std::int32_t i = from + L::lane();
        const Point at = i < hits_ ? plane[event.pm[i]] : Point{far_away, far_away};
        s_.hits.x[i] = at.x;
        s_.hits.y[i] = at.y;
      } else {
        for (std::int32_t i = from; i < from + lanes_step; ++i) {
          const Point at = i < hits_ ? plane[event.pm[i]] : Point{far_away, far_away};
          s_.hits.x[i] = at.x;
          s_.hits.y[i] = at.y;
        }
      }
    }
    L::store(s_.x, F(p_.centre_x));
    L::store(s_.y, F(0.0f));
    L::store(s_.r, F(100.0f));
    L::sync();
  }

  // ---- Current rings: s_.x, y, r [0 .. count_), and their intensities on all hits.

  // Distance of a row's hits to a point, mm; never 0.
  NANET_HD F distance(std::int32_t row, float x, float y) const {
    const F dx = L::load(s_.hits.x + row * lanes_step) - F(x),
            dy = L::load(s_.hits.y + row * lanes_step) - F(y);
    return L::root(L::fma(dx, dx, L::fma(dy, dy, F(1e-6f))));
  }
  // Expected intensity of a ring on a row's hits, in units of the noise.
  NANET_HD F intensity(const Circle3& c, std::int32_t row) const {
    const F off = distance(row, c.x, c.y) - F(c.r);
    const F t = L::max(L::fma(off * F(-p_.model.per_reach2), off, F(1.0f)), F(0.0f));
    return MultiringModel::shape(t) * F(model_.peak * c.r);
  }
  // fresh: ring k did not exist before.
  NANET_HD NANET_NOINLINE void set_ring(int k, const Circle3& c, bool fresh) {
    L::sync();
    L::put(s_.x + k, c.x);
    L::put(s_.y + k, c.y);
    L::put(s_.r + k, c.r);
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      float* const own = s_.intensity[k] + row * lanes_step;
      float* const all = s_.all + row * lanes_step;
      const F now = intensity(c, row);
      F change = now;
      if (!fresh) change = now - L::load(own);
      L::store(all, L::load(all) + change);
      L::store(own, now);
    }
    L::sync();
  }
  NANET_HD Circle3 ring(int k) const { return {s_.x[k], s_.y[k], s_.r[k]}; }
  // Recomputes the intensities of all rings.
  NANET_HD void sum_rings() {
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      F all{1.0f};
      NANET_ROLLED
      for (int k = 0; k < count_; ++k) {
        const F now = intensity(ring(k), row);
        all = all + now;
        L::store(s_.intensity[k] + row * lanes_step, now);
      }
      L::store(s_.all + row * lanes_step, all);
    }
    L::sync();
  }
  NANET_HD NANET_NOINLINE void take(const State& state) {
    L::sync();
    count_ = state.count;
    each_ring(state.x, s_.x);
    each_ring(state.y, s_.y);
    each_ring(state.r, s_.r);
    L::sync();
    sum_rings();
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
  NANET_HD F others(std::int32_t row, int a, int b) const {
    F m = L::load(s_.all + row * lanes_step);
    if (a >= 0) m = m - L::load(s_.intensity[a] + row * lanes_step);
    if (b != a) m = m - L::load(s_.intensity[b] + row * lanes_step);
    return L::max(m, F(1.0f));
  }

  // Prepares the search for a ring with rings a and b removed (-1: none). Returns the number of open hits.
  NANET_HD NANET_NOINLINE std::int32_t look_beside(int a, int b) {
    std::int32_t open = 0;
    L::sync();
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) {
      const F per = L::reciprocal(others(row, a, b));
      const I index = I(row * lanes_step) + L::lane();
      L::store(s_.hits.per + row * lanes_step, per);
      L::store(s_.hits.most + row * lanes_step,
               logarithm<L>(L::fma(per, F(0.9f * model_.peak * p_.r_max), F(1.0f))));
      const M is_open = (per > F(0.5f)) & (index < I(hits_));
      const std::uint32_t word = L::ballot(is_open);
      L::scatter(s_.hits.open, I(open) + L::rank(word), index, is_open);
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

  // One Gauss-Newton step of ring k with the others fixed.
  NANET_HD void polish(int k) { set_ring(k, step(ring(k), k, per_step_width * p_.model.per_scale), false); }
  // Moves a ring that replaces ring k (-1: none) towards the hits in a band. per_width: 1 / half width, 1/mm.
  NANET_HD NANET_NOINLINE Circle3 step(const Circle3& c, int k, float per_width) const {
    Sums sums;
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row)
      sums.add(*this, c, row, per_width, k < 0 ? F(1.0f) : others(row, k, k));
    return sums.solve(c, r_min_, p_.r_max);
  }

  // Normal equations as in MultiringSearch, with hits as lanes.
  struct Sums {
    F v[8] = {F(0.0f), F(0.0f), F(0.0f), F(0.0f), F(0.0f), F(0.0f), F(0.0f), F(0.0f)};
    NANET_HD void add(const MultiringHand& e, const Circle3& c, std::int32_t row, float per_width,
                      const F& rest) {
      const F dx = L::load(e.s_.hits.x + row * lanes_step) - F(c.x);
      const F dy = L::load(e.s_.hits.y + row * lanes_step) - F(c.y);
      const F d = L::root(L::fma(dx, dx, L::fma(dy, dy, F(1e-6f))));
      const F off = d - F(c.r), per_d = L::reciprocal(d);
      const F t = L::max(L::fma(off * F(-(per_width * per_width)), off, F(1.0f)), F(0.0f));
      const float on_ring = e.model_.peak * c.r * (e.p_.model.reach * per_width);
      const F own = MultiringModel::shape(t) * F(on_ring);
      const F w = own * L::reciprocal(rest + own);
      const F cosine = dx * per_d, sine = dy * per_d;
      const F wc = w * cosine, ws = w * sine, wo = w * off;
      v[0] = v[0] + w;
      v[1] = v[1] + wc;
      v[2] = v[2] + ws;
      v[3] = L::fma(wc, cosine, v[3]);
      v[4] = L::fma(wc, sine, v[4]);
      v[5] = v[5] + wo;
      v[6] = L::fma(wo, cosine, v[6]);
      v[7] = L::fma(wo, sine, v[7]);
    }
    NANET_HD Circle3 solve(const Circle3& from, float r_min, float r_max) const {
      float sum[8];
      L::sum(v, sum);
      const float w = sum[0] + 1e-3f, c = sum[1], s = sum[2], off = sum[5];
      const float per_w = inverse(w), mc = c * per_w, ms = s * per_w;
      const float a = fused(-c, mc, sum[3] + 0.02f), b = fused(-c, ms, sum[4]);
      const float d = fused(-s, ms, sum[0] - sum[3] + 0.02f);
      const float ec = fused(-off, mc, sum[6]), es = fused(-off, ms, sum[7]);
      const float det = fused(a, d, -(b * b));
      const float per_det = inverse(det > 1e-4f ? det : 1e-4f);
      const float ux = limit(fused(ec, d, -(es * b)) * per_det, 25.0f);
      const float uy = limit(fused(es, a, -(ec * b)) * per_det, 25.0f);
      const float r = from.r + limit((off - fused(c, ux, s * uy)) * per_w, 25.0f);
      return {from.x + ux, from.y + uy, r < r_min ? r_min : r > r_max ? r_max : r};
    }
  };
  NANET_HD static float limit(float v, float most) { return v < -most ? -most : v > most ? most : v; }

  NANET_HD void polish_all(int times) {
    NANET_ROLLED
    for (int i = 0; i < times; ++i) NANET_ROLLED
    for (int k = 0; k < count_; ++k) polish(k);
  }

  // ln of the odds of the current rings.
  NANET_HD NANET_NOINLINE float value() {
    F sum{0.0f};
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) sum = sum + logarithm<L>(others(row, -1, -1));
    const F rings = model_.template standing<L>(L::load(s_.x), L::load(s_.y), L::load(s_.r));
    sum = sum + L::select(L::lane() < I(count_), rings, F(0.0f));
    const float costs = count_ ? model_.first_cost + static_cast<float>(count_ - 1) * model_.ring_cost : 0.0f;
    return L::sum(sum) - costs;
  }

  NANET_HD F standing(int k) const { return model_.template standing<L>(F(s_.x[k]), F(s_.y[k]), F(s_.r[k])); }
  NANET_HD static float at0(const F& v) { return L::at(v, 0); }
  NANET_HD static float uniform_root(float v) { return at0(L::root(F(v))); }
  NANET_HD static float inverse(float v) { return at0(L::reciprocal(F(v))); }

  const MultiringParameters& p_;
  const MultiringModel model_;
  Scratch& s_;
  const float r_min_;
  std::int32_t hits_ = 0, rows_ = 0;
  std::int32_t count_ = 0;
};

}  // namespace nanet::rich
