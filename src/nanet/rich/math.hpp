// SPDX-License-Identifier: Apache-2.0
// MATH: one ring per event by moments (Crawford, NIM 211 (1983) 223). Algebraic circle fit: minimises
// sum((d^2 - r^2)^2) in closed form after a single pass over the hits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/lanes.hpp"
#include "nanet/rich/parameters.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::rich {

class Reconstructor;

// Single-lane types for the per-event function, with the interface of lanes.hpp.
struct OneLane {
  using F = float;
  using I = std::int32_t;
  NANET_HD static float to_float(std::int32_t a) { return static_cast<float>(a); }
  NANET_HD static float fma(float a, float b, float c) { return fused(a, b, c); }
#ifdef __CUDA_ARCH__
  __device__ static float reciprocal(float a) { return DeviceLanes::reciprocal(a); }
  __device__ static float root(float a) { return DeviceLanes::root(a); }
#else
  static float reciprocal(float a) { return 1.0f / a; }
  static float root(float a) { return sqrtf(a); }
#endif
  NANET_HD static float select(bool m, float a, float b) { return m ? a : b; }
};

// Sums over hits are whole numbers, so that no order of hits changes a bit; the fit is float32, in this
// order, fused only where written as fma. CPU, vector units and GPU give the same bits (docs/algorithms.md).
// Degenerate events have no ring: fewer than min_hits, collinear or coincident hits, or a radius outside
// r_min .. r_max. No result is NaN or infinite.
struct Math {
  static constexpr std::string_view name = "math";
  struct Parameters {
    std::uint32_t min_hits = 4;
    float r_min = 50.0f;   // mm: a ring of this radius has one photoelectron on average
    float r_max = 201.0f;  // mm: 190.7 mm at beta = 1, plus 10 mm for the fit error
    RingModel model;
  };
  static Keys<Parameters> keys() { return ring_keys<Parameters>(); }
  // Processes many events at a time (math_batch.cpp), with the same bits.
  static std::unique_ptr<Reconstructor> batch_reconstructor(const Math& math, const Geometry& geometry);
  // Origin of the coordinates, midway between the mirror rotations; x in mm, y in PM rows. Both are small
  // whole numbers there.
  static constexpr float origin_x = -152.0f, origin_y = 0.0f;
  static constexpr std::int32_t whole_row2 = 243;  // square of the row distance, 9 sqrt(3) mm
  static constexpr float row2 = static_cast<float>(whole_row2);
  // flat: smallest det / trace^2 of the moments that counts as an arc. A straight line has 0. Four hits, one
  // of them off the line by one PM row, have 1e-3. noise, spot: rounding errors for collinear or coincident
  // hits. They are relative: det to trace * sum(z), and trace to sum(z). Three neighbours have 5e-4.
  static constexpr float flat = 1e-5f, noise = 1e-6f, spot = 2e-5f;

  // Typical z = x^2 + y^2, mm^2: keeps the sums of x (z - usual_z), and their rounding errors, small.
  static constexpr std::int32_t whole_usual_z = 32768;
  static constexpr float usual_z = static_cast<float>(whole_usual_z);

  // Sums over the hits, with k = y in rows, z = x^2 + y^2, w = z - usual_z; each rounded once.
  template <class L>
  struct Moments {
    using F = typename L::F;
    F x = 0.0f, k = 0.0f, xx = 0.0f, xk = 0.0f, kk = 0.0f, xw = 0.0f, kw = 0.0f, zw = 0.0f;
  };

  // Position of a hit in fixed point: x of 2^-14 mm, k of 2^-16 rows, z and w of 2^-6 mm^2. With scale s,
  // 2^s, 2^s and 4^s of these. x and k are rounded to the nearest number; z follows from them.
  struct alignas(16) Position {
    std::int32_t x, k, z, w;
  };
  static constexpr int x_bits = 14, k_bits = 16, z_bits = 6;
  // Coordinates about the origin up to reach_mm 2^scale: then |x| and |k| <= 2^24, z and |w| <= 2^27.
  static constexpr double reach_mm = 1024.0;
  static constexpr int max_scale = 10;
  // Smallest scale for a position; max_scale + 1 if it is farther away, or not a number.
  NANET_HD static int scale_of(const Point& p) {
    const int x = scale_of(double{p.x} - double{origin_x}), y = scale_of(double{p.y} - double{origin_y});
    return x > y ? x : y;
  }
  // The same for a distance from the origin in one coordinate, mm.
  NANET_HD static int scale_of(double distance) {
    int s = 0;
    while (s <= max_scale && !(fabs(distance) <= reach_mm * (1 << s))) ++s;
    return s;
  }
  // Ready for hits at free positions: the scale holds them too. False if one is farther away than max_scale
  // allows; then the event has no ring.
  template <class PointOf>
  NANET_HD bool reach(const PointOf& point_of, std::uint32_t hits) {
    for (std::uint32_t i = 0; i < hits; ++i) {
      const int s = scale_of(point_of(i));
      scale = s > scale ? s : scale;
    }
    return scale <= max_scale;
  }
  NANET_HD Position position(const Point& p) const {
    // float32 up to here has at least the precision of the quanta; products with powers of two are exact.
    Position q;
    q.x = static_cast<std::int32_t>(rintf((p.x - origin_x) * quantum(scale - x_bits)));
    q.k = static_cast<std::int32_t>(rintf((p.y - origin_y) / row_mm * quantum(scale - k_bits)));
    // Quanta of 2^-32 mm^2 until the shift.
    const std::int64_t x2 = (std::int64_t{q.x} * q.x) << 2 * (k_bits - x_bits),
                       y2 = std::int64_t{q.k} * q.k * whole_row2;
    constexpr int cut = 2 * k_bits - z_bits;
    q.z = static_cast<std::int32_t>((x2 + y2 + (std::int64_t{1} << (cut - 1))) >> cut);
    q.w = q.z - ((whole_usual_z << z_bits) >> 2 * scale);
    return q;
  }

  // Sums over at most 128 hits: xx < 2^55, xw < 2^58, zw < 2^61.
  struct Sums {
    std::int64_t x = 0, k = 0, xx = 0, xk = 0, kk = 0, xw = 0, kw = 0, zw = 0;
    NANET_HD void add(const Position& p) {
      x += p.x;
      k += p.k;
      xx += std::int64_t{p.x} * p.x;
      xk += std::int64_t{p.x} * p.k;
      kk += std::int64_t{p.k} * p.k;
      xw += std::int64_t{p.x} * p.w;
      kw += std::int64_t{p.k} * p.w;
      zw += std::int64_t{p.z} * p.w;
    }
  };
  NANET_HD Moments<OneLane> moments(const Sums& s) const {
    const float x = quantum(x_bits - scale), k = quantum(k_bits - scale), z = quantum(z_bits - 2 * scale);
    Moments<OneLane> m;  // products with powers of two are exact
    m.x = static_cast<float>(s.x) * x;
    m.k = static_cast<float>(s.k) * k;
    m.xx = static_cast<float>(s.xx) * (x * x);
    m.xk = static_cast<float>(s.xk) * (x * k);
    m.kk = static_cast<float>(s.kk) * (k * k);
    m.xw = static_cast<float>(s.xw) * (x * z);
    m.kw = static_cast<float>(s.kw) * (k * z);
    m.zw = static_cast<float>(s.zw) * (z * z);
    return m;
  }

  // The same sums where x is a whole number of mm and y of rows, as in NA62: both in one word, x in the lower
  // half, within the bounds of is_whole().
  NANET_HD static std::uint32_t pair(const Position& p) {
    return (static_cast<std::uint32_t>(p.x >> x_bits) & 0xFFFF) | static_cast<std::uint32_t>(p.k >> k_bits)
                                                                      << 16;
  }
  // Xw: std::int32_t holds the sums of 32 hits, std::int64_t of 128.
  template <class Xw>
  struct PairSums {
    static constexpr std::int64_t most_x = 511, most_k = 31, most_xw = std::int64_t{1} << 25,
                                  most_zw = std::int64_t{1} << 34;
    std::int32_t x = 0, k = 0, xx = 0, xk = 0, kk = 0, kw = 0;
    Xw xw = 0;
    std::int64_t zw = 0;
    NANET_HD void add(std::uint32_t pair) {  // (0, 0) changes no sum
      const std::int32_t px = static_cast<std::int16_t>(pair), pk = static_cast<std::int32_t>(pair) >> 16;
      const std::int32_t x2 = px * px, k2 = pk * pk, z = x2 + whole_row2 * k2, w = z - whole_usual_z;
      x += px;
      k += pk;
      xx += x2;
      xk += px * pk;
      kk += k2;
      xw += Xw{px} * w;
      kw += pk * w;
      zw += std::int64_t{z} * w;
    }
  };
  using WholeSums = PairSums<std::int32_t>;
  static constexpr std::uint32_t whole_hits = 32;
  static_assert(whole_hits * WholeSums::most_xw < std::int64_t{1} << 31);
  static bool is_whole(const Position& p) {
    const std::int64_t x = p.x >> x_bits, k = p.k >> k_bits, z = x * x + k * k * whole_row2,
                       w = z - whole_usual_z;
    using S = WholeSums;
    return p.x == x << x_bits && p.k == k << k_bits && std::abs(x) <= S::most_x && std::abs(k) <= S::most_k &&
           std::abs(x * w) <= S::most_xw && std::abs(z * w) <= S::most_zw;
  }
  // WholeSums in eight words, which add like the sums: x + 2^17 k, xx, xk, kk + 2^17 (xw mod 2^8), xw / 2^8,
  // kw, zw / 2^17, zw mod 2^17; quotients rounded down. Over at most 128 hits, in at most 128 parts, they
  // stay within 32 bits and their fields, and both parts of xw and of zw within 2^24: exact in float32.
  static constexpr unsigned words = 8;
  static constexpr int x_field = 17, xw_low = 8, zw_low = 17;
  static_assert(max_event_hits == 128);
  static_assert(2 * 128 * WholeSums::most_x < 1 << x_field && 128 * WholeSums::most_k < 1 << (31 - x_field));
  static_assert(128 * WholeSums::most_k * WholeSums::most_k < 1 << x_field &&
                128 * ((1 << xw_low) - 1) < 1 << (32 - x_field));
  static_assert(128 * (WholeSums::most_xw >> xw_low) <= 1 << 24 &&
                128 * (WholeSums::most_zw >> zw_low) <= 1 << 24 && 128 * ((1 << zw_low) - 1) <= 1 << 24);
  static_assert(128 * WholeSums::most_k *
                    (WholeSums::most_x * WholeSums::most_x +
                     WholeSums::most_k * WholeSums::most_k * whole_row2) <
                std::int64_t{1} << 31);
  NANET_HD static constexpr std::int32_t low_bits(int n) { return static_cast<std::int32_t>((1u << n) - 1); }
  NANET_HD static std::int32_t word(const WholeSums& s, unsigned i) {
    switch (i) {
      case 0:
        return s.x + s.k * (1 << x_field);
      case 1:
        return s.xx;
      case 2:
        return s.xk;
      case 3:
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(s.kk) +
                                         ((static_cast<std::uint32_t>(s.xw) & low_bits(xw_low)) << x_field));
      case 4:
        return static_cast<std::int32_t>(s.xw >> xw_low);
      case 5:
        return s.kw;
      case 6:
        return static_cast<std::int32_t>(s.zw >> zw_low);
      default:
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(s.zw) & low_bits(zw_low));
    }
  }
  // Whole numbers up to 2^24 are exact, and others are rounded once: the numbers of moments(WholeSums).
  template <class L>
  NANET_HD static Moments<L> moments_of_words(const typename L::I (&word)[words]) {
    using F = typename L::F;
    using I = typename L::I;
    Moments<L> m;
    const I x = (word[0] << (32 - x_field)) >> (32 - x_field);
    m.x = L::to_float(x);
    m.k = L::to_float((word[0] - x) >> x_field);
    m.xx = L::to_float(word[1]);
    m.xk = L::to_float(word[2]);
    m.kk = L::to_float(word[3] & I(low_bits(x_field)));
    const I low = (word[3] >> x_field) & I(low_bits(32 - x_field));
    m.xw = L::fma(L::to_float(word[4]), F(static_cast<float>(1 << xw_low)), L::to_float(low));
    m.kw = L::to_float(word[5]);
    m.zw = L::fma(L::to_float(word[6]), F(static_cast<float>(1 << zw_low)), L::to_float(word[7]));
    return m;
  }
  NANET_HD static Moments<OneLane> moments(const std::int32_t (&word)[words]) {
    return moments_of_words<OneLane>(word);
  }
  template <class Xw>
  NANET_HD static Moments<OneLane> moments(const PairSums<Xw>& s) {
    Moments<OneLane> m;
    m.x = static_cast<float>(s.x);
    m.k = static_cast<float>(s.k);
    m.xx = static_cast<float>(s.xx);
    m.xk = static_cast<float>(s.xk);
    m.kk = static_cast<float>(s.kk);
    m.xw = static_cast<float>(s.xw);
    m.kw = static_cast<float>(s.kw);
    m.zw = static_cast<float>(s.zw);
    return m;
  }

  // Enters a PM in the table of a detector, by ID: words of pair() if `whole`, else positions.
  NANET_HD void set(Position* table, std::uint32_t pm, const Point& p) const {
    const Position q = position(p);
    if (whole)
      reinterpret_cast<std::uint32_t*>(table)[pm] = pair(q);
    else
      table[pm] = q;
  }
  NANET_HD static const std::uint32_t* pairs(const Position* table) {
    return reinterpret_cast<const std::uint32_t*>(table);
  }

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
    const F half = F(0.5f) * L::reciprocal(L::select(good, det, one));  // Cramer's rule
    const F two_x = mean_x + mean_x, two_k = (mean_k + mean_k) * F(row2);
    // z relative to the mean point.
    const F uz = L::fma(-two_x, uu, L::fma(-two_k, uk, uw)), kz = L::fma(-two_x, uk, L::fma(-two_k, kk, kw));
    const F a = L::fma(uz, kk, -(kz * uk)) * half;
    const F b = L::fma(kz, uu, -(uz * uk)) * half;  // rows^-1 mm^2: the centre is b / row2 rows from the mean
    const F r2 = L::fma(a, a, L::fma(b * F(1.0f / row2), b, trace * share));
    fit.r = L::root(r2);
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
    return solve<L>(s, n, L::reciprocal(n), fit);
  }

  // Prepares for a detector. Throws std::invalid_argument if a channel is too far from the origin.
  void use(const Geometry& geometry) {
    scale = 0;
    for (const Point& p : geometry.common) scale = std::max(scale, scale_of(p));
    if (scale > max_scale)
      throw std::invalid_argument("detector: a channel is farther than " +
                                  std::to_string(static_cast<int>(reach_mm) << max_scale) +
                                  " mm from the origin; math takes none so far away");
    whole = scale == 0 && std::all_of(geometry.common.begin(), geometry.common.end(),
                                      [&](const Point& p) { return is_whole(position(p)); });
  }

  Parameters parameters;
  std::int32_t scale = 0;  // of Position
  bool whole = false;      // every PM of the detector is_whole()

  // plane[pm]: common-plane position, mm; a PM of the detector or a free position. Uses the first 128 hits.
  NANET_HD Rings operator()(const EventView& event, const Point* plane) const {
    const std::uint32_t hits = fitted(event.hits);
    const auto point = [&](std::uint32_t i) { return plane[event.pm[i]]; };
    Math math = *this;
    if (!math.reach(point, hits)) return {};
    Sums sums;
    for (std::uint32_t i = 0; i < hits; ++i) sums.add(math.position(point(i)));
    return math.ring(math.moments(sums), hits);
  }
  // The same with the table of set(), whose entries are positions.
  NANET_HD Moments<OneLane> moments(const EventView& event, const Position* table) const {
    Sums sums;
    const std::uint32_t hits = fitted(event.hits);
    NANET_ROLLED
    for (std::uint32_t i = 0; i < hits; ++i) sums.add(table[event.pm[i]]);
    return moments(sums);
  }
  // Number of hits that are fitted.
  NANET_HD static std::uint32_t fitted(std::uint32_t hits) {
    return hits < max_event_hits ? hits : max_event_hits;
  }
  // Result for the moments of an event with `hits` hits; share: that of their number.
  NANET_HD Rings ring(const Moments<OneLane>& m, std::uint32_t hits) const {
    return ring(m, hits, share(hits));
  }
  NANET_HD Rings ring(const Moments<OneLane>& m, std::uint32_t hits, float share) const {
    Rings rings;
    hits = fitted(hits);
    if (hits < parameters.min_hits || hits < 3) return rings;
    Fit<OneLane> fit;
    if (!solve(m, static_cast<float>(hits), share, fit)) return rings;
    rings.count = 1;
    rings.ring[0] = {fit.x, fit.y, fit.r, fit.chi2_ndf, static_cast<std::uint8_t>(hits)};
    return rings;
  }
  // 1 / hits of an event; 0 for none.
  NANET_HD static float share(std::uint32_t hits) {
    return hits ? OneLane::reciprocal(static_cast<float>(fitted(hits))) : 0.0f;
  }

 private:
  NANET_HD static float quantum(int bits) {  // 2^-bits; |bits| < 31
    return bits >= 0 ? 1.0f / static_cast<float>(1u << bits) : static_cast<float>(1u << -bits);
  }
};

}  // namespace nanet::rich
