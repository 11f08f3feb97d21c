// SPDX-License-Identifier: Apache-2.0
// 32 lanes of a CPU: a value is several vectors of the CPU's width. Common description: lanes.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "nanet/rich/host_vectors.hpp"
#include "nanet/rich/lane_code.hpp"

namespace nanet::rich {

// `lanes` lanes of host vectors, 32 for algorithms. A loop over `lanes` and a `v` is per element.
template <unsigned lanes>
struct VectorLanes {
  static constexpr int width = lanes < host_lanes::width ? static_cast<int>(lanes) : host_lanes::width,
                       vectors = static_cast<int>(lanes) / width;
  using F = host_lanes::Numbers<vectors, width>;
  using I = host_lanes::Integers<vectors, width>;
  using M = host_lanes::Mask<vectors, width>;
  using Row = VectorLanes<static_cast<unsigned>(width)>;  // one vector
  using Two =
      VectorLanes<static_cast<unsigned>(2 * width)>;  // two vectors: chains of operations side by side
  using Few = VectorLanes<4>;                         // for the rings of an event
  using Half = VectorLanes<lanes / 2>;
  static constexpr bool for_latency = false;  // as LatencyLanes of the device
  static constexpr std::int32_t count = lanes;

  // Number of parts of the lanes that P holds each; one of them.
  template <class P>
  static constexpr int parts = vectors / P::vectors;
  template <class P = Row>
  NANET_LANES_INLINE static typename P::F part(const F& v, int part) {
    typename P::F r;
    for (int h = 0; h < P::vectors; ++h) r.v[h] = v.v[P::vectors * part + h];
    return r;
  }
  template <class P = Row>
  NANET_LANES_INLINE static void set_part(F& v, int part, const typename P::F& to) {
    for (int h = 0; h < P::vectors; ++h) v.v[P::vectors * part + h] = to.v[h];
  }

  NANET_LANES_INLINE static I lane() {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::steps<width> + width * h;
    return r;
  }
  NANET_LANES_INLINE static F load(const float* p) {
    F r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  NANET_LANES_INLINE static I load(const std::int32_t* p) {
    I r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  NANET_LANES_INLINE static void store(float* p, const F& v) { std::memcpy(p, &v, sizeof v); }
  NANET_LANES_INLINE static void store(std::int32_t* p, const I& v) { std::memcpy(p, &v, sizeof v); }
  NANET_LANES_INLINE static void store(float* p, const F& v, const M& where) {
    for (int h = 0; h < vectors; ++h)
      for (int i = 0; i < width; ++i)
        if (where.v[h][i]) p[width * h + i] = v.v[h][i];
  }
  NANET_LANES_INLINE static void store(std::int32_t* p, const I& v, const M& where) {
    for (int h = 0; h < vectors; ++h)
      for (int i = 0; i < width; ++i)
        if (where.v[h][i]) p[width * h + i] = v.v[h][i];
  }
  NANET_LANES_INLINE static void four(const float* p, float (&v)[4]) {
    for (int k = 0; k < 4; ++k) v[k] = p[k];
  }
  NANET_LANES_INLINE static F other_half(const F& v) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = v.v[h ^ (vectors / 2)];
    return r;
  }
  NANET_LANES_INLINE static void put(float* p, float v) { *p = v; }
  NANET_LANES_INLINE static F gather(const float* p, const I& at) {
    F r;
    for (int h = 0; h < vectors; ++h) {
#if defined(__AVX512F__)
      r.v[h] = reinterpret_cast<host_lanes::Floats>(
          _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, reinterpret_cast<__m512i>(at.v[h]), p, 4));
#else
      for (int i = 0; i < width; ++i) r.v[h][i] = p[at.v[h][i]];
#endif
    }
    return r;
  }
  NANET_LANES_INLINE static I gather(const std::int32_t* p, const I& at) {
    I r;
    for (int h = 0; h < vectors; ++h)
      for (int i = 0; i < width; ++i) r.v[h][i] = p[at.v[h][i]];
    return r;
  }
  NANET_LANES_INLINE static F gather(const float* p, const I& at, std::int32_t limit) {
    if (limit > 32) return gather(p, at);
    F r;
#if defined(__AVX512F__)
    const __m512 low = _mm512_loadu_ps(p), high = _mm512_loadu_ps(p + 16);
    for (int h = 0; h < vectors; ++h)
      r.v[h] = reinterpret_cast<host_lanes::Floats>(
          _mm512_permutex2var_ps(low, reinterpret_cast<__m512i>(at.v[h]), high));
#elif defined(__AVX2__)
    __m256 part[4];
    for (int k = 0; k < 4; ++k) part[k] = _mm256_loadu_ps(p + 8 * k);
    for (int h = 0; h < vectors; ++h) {
      const auto i = reinterpret_cast<__m256i>(at.v[h]);
      const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)),
                   bit4 = _mm256_castsi256_ps(_mm256_slli_epi32(i, 27));
      const __m256 low =
          _mm256_blendv_ps(_mm256_permutevar8x32_ps(part[0], i), _mm256_permutevar8x32_ps(part[1], i), bit3);
      const __m256 high =
          _mm256_blendv_ps(_mm256_permutevar8x32_ps(part[2], i), _mm256_permutevar8x32_ps(part[3], i), bit3);
      r.v[h] = reinterpret_cast<host_lanes::Floats>(_mm256_blendv_ps(low, high, bit4));
    }
#else
    r = gather(p, at);
#endif
    return r;
  }
  NANET_LANES_INLINE static void scatter(float* p, const I& at, const F& v, const M& where) {
    for (int h = 0; h < vectors; ++h)
      for (int i = 0; i < width; ++i)
        if (where.v[h][i]) p[at.v[h][i]] = v.v[h][i];
  }
  NANET_LANES_INLINE static void scatter(std::int32_t* p, const I& at, const I& v, const M& where) {
    for (int h = 0; h < vectors; ++h)
      for (int i = 0; i < width; ++i)
        if (where.v[h][i]) p[at.v[h][i]] = v.v[h][i];
  }
  NANET_LANES_INLINE static F load_four(const float* p) {
    F r;
    for (int h = 0; h < vectors; ++h) {
      for (int i = 0; i < width; i += 4) std::memcpy(reinterpret_cast<float*>(&r.v[h]) + i, p, 4 * sizeof *p);
    }
    return r;
  }
  NANET_LANES_INLINE static void append(float* p, const F& v, const M&, std::uint32_t word) {
#if defined(__AVX512F__)
    const auto compressed = [&](int h) {
      return _mm512_maskz_compress_ps(static_cast<__mmask16>(word >> (width * h)), host_lanes::to_m(v.v[h]));
    };
    if constexpr (vectors == 1) {
      _mm512_storeu_ps(p, compressed(0));
    } else {
      // Side by side, not overlapping: a vector loaded across two stores waits for them.
      static_assert(vectors == 2);
      const int first = __builtin_popcount(word & 0xFFFFu);
      const __m512 rest = compressed(1);
      _mm512_storeu_ps(p,
                       _mm512_mask_expand_ps(compressed(0), static_cast<__mmask16>(0xFFFFu << first), rest));
      _mm512_storeu_ps(p + width,
                       _mm512_maskz_compress_ps(static_cast<__mmask16>(0xFFFF0000u >> first), rest));
    }
#else
    float values[lanes];
    store(values, v);
    for (; word; word &= word - 1) *p++ = values[__builtin_ctz(word)];
#endif
  }
  NANET_LANES_INLINE static void sync() {}

  NANET_LANES_INLINE static F select(const M& m, const F& a, const F& b) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = m.v[h] ? a.v[h] : b.v[h];
    return r;
  }
  NANET_LANES_INLINE static I select(const M& m, const I& a, const I& b) {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = m.v[h] ? a.v[h] : b.v[h];
    return r;
  }
  NANET_LANES_INLINE static F fma(const F& a, const F& b, const F& c) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::fma(a.v[h], b.v[h], c.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F sqrt(const F& a) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::square_root(a.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F reciprocal(const F& a) { return F(1.0f) / a; }
  NANET_LANES_INLINE static F root(const F& a) { return sqrt(a); }
  NANET_LANES_INLINE static F min(const F& a, const F& b) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::smaller(a.v[h], b.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F max(const F& a, const F& b) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::larger(a.v[h], b.v[h]);
    return r;
  }
  NANET_LANES_INLINE static F abs(const F& a) { return from_bits(bits(a) & I(0x7FFFFFFF)); }
  NANET_LANES_INLINE static F to_float(const I& a) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = __builtin_convertvector(a.v[h], host_lanes::FloatsOf<width>);
    return r;
  }
  NANET_LANES_INLINE static I to_int(const F& a) {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = __builtin_convertvector(a.v[h], host_lanes::IntsOf<width>);
    return r;
  }
  NANET_LANES_INLINE static I bits(const F& a) { return std::bit_cast<I>(a); }
  NANET_LANES_INLINE static F from_bits(const I& a) { return std::bit_cast<F>(a); }

  // Addition tree of the warp butterfly: lane i with i ^ 16, then 8, 4, 2, 1.
  NANET_LANES_INLINE static float sum(const F& v) {
    return reduce([](const auto& a, const auto& b) { return a + b; }, v);
  }
  NANET_LANES_INLINE static void sum(const F (&v)[8], float (&out)[8]) {
    for (int k = 0; k < 8; ++k) out[k] = sum(v[k]);
  }
  NANET_LANES_INLINE static I add(const I& a, const I& b) {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::wrapped_sum(a.v[h], b.v[h]);
    return r;
  }
  NANET_LANES_INLINE static std::int32_t sum(const I& v) {
    const host_lanes::FourInts four = host_lanes::fold_fours(joined(v));
    return static_cast<std::int32_t>(
        static_cast<std::uint32_t>(four[0]) + static_cast<std::uint32_t>(four[1]) +
        static_cast<std::uint32_t>(four[2]) + static_cast<std::uint32_t>(four[3]));
  }
  NANET_LANES_INLINE static void sum(const I (&v)[8], std::int32_t (&out)[8]) {
    const auto four = [&](int k) {
      return host_lanes::sums(joined(v[k]), joined(v[k + 1]), joined(v[k + 2]), joined(v[k + 3]));
    };
    const host_lanes::FourInts low = four(0), high = four(4);
    std::memcpy(out, &low, sizeof low);
    std::memcpy(out + 4, &high, sizeof high);
  }
  // Per column of the rows, its entries in lane order: a row is of a lane. 4 lanes.
  NANET_LANES_INLINE static void columns(const std::int32_t (&rows)[lanes][8], I (&columns)[8]) {
    const auto four = [&](int j) {
      const auto row = [&](int k) {
        host_lanes::FourInts v;
        std::memcpy(&v, rows[k] + j, sizeof v);
        return v;
      };
      host_lanes::transpose(row(0), row(1), row(2), row(3), columns[j].v[0], columns[j + 1].v[0],
                            columns[j + 2].v[0], columns[j + 3].v[0]);
    };
    four(0);
    four(4);
  }
  NANET_LANES_INLINE static float max(const F& v) {
    return reduce([](const auto& a, const auto& b) { return a > b ? a : b; }, v);
  }
  NANET_LANES_INLINE static std::uint32_t ballot(const M& m) {
    std::uint32_t r = 0;
    for (int h = 0; h < vectors; ++h) r |= host_lanes::signs(m.v[h]) << (width * h);
    return r;
  }
  NANET_LANES_INLINE static I popcount(const I& v) {
    I n;
    for (int part = 0; part < vectors; ++part)
      for (int i = 0; i < width; ++i) n.v[part][i] = __builtin_popcount(static_cast<unsigned>(v.v[part][i]));
    return n;
  }
  NANET_LANES_INLINE static I rank(std::uint32_t word) {
    alignas(64) std::int32_t below[lanes];
    std::int32_t n = 0;
    for (unsigned i = 0; i < lanes; ++i) {
      below[i] = n;
      n += static_cast<std::int32_t>(word >> i & 1u);
    }
    return load(below);
  }
  NANET_LANES_INLINE static I rank_of_set(std::uint32_t word) {
#if defined(__AVX512F__)
    I r;
    std::int32_t before = 0;
    for (int h = 0; h < vectors; ++h) {
      const auto mask = static_cast<__mmask16>(word >> (width * h));
      r.v[h] = reinterpret_cast<host_lanes::Ints>(
          _mm512_maskz_expand_epi32(mask, reinterpret_cast<__m512i>(host_lanes::steps<width> + before)));
      before += __builtin_popcount(mask);
    }
    return r;
#else
    alignas(64) std::int32_t below[lanes] = {};
    for (std::int32_t n = 0; word; word &= word - 1) below[__builtin_ctz(word)] = n++;
    return load(below);
#endif
  }
  NANET_LANES_INLINE static bool any(const M& m) { return ballot(m) != 0; }
  NANET_LANES_INLINE static float at(const F& v, int lane) { return v.v[lane / width][lane % width]; }
  NANET_LANES_INLINE static std::int32_t at(const I& v, int lane) { return v.v[lane / width][lane % width]; }
  NANET_LANES_INLINE static F shuffle(const F& v, const I& from) {
    float a[lanes];
    store(a, v);
    return gather(a, from & I(lanes - 1));
  }
  NANET_LANES_INLINE static I shuffle(const I& v, const I& from) {
    std::int32_t a[lanes];
    store(a, v);
    return gather(a, from & I(lanes - 1));
  }

 private:
  NANET_LANES_INLINE static host_lanes::IntsOf<width> joined(const I& v) {
    host_lanes::IntsOf<width> r = v.v[0];
    for (int h = 1; h < vectors; ++h) r = host_lanes::wrapped_sum(r, v.v[h]);
    return r;
  }
  template <class Operation>
  NANET_LANES_INLINE static float reduce(const Operation& combine, F v) {
    for (int step = vectors / 2; step > 0; step /= 2)
      for (int h = 0; h < step; ++h) v.v[h] = combine(v.v[h], v.v[h + step]);
    return host_lanes::across(combine, v.v[0]);
  }
};

using HostLanes = VectorLanes<lane_count>;

}  // namespace nanet::rich
