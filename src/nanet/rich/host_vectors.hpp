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

using Floats = float __attribute__((vector_size(4 * width)));
using Ints = std::int32_t __attribute__((vector_size(4 * width)));

#if defined(__AVX512F__)
inline constexpr Ints steps{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
inline constexpr Ints steps{0, 1, 2, 3, 4, 5, 6, 7};
#else
inline constexpr Ints steps{0, 1, 2, 3};
#endif

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
#define NANET_LANES_COMPARE(Type, op)                                                \
  friend NANET_LANES_INLINE Mask<n> operator op(const Type& a, const Type& b) {      \
    return each<Mask<n>>([](const auto& p, const auto& q) { return p op q; }, a, b); \
  }
// Values of n vectors: n * width lanes. A plain number fills all lanes.
template <int n>
struct Mask {  // all bits of a lane set, or none
  static constexpr int vectors = n;
  Ints v[n];
  Mask() = default;
  NANET_LANES_INLINE Mask(bool all) {
    for (Ints& part : v) part = Ints{} - std::int32_t{all};
  }
  NANET_LANES_BINARY(Mask, &)
  NANET_LANES_BINARY(Mask, |)
  friend NANET_LANES_INLINE Mask operator!(const Mask& a) {
    return each<Mask>([](const Ints& p) { return ~p; }, a);
  }
};
template <int n>
struct Integers {
  static constexpr int vectors = n;
  Ints v[n];
  Integers() = default;
  NANET_LANES_INLINE Integers(std::int32_t all) {
    for (Ints& part : v) part = all - Ints{};
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
    return each<Integers>([bits](const Ints& p) { return p << bits; }, a);
  }
  friend NANET_LANES_INLINE Integers operator>>(const Integers& a, int bits) {
    return each<Integers>([bits](const Ints& p) { return p >> bits; }, a);
  }
};
template <int n>
struct Numbers {
  static constexpr int vectors = n;
  Floats v[n];
  Numbers() = default;
  NANET_LANES_INLINE Numbers(float all) {
    for (Floats& part : v) part = all - Floats{};
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
    return each<Numbers>([](const Floats& p) { return -p; }, a);
  }
};
#undef NANET_LANES_BINARY
#undef NANET_LANES_COMPARE
// NOLINTEND(bugprone-macro-parentheses)

// One vector: fused multiply-add, square root, smaller, larger, sign bits. With intrinsics: g++ 12 does not
// vectorise the loops, and takes a comparison and a selection for the smaller.
NANET_LANES_INLINE Floats fma(const Floats& a, const Floats& b, const Floats& c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__AVX2__) && defined(__FMA__)
  return reinterpret_cast<Floats>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  Floats r;
  for (int i = 0; i < width; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
#endif
}
NANET_LANES_INLINE Floats square_root(const Floats& a) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_maskz_sqrt_ps(0xFFFF, reinterpret_cast<__m512>(a)));
#elif defined(__AVX2__)
  return reinterpret_cast<Floats>(_mm256_sqrt_ps(reinterpret_cast<__m256>(a)));
#else
  Floats r;
  for (int i = 0; i < width; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
#endif
}
// a < b ? a : b, and a > b ? a : b.
NANET_LANES_INLINE Floats smaller(const Floats& a, const Floats& b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_maskz_min_ps(0xFFFF, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Floats>(_mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a < b ? a : b;
#endif
}
NANET_LANES_INLINE Floats larger(const Floats& a, const Floats& b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_maskz_max_ps(0xFFFF, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Floats>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a > b ? a : b;
#endif
}
NANET_LANES_INLINE std::uint32_t signs(const Ints& m) {
#if defined(__AVX512F__)
  std::uint32_t r = _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(m), _mm512_setzero_si512());
#if defined(__SANITIZE_THREAD__)
  // Under ThreadSanitizer g++ 12 spills the mask as 16 bits and reads it back as 32.
  asm("" : "+r"(r));
#endif
  return r;
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(m)));
#else
  std::uint32_t r = 0;
  for (int i = 0; i < width; ++i) r |= static_cast<std::uint32_t>(m[i] & 1) << i;
  return r;
#endif
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
template <int bytes>
struct WordsOf {
  typedef std::uint32_t type __attribute__((vector_size(bytes)));
};
template <class V>
NANET_LANES_INLINE V wrapped_sum(const V& a, const V& b) {
  using U = typename WordsOf<sizeof(V)>::type;
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
using FourInts = std::int32_t __attribute__((vector_size(16)));
template <class V>
NANET_LANES_INLINE FourInts fold_fours(const V& v) {
  if constexpr (sizeof(V) > 16)
    return fold_fours(wrapped_sum(lower(v), upper(v)));
  else
    return v;
}
NANET_LANES_INLINE FourInts sums(const Ints& a, const Ints& b, const Ints& c, const Ints& d) {
  constexpr auto steps_of = std::make_integer_sequence<int, width>{};
  return fold_fours(fold_halves(fold(a, b, steps_of), fold(c, d, steps_of), steps_of));
}

}  // namespace nanet::rich::host_lanes
