// SPDX-License-Identifier: Apache-2.0
// Counting CPU lanes (rich/lanes.hpp): count the floating-point operations of an unmodified algorithm.
#pragma once

#include "nanet/rich/lanes.hpp"

namespace nanet::bench {

inline thread_local std::uint64_t counted_operations = 0;

// Operations without float arguments are inherited.
template <class HostLanes>
struct CountingLanesOf : HostLanes {
  using Host = HostLanes;
  using I = typename Host::I;
  using M = typename Host::M;
  using Row = CountingLanesOf<typename Host::Row>;
  using Half = CountingLanesOf<typename Host::Half>;
  using Two = CountingLanesOf<typename Host::Two>;
  using Few = CountingLanesOf<typename Host::Few>;
  static void tally(std::uint64_t per_lane) { counted_operations += per_lane * Host::count; }

  struct F {
    typename Host::F value;
    F() = default;
    F(float all) : value(all) {}
    F(const typename Host::F& of) : value(of) {}
    friend F operator+(const F& a, const F& b) { return counted(a.value + b.value); }
    friend F operator-(const F& a, const F& b) { return counted(a.value - b.value); }
    friend F operator*(const F& a, const F& b) { return counted(a.value * b.value); }
    friend F operator/(const F& a, const F& b) { return counted(a.value / b.value); }
    friend F operator-(const F& a) { return -a.value; }
    F& operator+=(const F& b) { return *this = *this + b; }
    F& operator-=(const F& b) { return *this = *this - b; }
    F& operator*=(const F& b) { return *this = *this * b; }
    F& operator/=(const F& b) { return *this = *this / b; }
    friend M operator<(const F& a, const F& b) { return a.value < b.value; }
    friend M operator>(const F& a, const F& b) { return a.value > b.value; }
    friend M operator<=(const F& a, const F& b) { return a.value <= b.value; }
    friend M operator>=(const F& a, const F& b) { return a.value >= b.value; }
    friend M operator==(const F& a, const F& b) { return a.value == b.value; }
    friend M operator!=(const F& a, const F& b) { return a.value != b.value; }

   private:
    static F counted(const typename Host::F& result) {
      tally(1);
      return result;
    }
  };

  static F load(const float* p) { return Host::load(p); }
  static I load(const std::int32_t* p) { return Host::load(p); }
  static void store(float* p, const F& v) { Host::store(p, v.value); }
  static void store(std::int32_t* p, const I& v) { Host::store(p, v); }
  static void store(float* p, const F& v, const M& where) { Host::store(p, v.value, where); }
  static void store(std::int32_t* p, const I& v, const M& where) { Host::store(p, v, where); }
  static F gather(const float* p, const I& at) { return Host::gather(p, at); }
  static F gather(const float* p, const I& at, std::int32_t limit) { return Host::gather(p, at, limit); }
  static F load_four(const float* p) { return Host::load_four(p); }
  static void append(float* p, const F& v, const M& where, std::uint32_t word) {
    Host::append(p, v.value, where, word);
  }
  static I gather(const std::int32_t* p, const I& at) { return Host::gather(p, at); }
  static void scatter(float* p, const I& at, const F& v, const M& where) {
    Host::scatter(p, at, v.value, where);
  }
  static void scatter(std::int32_t* p, const I& at, const I& v, const M& where) {
    Host::scatter(p, at, v, where);
  }

  static F select(const M& m, const F& a, const F& b) { return Host::select(m, a.value, b.value); }
  static I select(const M& m, const I& a, const I& b) { return Host::select(m, a, b); }
  static F fma(const F& a, const F& b, const F& c) {
    tally(2);
    return Host::fma(a.value, b.value, c.value);
  }
  static F sqrt(const F& a) {
    tally(1);
    return Host::sqrt(a.value);
  }
  static F reciprocal(const F& a) { return F(1.0f) / a; }
  static F root(const F& a) { return sqrt(a); }
  static F min(const F& a, const F& b) { return Host::min(a.value, b.value); }
  static F max(const F& a, const F& b) { return Host::max(a.value, b.value); }
  static F abs(const F& a) { return Host::abs(a.value); }
  static F to_float(const I& a) { return Host::to_float(a); }
  static I to_int(const F& a) { return Host::to_int(a.value); }
  static I bits(const F& a) { return Host::bits(a.value); }
  static F from_bits(const I& a) { return Host::from_bits(a); }

  static float sum(const F& v) {
    counted_operations += Host::count - 1;
    return Host::sum(v.value);
  }
  static void sum(const F (&v)[8], float (&out)[8]) {
    for (int k = 0; k < 8; ++k) out[k] = sum(v[k]);
  }
  static std::int32_t sum(const I& v) { return Host::sum(v); }
  static void sum(const I (&v)[8], std::int32_t (&out)[8]) { Host::sum(v, out); }
  static float max(const F& v) { return Host::max(v.value); }
  static float at(const F& v, int from) { return Host::at(v.value, from); }
  static std::int32_t at(const I& v, int from) { return Host::at(v, from); }
  template <class P = Row>
  static typename P::F part(const F& v, int part) {
    return Host::template part<typename P::Host>(v.value, part);
  }
  template <class P = Row>
  static void set_part(F& v, int part, const typename P::F& to) {
    Host::template set_part<typename P::Host>(v.value, part, to.value);
  }
  static F other_half(const F& v) { return Host::other_half(v.value); }
  static F shuffle(const F& v, const I& from) { return Host::shuffle(v.value, from); }
  static I shuffle(const I& v, const I& from) { return Host::shuffle(v, from); }
};

using CountingLanes = CountingLanesOf<rich::HostLanes>;

}  // namespace nanet::bench
