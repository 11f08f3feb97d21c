// SPDX-License-Identifier: Apache-2.0
// MATH: one ring per event by moments (Crawford, NIM 211 (1983) 223). Algebraic circle fit: minimises
// sum((d^2 - r^2)^2) in closed form after a single pass over the hits.
#pragma once

#include <cmath>
#include <memory>
#include <string_view>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/lanes.hpp"
#include "nanet/rich/parameters.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

class Reconstructor;

// Single-lane types for the per-event function on the host, with the interface of lanes.hpp.
struct OneLane {
  using F = float;
  NANET_HD static float fma(float a, float b, float c) { return fused(a, b, c); }
  NANET_HD static float sqrt(float a) { return sqrtf(a); }
  NANET_HD static float select(bool m, float a, float b) { return m ? a : b; }
};

// All operations are float32, in this order, fused only where written as fma. CPU, vector units and GPU give
// the same bits (docs/algorithms.md). Degenerate events have no ring: fewer than min_hits, collinear or
// coincident hits, or a radius outside r_min .. r_max. No result is NaN or infinite.
struct Math {
  static constexpr std::string_view name = "math";
  struct Parameters {
    std::uint32_t min_hits = 4;
    float r_min = 50.0f;   // mm: a ring of this radius has one photoelectron on average
    float r_max = 201.0f;  // mm: 190.7 mm at beta = 1, plus 10 mm for the fit error
    RingModel model;
  };
  static Keys<Parameters> keys() { return ring_keys<Parameters>(); }
  // Processes sixteen events at a time (math_batch.cpp), with the same bits.
  static std::unique_ptr<Reconstructor> batch_reconstructor(const Math& math, const Geometry& geometry);
  // Origin of the coordinates, midway between the mirror rotations; x in mm, y in PM rows. Both are small
  // integers there, so most sums over hits are exact in float32.
  static constexpr float origin_x = -152.0f, origin_y = 0.0f;
  static constexpr float row2 = 243.0f;  // square of the row distance, 9 sqrt(3) mm
  // y in rows, rounded to 2^-16; exact if y is a whole number of rows.
  // |y| below 900 mm.
  template <class L>
  NANET_HD static typename L::F rows(const typename L::F& y) {
    using F = typename L::F;
    const F round = 192.0f;  // 1.5 * 2^23 * 2^-16
    return (((y - F(origin_y)) / F(row_mm)) + round) - round;
  }
  NANET_HD static float rows(float y) { return rows<OneLane>(y); }
  // flat: smallest det / trace^2 of the moments that counts as an arc. A straight line has 0. Four hits, one
  // of them off the line by one PM row, have 1e-3. noise, spot: rounding errors for collinear or coincident
  // hits. They are relative: det to trace * sum(z), and trace to sum(z). Three neighbours have 5e-4.
  static constexpr float flat = 1e-5f, noise = 1e-6f, spot = 2e-5f;

  // Typical z = x^2 + y^2, mm^2: keeps the sums of x (z - usual_z), and their rounding errors, small.
  static constexpr float usual_z = 32768.0f;

  // Sums over the hits, with k = y in rows, z = x^2 + y^2, w = z - usual_z.
  template <class L>
  struct Moments {
    using F = typename L::F;
    F x = 0.0f, k = 0.0f, xx = 0.0f, xk = 0.0f, kk = 0.0f, xw = 0.0f, kw = 0.0f, zw = 0.0f;
    // A hit at (0, 0) changes no bit of any sum.
    NANET_HD void add(const F& px, const F& pk) {
      x += px;
      k += pk;
      const F x2 = px * px, k2 = pk * pk;
      xx += x2;
      xk = L::fma(px, pk, xk);
      kk += k2;
      const F z = L::fma(F(row2), k2, x2), w = z - F(usual_z);
      xw = L::fma(px, w, xw);
      kw = L::fma(pk, w, kw);
      zw = L::fma(z, w, zw);
    }
  };

  template <class L>
  struct Fit {
    typename L::F x, y, r, chi2_ndf;
  };

  // Computes the circle from the moments of n hits; returns a mask of valid lanes. n >= 3; share: 1 / n.
  template <class L>
  NANET_HD auto solve(const Moments<L>& s, const typename L::F& n, const typename L::F& share,
                      Fit<L>& fit) const {
    using F = typename L::F;
    const F one = 1.0f;
    const F z = L::fma(F(row2), s.kk, s.xx), w = L::fma(-n, F(usual_z), z);
    const F mean_x = s.x * share, mean_k = s.k * share, mean_w = w * share;
    // Central moments: sum((p - mean p)(q - mean q)) = sum(p q) - mean q * sum(p) - mean p * (sum(q) - n mean
    // q). The last bracket compensates for the rounding of the mean.
    const F rest_x = L::fma(-n, mean_x, s.x), rest_k = L::fma(-n, mean_k, s.k),
            rest_w = L::fma(-n, mean_w, w);
    const F uu = L::fma(-mean_x, rest_x, L::fma(-mean_x, s.x, s.xx));
    const F uk = L::fma(-mean_x, rest_k, L::fma(-mean_k, s.x, s.xk));
    const F kk = L::fma(-mean_k, rest_k, L::fma(-mean_k, s.k, s.kk));
    const F uw = L::fma(-mean_x, rest_w, L::fma(-mean_w, s.x, s.xw));
    const F kw = L::fma(-mean_k, rest_w, L::fma(-mean_w, s.k, s.kw));
    const F ww = L::fma(-mean_w, z, s.zw);
    const F trace = L::fma(F(row2), kk, uu), det = L::fma(uu, kk, -(uk * uk));
    auto good = (det * F(row2) > trace * L::fma(F(flat), trace, z * F(noise))) & (trace > z * F(spot));
    const F half = F(0.5f) * (one / L::select(good, det, one));  // Cramer's rule
    const F two_x = mean_x + mean_x, two_k = (mean_k + mean_k) * F(row2);
    // z relative to the mean point.
    const F uz = L::fma(-two_x, uu, L::fma(-two_k, uk, uw)), kz = L::fma(-two_x, uk, L::fma(-two_k, kk, kw));
    const F a = L::fma(uz, kk, -(kz * uk)) * half;
    const F b = L::fma(kz, uu, -(uz * uk)) * half;  // rows^-1 mm^2: the centre is b / row2 rows from the mean
    const F r2 = L::fma(a, a, L::fma(b * F(1.0f / row2), b, trace * share));
    fit.r = L::sqrt(r2);
    good = good & (fit.r >= F(parameters.r_min)) & (fit.r <= F(parameters.r_max));
    const F x = mean_x + a, y = L::fma(mean_k, F(row2), b);
    fit.x = x + F(origin_x);
    fit.y = L::fma(y, F(row_mm / row2), F(origin_y));
    // Minimised sum((d^2 - r^2)^2), and its expectation for residuals of the hit sigma.
    const F left = L::fma(F(-2.0f) * x, uw, L::fma(F(-2.0f) * y, kw, ww));
    const F free = n - F(3.0f);
    const auto use = good & (free > F(0.0f)) & (left > F(0.0f));
    const F expected = (r2 * free) * F(parameters.model.four_sigma2);
    fit.chi2_ndf = L::select(use, left, F(0.0f)) / L::select(use, expected, one);
    return good;
  }

  template <class L>
  NANET_HD auto solve(const Moments<L>& s, const typename L::F& n, Fit<L>& fit) const {
    const typename L::F one = 1.0f;
    return solve<L>(s, n, one / n, fit);
  }

  Parameters parameters;

  // plane[pm]: common-plane position, mm. Uses the first 128 hits.
  NANET_HD Rings operator()(const EventView& event, const Point* plane) const {
    const std::uint32_t hits = event.hits < max_event_hits ? event.hits : max_event_hits;
    if (hits < parameters.min_hits || hits < 3) return {};
    Moments<OneLane> moments;
    for (std::uint32_t i = 0; i < hits; ++i) {
      const Point& p = plane[event.pm[i]];
      moments.add(p.x - origin_x, rows(p.y));
    }
    return ring(moments, hits);
  }

  // The fit in steps that threads can share, with the same bits. For each hit in turn, each of the eight
  // moment sums s becomes fused(factor[left(s)], factor[right(s)], sum). The factors depend on the PM alone.
  static constexpr unsigned sums = 8;
  struct alignas(16) Factors {
    float factor[8];  // 1, x, k, x^2, k^2, z, w
  };
  NANET_HD static Factors factors(const Point& position) {
    const float x = position.x - origin_x, k = rows(position.y);
    const float x2 = x * x, k2 = k * k, z = fused(row2, k2, x2);
    return {{1.0f, x, k, x2, k2, z, z - usual_z, 0.0f}};
  }
  NANET_HD static unsigned left(unsigned s) { return 0x52101000u >> 4 * s & 7; }
  NANET_HD static unsigned right(unsigned s) { return 0x66642321u >> 4 * s & 7; }
  // Result of operator() for an event with `hits` hits, the first 128 of which are in the sums.
  NANET_HD Rings of_sums(const float* sum, std::uint32_t hits) const {
    if (hits > max_event_hits) hits = max_event_hits;
    if (hits < parameters.min_hits || hits < 3) return {};
    Moments<OneLane> moments;
    moments.x = sum[0], moments.k = sum[1], moments.xx = sum[2], moments.xk = sum[3];
    moments.kk = sum[4], moments.xw = sum[5], moments.kw = sum[6], moments.zw = sum[7];
    return ring(moments, hits);
  }

 private:
  NANET_HD Rings ring(const Moments<OneLane>& moments, std::uint32_t hits) const {
    Rings rings;
    Fit<OneLane> fit;
    if (!solve(moments, static_cast<float>(hits), fit)) return rings;
    rings.count = 1;
    rings.ring[0] = {fit.x, fit.y, fit.r, fit.chi2_ndf, static_cast<std::uint8_t>(hits)};
    return rings;
  }
};

}  // namespace nanet::rich
