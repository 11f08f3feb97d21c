// SPDX-License-Identifier: Apache-2.0
// 32-lane vector types: one source for GPU warps and CPU vectors. DeviceLanes: a lane is a thread, a value is
// a register. HostLanes: a value is several vectors of the CPU's width. Both give the same bits: every
// operation rounds alike, and lane sums use the same addition tree.
//
// F: 32 floats. I: 32 int32. M: 32 booleans. A plain float, int or bool is the same in all lanes ("uniform").
// Control flow may depend on uniform values only, such as the results of any(), ballot() and sum().
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if !defined(__CUDACC__) && (defined(__AVX512F__) || defined(__AVX2__))
#include <immintrin.h>
#endif

#include "nanet/units.hpp"

namespace nanet::rich {

inline constexpr unsigned lane_count = 32;

// Before a loop: unrolls it fully or not at all. The instructions of a warp must fit in the instruction
// cache. NANET_INLINED: a function that kernels inline; the members of an object that other functions take
// lie in local memory.
#ifdef __CUDACC__
#define NANET_UNROLLED _Pragma("unroll")
#define NANET_ROLLED _Pragma("unroll 1")
#define NANET_NOINLINE __noinline__
#define NANET_INLINED __forceinline__
#else
#define NANET_UNROLLED _Pragma("GCC unroll 8")
#define NANET_ROLLED _Pragma("GCC unroll 1")
#define NANET_NOINLINE
#define NANET_INLINED
#endif

// Fused multiply-add, in uniform code.
NANET_HD inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

#ifdef __CUDACC__  // nvcc has no host vectors and needs none

struct DeviceLanes {
  using F = float;
  using I = std::int32_t;
  using M = bool;
  using Row = DeviceLanes;
  static constexpr std::int32_t count = lane_count;
  static constexpr unsigned all = 0xFFFFFFFFu;

  // Part of the lanes that fills one vector of the CPU; here it is all of them.
  static constexpr int parts = 1;
  __device__ static F part(F v, int) { return v; }
  __device__ static void set_part(F& v, int, F to) { v = to; }
  // 1 in lanes 16 - 31 and 0 in the others, or in all lanes of a part.
  __device__ static std::int32_t upper(int) { return static_cast<std::int32_t>(threadIdx.x >> 4 & 1u); }

  // The working memory of an algorithm is shared memory; shared addressing takes fewer instructions than
  // generic addressing. These statements keep their relative order. If other code also writes the memory,
  // sync() must precede load().
  __device__ static unsigned address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }
  __device__ static float get(unsigned at, float) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
    return v;
  }
  __device__ static std::int32_t get(unsigned at, std::int32_t) {
    std::int32_t v;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
  }
  __device__ static void set(unsigned at, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
  }
  __device__ static void set(unsigned at, std::int32_t v) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
  }
  __device__ static void get4(unsigned at, float (&v)[4]) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(at));
  }

  __device__ static I lane() { return static_cast<I>(threadIdx.x & 31u); }
  // Lane i reads p[i] (or writes p[i] if enabled). Writes are visible to other lanes after sync().
  __device__ static F load(const float* p) { return get(address(p) + 4u * lane(), 0.0f); }
  __device__ static I load(const std::int32_t* p) { return get(address(p) + 4u * lane(), 0); }
  __device__ static F one(const float* p) { return get(address(p), 0.0f); }  // p: by lane
  __device__ static void store(float* p, F v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(std::int32_t* p, I v) { set(address(p) + 4u * lane(), v); }
  __device__ static void store(float* p, F v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  __device__ static void store(std::int32_t* p, I v, M where) {
    if (where) set(address(p) + 4u * lane(), v);
  }
  // Loads four values; p: 16 B aligned. On the host they are uniform.
  __device__ static void four(const float* p, float (&v)[4]) { get4(address(p), v); }
  // Exchanges values with the lane 16 away.
  __device__ static F other_half(F v) { return __shfl_xor_sync(all, v, 16); }
  // Stores one uniform value, once.
  __device__ static void put(float* p, float v) {
    if (lane() == 0) set(address(p), v);
  }
  __device__ static F gather(const float* p, I at) { return p[at]; }
  __device__ static I gather(const std::int32_t* p, I at) { return p[at]; }
  // The same for positions below `limit`; p: at least 32 entries.
  __device__ static F gather(const float* p, I at, std::int32_t) { return p[at]; }
  __device__ static void scatter(float* p, I at, F v, M where) {
    if (where) set(address(p) + 4u * at, v);
  }
  __device__ static void scatter(std::int32_t* p, I at, I v, M where) {
    if (where) set(address(p) + 4u * at, v);
  }
  // Lane i reads p[i % 4]; p: 16 B aligned.
  __device__ static F load_four(const float* p) { return get(address(p) + 4u * (threadIdx.x & 3u), 0.0f); }
  // Stores the values of enabled lanes one after the other. word: ballot of `where`. The host may also
  // overwrite the entries behind them, up to its number of lanes.
  __device__ static void append(float* p, F v, M where, std::uint32_t word) {
    scatter(p, rank(word), v, where);
  }
  __device__ static void sync() { __syncwarp(); }

  __device__ static F select(M m, F a, F b) { return m ? a : b; }
  __device__ static I select(M m, I a, I b) { return m ? a : b; }
  __device__ static F fma(F a, F b, F c) { return __fmaf_rn(a, b, c); }
  __device__ static F sqrt(F a) { return __fsqrt_rn(a); }
  // Correctly rounded (IEEE 754) reciprocal of normal numbers with normal result, and square root from 2^-86
  // to 2^92. Within these ranges the branches of the compiler's version are unnecessary.
  __device__ static F reciprocal(F a) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return __fmaf_rn(__fmaf_rn(-a, r, 1.0f), r, r);
  }
  __device__ static F root(F a) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    const float s = a * r;
    return __fmaf_rn(__fmaf_rn(-s, s, a), 0.5f * r, s);
  }
  __device__ static F min(F a, F b) { return a < b ? a : b; }
  __device__ static F max(F a, F b) { return a > b ? a : b; }
  __device__ static F abs(F a) { return fabsf(a); }
  __device__ static F to_float(I a) { return static_cast<float>(a); }
  __device__ static I to_int(F a) { return static_cast<std::int32_t>(a); }  // towards zero; |a| < 2^31
  __device__ static I bits(F a) { return __float_as_int(a); }
  __device__ static F from_bits(I a) { return __int_as_float(a); }

  __device__ static float sum(F v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(all, v, o);
    return v;
  }
  // Sums of integers wrap around.
  __device__ static I add(I a, I b) {
    return static_cast<I>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
  __device__ static std::int32_t sum(I v) { return __reduce_add_sync(all, v); }
  __device__ static void sum(const I (&v)[8], std::int32_t (&out)[8]) {
#pragma unroll
    for (int k = 0; k < 8; ++k) out[k] = sum(v[k]);
  }
  // Eight sums at once: lanes share the values, so 17 exchanges suffice instead of 40.
  __device__ static void sum(const F (&v)[8], float (&out)[8]) {
    const int i = lane();
    F four[4], two[2];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      four[k] = (i & 16 ? v[k + 4] : v[k]) + __shfl_xor_sync(all, i & 16 ? v[k] : v[k + 4], 16);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      two[k] = (i & 8 ? four[k + 2] : four[k]) + __shfl_xor_sync(all, i & 8 ? four[k] : four[k + 2], 8);
    F one = (i & 4 ? two[1] : two[0]) + __shfl_xor_sync(all, i & 4 ? two[0] : two[1], 4);
    one += __shfl_xor_sync(all, one, 2);
    one += __shfl_xor_sync(all, one, 1);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      out[k] = __shfl_sync(all, one, (k & 4 ? 16 : 0) | (k & 2 ? 8 : 0) | (k & 1 ? 4 : 0));
  }
  // Integers in the order of the numbers: one instruction instead of five exchanges. No value is NaN.
  __device__ static float max(F v) {
    const I of = ordered(bits(v));
    return from_bits(ordered(__reduce_max_sync(all, of)));
  }
  __device__ static std::uint32_t ballot(M m) { return __ballot_sync(all, m); }
  // Number of set bits in the word below the position of each lane.
  __device__ static I rank(std::uint32_t word) { return __popc(word & ((1u << lane()) - 1u)); }
  // The same for positions whose bit is set; undefined for the others.
  __device__ static I rank_of_set(std::uint32_t word) { return rank(word); }
  __device__ static bool any(M m) { return __any_sync(all, m); }
  __device__ static float at(F v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static std::int32_t at(I v, int lane) { return __shfl_sync(all, v, lane); }
  __device__ static F shuffle(F v, I from) { return __shfl_sync(all, v, from); }
  __device__ static I shuffle(I v, I from) { return __shfl_sync(all, v, from); }

 private:
  __device__ static I ordered(I of) { return of ^ (of >> 31 & 0x7FFFFFFF); }  // its own inverse
};

#else

namespace host_lanes {

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

// One vector: fused multiply-add, square root, sign bits. With intrinsics: g++ 12 does not vectorise the
// loops.
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

}  // namespace host_lanes

// `lanes` lanes of host vectors, 32 for algorithms. A loop over `lanes` and a `v` is per element.
template <unsigned lanes>
struct VectorLanes {
  static constexpr int width = host_lanes::width, vectors = static_cast<int>(lanes) / width;
  using F = host_lanes::Numbers<vectors>;
  using I = host_lanes::Integers<vectors>;
  using M = host_lanes::Mask<vectors>;
  using Row = VectorLanes<static_cast<unsigned>(width)>;  // one vector
  static constexpr std::int32_t count = lanes;

  static constexpr int parts = vectors;
  NANET_LANES_INLINE static host_lanes::Numbers<1> part(const F& v, int part) {
    host_lanes::Numbers<1> r;
    r.v[0] = v.v[part];
    return r;
  }
  NANET_LANES_INLINE static void set_part(F& v, int part, const host_lanes::Numbers<1>& to) {
    v.v[part] = to.v[0];
  }
  NANET_LANES_INLINE static std::int32_t upper(int part) { return 2 * part >= vectors; }

  NANET_LANES_INLINE static I lane() {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = host_lanes::steps + width * h;
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
#if defined(__AVX512F__)
      r.v[h] = reinterpret_cast<host_lanes::Floats>(_mm512_maskz_broadcast_f32x4(0xFFFF, _mm_load_ps(p)));
#else
      for (int i = 0; i < width; i += 4) std::memcpy(reinterpret_cast<float*>(&r.v[h]) + i, p, 4 * sizeof *p);
#endif
    }
    return r;
  }
  NANET_LANES_INLINE static void append(float* p, const F& v, const M&, std::uint32_t word) {
#if defined(__AVX512F__)
    for (int h = 0; h < vectors; ++h) {
      const auto mask = static_cast<__mmask16>(word >> (width * h));
      _mm512_storeu_ps(p, _mm512_maskz_compress_ps(mask, reinterpret_cast<__m512>(v.v[h])));
      p += __builtin_popcount(mask);
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
  NANET_LANES_INLINE static F min(const F& a, const F& b) { return select(a < b, a, b); }
  NANET_LANES_INLINE static F max(const F& a, const F& b) { return select(a > b, a, b); }
  NANET_LANES_INLINE static F abs(const F& a) { return from_bits(bits(a) & I(0x7FFFFFFF)); }
  NANET_LANES_INLINE static F to_float(const I& a) {
    F r;
    for (int h = 0; h < vectors; ++h) r.v[h] = __builtin_convertvector(a.v[h], host_lanes::Floats);
    return r;
  }
  NANET_LANES_INLINE static I to_int(const F& a) {
    I r;
    for (int h = 0; h < vectors; ++h) r.v[h] = __builtin_convertvector(a.v[h], host_lanes::Ints);
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
    host_lanes::Ints of[8];
    for (int k = 0; k < 8; ++k) of[k] = joined(v[k]);
    const host_lanes::FourInts low = host_lanes::sums(of[0], of[1], of[2], of[3]),
                               high = host_lanes::sums(of[4], of[5], of[6], of[7]);
    const auto all = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    std::memcpy(out, &all, sizeof out);
  }
  NANET_LANES_INLINE static float max(const F& v) {
    return reduce([](const auto& a, const auto& b) { return a > b ? a : b; }, v);
  }
  NANET_LANES_INLINE static std::uint32_t ballot(const M& m) {
    std::uint32_t r = 0;
    for (int h = 0; h < vectors; ++h) r |= host_lanes::signs(m.v[h]) << (width * h);
    return r;
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
          _mm512_maskz_expand_epi32(mask, reinterpret_cast<__m512i>(host_lanes::steps + before)));
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
  NANET_LANES_INLINE static host_lanes::Ints joined(const I& v) {
    host_lanes::Ints r = v.v[0];
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

#endif  // __CUDACC__

}  // namespace nanet::rich
