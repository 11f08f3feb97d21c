// SPDX-License-Identifier: Apache-2.0
// Vectors of the CPU's width, several for a value: numbers, integers and masks with their operators.
#pragma once

#include <cstdint>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace nanet::rich::host_lanes {

// Elements of one vector of this CPU. Wider generic vectors are correct too, but g++ 12 splits their
// comparisons, selections and shuffles into single elements.
#if defined(__AVX512F__)
inline constexpr int width = 16;
#elif defined(__AVX2__)
inline constexpr int width = 8;
#else
inline constexpr int width = 4;
#endif

// One vector of w elements.
template <class T, int w>
struct VectorOf {
  typedef T type __attribute__((vector_size(4 * w)));
};
template <int w>
using FloatsOf = typename VectorOf<float, w>::type;
template <int w>
using IntsOf = typename VectorOf<std::int32_t, w>::type;
using Floats = FloatsOf<width>;
using Ints = IntsOf<width>;

template <int w>
inline constexpr IntsOf<w> steps{};
template <>
inline constexpr IntsOf<4> steps<4>{0, 1, 2, 3};
template <>
inline constexpr IntsOf<8> steps<8>{0, 1, 2, 3, 4, 5, 6, 7};
template <>
inline constexpr IntsOf<16> steps<16>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#define NANET_LANES_INLINE inline __attribute__((always_inline))

// The same operation on each vector of one or two values.
template <class Result, class Operation, class T>
NANET_LANES_INLINE Result each(const Operation& operation, const T& a) {
  Result r;
  for (int h = 0; h < Result::vectors; ++h) r.v[h] = operation(a.v[h]);
  return r;
}
template <class Result, class Operation, class T>
NANET_LANES_INLINE Result each(const Operation& operation, const T& a, const T& b) {
  Result r;
  for (int h = 0; h < Result::vectors; ++h) r.v[h] = operation(a.v[h], b.v[h]);
  return r;
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type and an operator
#define NANET_LANES_BINARY(Type, op)                                              \
  friend NANET_LANES_INLINE Type operator op(const Type& a, const Type& b) {      \
    return each<Type>([](const auto& p, const auto& q) { return p op q; }, a, b); \
  }                                                                               \
  friend NANET_LANES_INLINE Type& operator op## = (Type & a, const Type& b) {     \
    return a = a op b;                                                            \
  }
#define NANET_LANES_COMPARE(Type, op)                                                   \
  friend NANET_LANES_INLINE Mask<n, w> operator op(const Type& a, const Type& b) {      \
    return each<Mask<n, w>>([](const auto& p, const auto& q) { return p op q; }, a, b); \
  }
// Values of n vectors of w elements: n * w lanes. A plain number fills all lanes.
template <int n, int w = width>
struct Mask {  // all bits of a lane set, or none
  static constexpr int vectors = n;
  IntsOf<w> v[n];
  Mask() = default;
  NANET_LANES_INLINE Mask(bool all) {
    for (IntsOf<w>& part : v) part = IntsOf<w>{} - std::int32_t{all};
  }
  NANET_LANES_BINARY(Mask, &)
  NANET_LANES_BINARY(Mask, |)
  friend NANET_LANES_INLINE Mask operator!(const Mask& a) {
    return each<Mask>([](const IntsOf<w>& p) { return ~p; }, a);
  }
};
template <int n, int w = width>
struct Integers {
  static constexpr int vectors = n;
  IntsOf<w> v[n];
  Integers() = default;
  NANET_LANES_INLINE Integers(std::int32_t all) {
    for (IntsOf<w>& part : v) part = all - IntsOf<w>{};
  }
  NANET_LANES_BINARY(Integers, +)
  NANET_LANES_BINARY(Integers, -)
  NANET_LANES_BINARY(Integers, *)
  NANET_LANES_BINARY(Integers, &)
  NANET_LANES_BINARY(Integers, |)
  NANET_LANES_BINARY(Integers, ^)
  NANET_LANES_COMPARE(Integers, <)
  NANET_LANES_COMPARE(Integers, >)
  NANET_LANES_COMPARE(Integers, <=)
  NANET_LANES_COMPARE(Integers, >=)
  NANET_LANES_COMPARE(Integers, ==)
  NANET_LANES_COMPARE(Integers, !=)
  friend NANET_LANES_INLINE Integers operator<<(const Integers& a, int bits) {
    return each<Integers>([bits](const IntsOf<w>& p) { return p << bits; }, a);
  }
  friend NANET_LANES_INLINE Integers operator>>(const Integers& a, int bits) {
    return each<Integers>([bits](const IntsOf<w>& p) { return p >> bits; }, a);
  }
};
template <int n, int w = width>
struct Numbers {
  static constexpr int vectors = n;
  FloatsOf<w> v[n];
  Numbers() = default;
  NANET_LANES_INLINE Numbers(float all) {
    for (FloatsOf<w>& part : v) part = all - FloatsOf<w>{};
  }
  NANET_LANES_BINARY(Numbers, +)
  NANET_LANES_BINARY(Numbers, -)
  NANET_LANES_BINARY(Numbers, *)
  NANET_LANES_BINARY(Numbers, /)
  NANET_LANES_COMPARE(Numbers, <)
  NANET_LANES_COMPARE(Numbers, >)
  NANET_LANES_COMPARE(Numbers, <=)
  NANET_LANES_COMPARE(Numbers, >=)
  NANET_LANES_COMPARE(Numbers, ==)
  NANET_LANES_COMPARE(Numbers, !=)
  friend NANET_LANES_INLINE Numbers operator-(const Numbers& a) {
    return each<Numbers>([](const FloatsOf<w>& p) { return -p; }, a);
  }
};
#undef NANET_LANES_BINARY
#undef NANET_LANES_COMPARE
// NOLINTEND(bugprone-macro-parentheses)

// One vector: fused multiply-add, square root, smaller (a < b ? a : b), larger (a > b ? a : b), sign bits.
// With intrinsics: g++ 12 does not vectorise the loops, and compares and selects for the smaller.
#if defined(__AVX512F__)
NANET_LANES_INLINE __m512 to_m(const FloatsOf<16>& v) {
  return reinterpret_cast<__m512>(v);
}
NANET_LANES_INLINE FloatsOf<16> of_m(const __m512& v) {
  return reinterpret_cast<FloatsOf<16>>(v);
}
NANET_LANES_INLINE FloatsOf<16> fma(const FloatsOf<16>& a, const FloatsOf<16>& b, const FloatsOf<16>& c) {
  return of_m(_mm512_fmadd_ps(to_m(a), to_m(b), to_m(c)));
}
NANET_LANES_INLINE FloatsOf<16> square_root(const FloatsOf<16>& a) {
  return of_m(_mm512_maskz_sqrt_ps(0xFFFF, to_m(a)));
}
NANET_LANES_INLINE FloatsOf<16> smaller(const FloatsOf<16>& a, const FloatsOf<16>& b) {
  return of_m(_mm512_maskz_min_ps(0xFFFF, to_m(a), to_m(b)));
}
NANET_LANES_INLINE FloatsOf<16> larger(const FloatsOf<16>& a, const FloatsOf<16>& b) {
  return of_m(_mm512_maskz_max_ps(0xFFFF, to_m(a), to_m(b)));
}
NANET_LANES_INLINE std::uint32_t signs(const IntsOf<16>& m) {
  std::uint32_t r = _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(m), _mm512_setzero_si512());
#if defined(__SANITIZE_THREAD__)
  // Under ThreadSanitizer g++ 12 spills the mask as 16 bits and reads it back as 32.
  asm("" : "+r"(r));
#endif
  return r;
}
#endif
#if defined(__AVX2__) && defined(__FMA__)
NANET_LANES_INLINE __m256 to_m(const FloatsOf<8>& v) {
  return reinterpret_cast<__m256>(v);
}
NANET_LANES_INLINE FloatsOf<8> of_m(const __m256& v) {
  return reinterpret_cast<FloatsOf<8>>(v);
}
NANET_LANES_INLINE FloatsOf<8> fma(const FloatsOf<8>& a, const FloatsOf<8>& b, const FloatsOf<8>& c) {
  return of_m(_mm256_fmadd_ps(to_m(a), to_m(b), to_m(c)));
}
NANET_LANES_INLINE FloatsOf<8> square_root(const FloatsOf<8>& a) {
  return of_m(_mm256_sqrt_ps(to_m(a)));
}
NANET_LANES_INLINE FloatsOf<8> smaller(const FloatsOf<8>& a, const FloatsOf<8>& b) {
  return of_m(_mm256_min_ps(to_m(a), to_m(b)));
}
NANET_LANES_INLINE FloatsOf<8> larger(const FloatsOf<8>& a, const FloatsOf<8>& b) {
  return of_m(_mm256_max_ps(to_m(a), to_m(b)));
}
NANET_LANES_INLINE std::uint32_t signs(const IntsOf<8>& m) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(m)));
}
NANET_LANES_INLINE __m128 to_m(const FloatsOf<4>& v) {
  return reinterpret_cast<__m128>(v);
}
NANET_LANES_INLINE FloatsOf<4> of_m(const __m128& v) {
  return reinterpret_cast<FloatsOf<4>>(v);
}
NANET_LANES_INLINE FloatsOf<4> fma(const FloatsOf<4>& a, const FloatsOf<4>& b, const FloatsOf<4>& c) {
  return of_m(_mm_fmadd_ps(to_m(a), to_m(b), to_m(c)));
}
NANET_LANES_INLINE FloatsOf<4> square_root(const FloatsOf<4>& a) {
  return of_m(_mm_sqrt_ps(to_m(a)));
}
NANET_LANES_INLINE FloatsOf<4> smaller(const FloatsOf<4>& a, const FloatsOf<4>& b) {
  return of_m(_mm_min_ps(to_m(a), to_m(b)));
}
NANET_LANES_INLINE FloatsOf<4> larger(const FloatsOf<4>& a, const FloatsOf<4>& b) {
  return of_m(_mm_max_ps(to_m(a), to_m(b)));
}
#else
NANET_LANES_INLINE FloatsOf<4> fma(const FloatsOf<4>& a, const FloatsOf<4>& b, const FloatsOf<4>& c) {
  FloatsOf<4> r;
  for (int i = 0; i < 4; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
NANET_LANES_INLINE FloatsOf<4> square_root(const FloatsOf<4>& a) {
  FloatsOf<4> r;
  for (int i = 0; i < 4; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
}
NANET_LANES_INLINE FloatsOf<4> smaller(const FloatsOf<4>& a, const FloatsOf<4>& b) {
  return a < b ? a : b;
}
NANET_LANES_INLINE FloatsOf<4> larger(const FloatsOf<4>& a, const FloatsOf<4>& b) {
  return a > b ? a : b;
}
#endif
NANET_LANES_INLINE std::uint32_t signs(const IntsOf<4>& m) {
  std::uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<std::uint32_t>(m[i] & 1) << i;
  return r;
}

// The lower and the upper half of a vector.
template <class V>
NANET_LANES_INLINE auto lower(const V& v) {
  if constexpr (sizeof(V) == 64)
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  else
    return __builtin_shufflevector(v, v, 0, 1, 2, 3);
}
template <class V>
NANET_LANES_INLINE auto upper(const V& v) {
  if constexpr (sizeof(V) == 64)
    return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  else
    return __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
// Combines all elements of a vector in the order of the warp butterfly: element i with i ^ (half the width),
// ...
template <class Operation, class V>
NANET_LANES_INLINE float across(const Operation& combine, const V& v) {
  if constexpr (sizeof(V) > 16)
    return across(combine, combine(lower(v), upper(v)));
  else
    return combine(combine(v[0], v[2]), combine(v[1], v[3]));
}

// Sums that wrap around.
template <class V>
NANET_LANES_INLINE V wrapped_sum(const V& a, const V& b) {
  using U = typename VectorOf<std::uint32_t, static_cast<int>(sizeof(V) / 4)>::type;
  return reinterpret_cast<V>(reinterpret_cast<U>(a) + reinterpret_cast<U>(b));
}
// Adds pairs of elements 2 apart within each four: (a0 + a2, b0 + b2, a1 + a3, b1 + b3).
template <int... i>
NANET_LANES_INLINE Ints fold(const Ints& a, const Ints& b, std::integer_sequence<int, i...>) {
  return wrapped_sum(__builtin_shufflevector(a, b, (i / 4 * 4 + i % 4 / 2 + i % 2 * width)...),
                     __builtin_shufflevector(a, b, (i / 4 * 4 + i % 4 / 2 + i % 2 * width + 2)...));
}
// Adds the halves of each four of two such vectors.
template <int... i>
NANET_LANES_INLINE Ints fold_halves(const Ints& a, const Ints& b, std::integer_sequence<int, i...>) {
  return wrapped_sum(__builtin_shufflevector(a, b, (i / 4 * 4 + i % 2 + i % 4 / 2 * width)...),
                     __builtin_shufflevector(a, b, (i / 4 * 4 + i % 2 + 2 + i % 4 / 2 * width)...));
}
// Sums of the elements of four vectors.
using FourInts = IntsOf<4>;
template <class V>
NANET_LANES_INLINE FourInts fold_fours(const V& v) {
  if constexpr (sizeof(V) > 16)
    return fold_fours(wrapped_sum(lower(v), upper(v)));
  else
    return v;
}
// The columns of four rows.
template <class V>
NANET_LANES_INLINE void transpose(const V& a, const V& b, const V& c, const V& d, V& first, V& second,
                                  V& third, V& fourth) {
  const V ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  first = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  second = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  const V ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  third = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
  fourth = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}
NANET_LANES_INLINE FourInts sums(const Ints& a, const Ints& b, const Ints& c, const Ints& d) {
  constexpr auto steps_of = std::make_integer_sequence<int, width>{};
  return fold_fours(fold_halves(fold(a, b, steps_of), fold(c, d, steps_of), steps_of));
}

}  // namespace nanet::rich::host_lanes
