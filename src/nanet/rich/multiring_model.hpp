// SPDX-License-Identifier: Apache-2.0
// Likelihood model of MULTIRING: expected hits of a ring and of noise, priors of rings. Derivation:
// docs/algorithms.md.
#pragma once

#include <bit>
#include <cstdint>

#include "nanet/rich/lanes.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

struct MultiringParameters {
  std::uint32_t min_hits = 4;   // minimum hits of a ring
  float r_min = 45.0f;          // mm
  float r_max = 190.7f;         // mm, radius at beta = 1: the maximum
  float yield = 13.9f;          // mean photoelectrons of a ring of radius r_max
  float noise = 1.0f;           // mean noise hits per event
  float centre_x = -152.0f;     // mm: mean of the ring centres is (centre_x, 0)
  float centre_sigma = 60.0f;   // mm per axis
  float radius_prior = 1.95f;   // radii are distributed as (1 + 0.06 - (r / r_max)^2)^-radius_prior
  float first_cost = 7.5f;      // ln of the odds against an event's first ring
  float ring_cost = 8.55f;      // ln of the odds against each further one
  float noise_adaption = 1.2f;  // weight of an event's unassigned hits against its only ring
  float ambiguity_margin = 1.0f;
  std::uint32_t breadth = 3;  // states followed in parallel, 1 - 4
  RingModel model;
};

struct Circle3 {
  float x, y, r;  // mm
};

// Natural logarithm of v > 0, to 1.1e-4; same bits on all machines.
template <class L>
NANET_HD inline typename L::F logarithm(const typename L::F& v) {
  using F = typename L::F;
  using I = typename L::I;
  const I bits = L::bits(v);
  const F exponent = L::to_float((bits >> 23) - I(127));
  const F t = L::from_bits((bits & I(0x7FFFFF)) | I(0x3F800000)) - F(1.0f);
  F p = L::fma(t, F(0.0439286f), F(-0.1894f));
  p = L::fma(p, t, F(0.4115f));
  p = L::fma(p, t, F(-0.7072f));
  p = L::fma(p, t, F(1.4413f));
  return L::fma(p, t, exponent) * F(0.69314718f);
}

// 1 / v to 0.3 %, v > 0; for weights.
template <class L>
NANET_HD inline typename L::F rough_reciprocal(const typename L::F& v) {
  using F = typename L::F;
  const F r = L::from_bits(typename L::I(0x7EF311C7) - L::bits(v));
  return r * L::fma(-v, r, F(2.0f));
}

// Sum in fixed point, independent of the order of the terms and of the number of lanes. Terms are rounded to
// multiples of 2^-bits; their magnitude is below 2^(22 - bits).
template <class L, int bits>
struct FixedSum {
  using F = typename L::F;
  using I = typename L::I;
  // The last bits of term + magic are the term's multiple.
  static constexpr float magic =
      bits < 23 ? static_cast<float>(3 << (22 - bits)) : 3.0f / static_cast<float>(1 << (bits - 22));
  static constexpr float unit = 1.0f / static_cast<float>(1 << bits);

  I sum{0};
  NANET_HD void add(const F& term) { sum = L::add(sum, L::bits(term + F(magic))); }
  NANET_HD void add(const F& a, const F& b) { sum = L::add(sum, L::bits(L::fma(a, b, F(magic)))); }
  // Sum over the lanes. terms: number added, in all lanes together.
  NANET_HD float total(std::int32_t terms) const { return value(L::sum(sum), terms); }
  NANET_HD static float value(std::int32_t sum, std::int32_t terms) {
    const std::uint32_t multiple = static_cast<std::uint32_t>(sum) - of_magic(terms);
    return static_cast<float>(static_cast<std::int32_t>(multiple)) * unit;
  }
  // The same of a sum per lane.
  template <class V>
  NANET_HD static typename V::F values(const typename V::I& sum, std::int32_t terms) {
    const typename V::I less(static_cast<std::int32_t>(0u - of_magic(terms)));
    return V::to_float(V::add(sum, less)) * typename V::F(unit);
  }
  NANET_HD static std::uint32_t of_magic(std::int32_t terms) {
    constexpr std::uint32_t bits_of_magic = std::bit_cast<std::uint32_t>(magic);
    return static_cast<std::uint32_t>(terms) * bits_of_magic;
  }
};

struct MultiringModel {
  static constexpr float seen = 0.957f;          // fraction of photoelectrons that give a separate hit
  static constexpr float loss_per_mm = 0.0045f;  // fraction of the yield lost per mm beyond the edge
  static constexpr float smear = 0.06f;
  // Photons beyond a ring's profile act as noise: with less of it they become rings.
  static constexpr float least_noise = 0.25f;

  float peak;        // intensity on a ring of radius r, in units of the noise: peak * r
  float band_peak;   // peak * 1.1 * reach of the hit density
  float photons;     // hits of a ring of radius r: photons * r^2
  float per_r_max2;  // 1 / r_max^2
  float per_centre;  // 1 / (2 centre_sigma^2)
  float per_noise;   // 1 / noise, at most 1
  float first_cost, ring_cost;
  float centre_x, radius_prior;
  float edge;  // mm

  template <class L>
  NANET_HD static MultiringModel make(const MultiringParameters& p) {
    MultiringModel m;
    const auto inverse = [](float v) { return L::at(L::reciprocal(typename L::F(v)), 0); };
    // Photoelectrons per mm of circumference, times density on the ring, times PM area, divided by the number
    // of disks that share the photons.
    constexpr float per_turn = 0.15915494f;
    m.per_r_max2 = inverse(p.r_max * p.r_max);
    m.photons = p.yield * m.per_r_max2 * seen;
    m.peak = m.photons * per_turn * p.model.area_per_disk * p.model.on_ring * p.model.channels *
             inverse(p.noise > least_noise ? p.noise : least_noise);
    m.band_peak = m.peak * 1.1f * p.model.reach;
    m.edge = p.model.edge;
    m.per_centre = 0.5f * inverse(p.centre_sigma * p.centre_sigma);
    // A hit counts for less above more noise, so the costs fall; slopes tuned at noise 1.5 to 5.
    const bool noisy = p.noise > 1.0f;
    const float excess = noisy ? L::at(logarithm<L>(typename L::F(p.noise)), 0) : 0.0f;
    m.per_noise = noisy ? inverse(p.noise) : 1.0f;
    m.first_cost = p.first_cost - 2.0f * excess;
    m.ring_cost = p.ring_cost - 3.4f * excess;
    m.centre_x = p.centre_x;
    m.radius_prior = p.radius_prior;
    return m;
  }

  // Number of hits above which a ring from which `likely` are expected has too many.
  NANET_HD static float most_hits(float likely, float its_root) { return likely + 1.5f * its_root; }

  // Mean number of hits of a ring, per lane.
  template <class L>
  NANET_HD typename L::F expected(const typename L::F& x, const typename L::F& y,
                                  const typename L::F& r) const {
    using F = typename L::F;
    const F dx = x - F(centre_x);
    const F out = L::root(L::fma(dx, dx, L::fma(y, y, F(1e-6f)))) + r - F(edge);
    return r * r * F(photons) * (F(1.0f) - L::min(L::max(out * F(loss_per_mm), F(0.0f)), F(0.9f)));
  }

  // ln of a ring's prior, minus its expected number of hits.
  template <class L>
  NANET_HD typename L::F standing(const typename L::F& x, const typename L::F& y,
                                  const typename L::F& r) const {
    using F = typename L::F;
    const F dx = x - F(centre_x);
    const F off = L::fma(dx, dx, y * y);
    const F rest = L::fma(r * r, F(-per_r_max2), F(1.0f + smear)) * F(10.0f);
    return off * F(-per_centre) - logarithm<L>(rest) * F(radius_prior) - expected<L>(x, y, r);
  }

  // Profile of the density across a ring: 1 on the ring, 0 from `reach` on. t = 1 - (distance / reach)^2, at
  // least 0.
  template <class F>
  NANET_HD static F shape(const F& t) {
    return t * t * (F(2.3f) - F(1.3f) * t);
  }
};

// Hits beside a single clean ring.
inline constexpr std::int32_t most_stray = 2;

// Hits from which on no event is taken for a single clean ring: more than the largest ring has. Above
// max_event_hits: never.
inline std::uint32_t hits_beyond_one_ring(const MultiringParameters& p) {
  const float r2 = p.r_max * p.r_max, likely = r2 * (p.yield * (1.0f / r2) * MultiringModel::seen);
  const float most = MultiringModel::most_hits(likely, __builtin_sqrtf(likely));
  std::int32_t hits = static_cast<std::int32_t>(p.min_hits < 3 ? 3 : p.min_hits);
  while (hits <= static_cast<std::int32_t>(max_event_hits) && !(static_cast<float>(hits - most_stray) > most))
    ++hits;
  return static_cast<std::uint32_t>(hits);
}

}  // namespace nanet::rich
