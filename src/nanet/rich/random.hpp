// SPDX-License-Identifier: Apache-2.0
// Portable random numbers: xoshiro256++ (Blackman and Vigna), seeded by splitmix64. Distributions use only
// IEEE additions, multiplications, divisions and square roots. Library logarithms and std:: distributions
// differ between machines.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nanet::rich {

namespace portable {

// Taylor coefficients 1 / n! and 1 / n.
struct Coefficients {
  double inverse_factorial[15], inverse[64];
  constexpr Coefficients() : inverse_factorial{}, inverse{} {
    inverse_factorial[0] = 1.0;
    for (int n = 1; n < 15; ++n) inverse_factorial[n] = inverse_factorial[n - 1] / n;
    for (int n = 1; n < 64; ++n) inverse[n] = 1.0 / n;
  }
};
inline constexpr Coefficients coefficients;
inline constexpr double ln2 = 0.6931471805599453;

// exp(x), |x| < 700, to about 1e-14.
inline double exp(double x) {
  const double k = std::floor(x * (1.0 / ln2) + 0.5), f = x - k * ln2;
  double sum = 0.0;
  for (int n = 14; n >= 0; --n) sum = sum * f + coefficients.inverse_factorial[n];
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023) << 52);
}

// ln(x), x a normal positive number, to about 1e-15.
inline double log(double x) {
  const auto word = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(word >> 52) - 1023;
  double m = std::bit_cast<double>((word & 0xFFFFFFFFFFFFFull) | (1023ull << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;  // ln m = 2 artanh s, |s| < 0.172
  double sum = 0.0;
  for (int n = 21; n > 0; n -= 2) sum = sum * s2 + coefficients.inverse[n];
  return static_cast<double>(exponent) * ln2 + 2.0 * s * sum;
}

}  // namespace portable

class Random {
 public:
  explicit Random(std::uint64_t seed) : ziggurat_(&ziggurat()) {
    for (std::uint64_t& word : state_) {  // splitmix64
      seed += 0x9E3779B97F4A7C15ull;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t bits() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Uniform integer in 0 .. n - 1.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(((bits() >> 32) * n) >> 32); }
  // Exponential distribution with mean 1.
  double exponential() { return -portable::log(1.0 - uniform()); }
  // Normal distribution, mean 0, sigma 1: ziggurat (Marsaglia and Tsang, J. Stat. Soft. 5 (2000) 8) with 256
  // layers.
  double normal() {
    const Ziggurat& z = *ziggurat_;
    for (;;) {
      const std::uint64_t word = bits();
      const unsigned layer = word & 0xFF;
      const double u = static_cast<double>(static_cast<std::int64_t>(word) >> 11) * 0x1p-52;  // in [-1, 1)
      const double signed_x = u * z.x[layer], x = std::fabs(signed_x);
      if (x < z.x[layer + 1]) [[likely]] {
        return signed_x;
      }
      if (layer == 0) return std::copysign(tail(), signed_x);
      const double y = z.y[layer] + uniform() * (z.y[layer + 1] - z.y[layer]);
      if (y < portable::exp(-0.5 * x * x)) return signed_x;
    }
  }
  // Poisson distribution by inversion; mean 0 - 500.
  unsigned poisson(double mean) { return poisson(mean, portable::exp(-mean)); }
  // As above, with exp(-mean) precomputed.
  unsigned poisson(double mean, double p) {
    double u = uniform();
    unsigned n = 0;
    while (u >= p && n < 4096) {
      u -= p;
      ++n;
      p *= n < 64 ? mean * portable::coefficients.inverse[n] : mean / n;
    }
    return n;
  }

 private:
  static constexpr double edge = 3.6541528853610088;  // start of the tail, 256 layers
  struct Ziggurat {
    double x[258];  // right edges of the layers, widest first; x[0]: base layer including the tail
    double y[258];
    Ziggurat() {
      constexpr double area = 0.00492867323399;
      const auto density = [](double at) { return portable::exp(-0.5 * at * at); };
      x[1] = edge;
      y[1] = density(edge);
      x[0] = area / y[1];
      y[0] = 0.0;
      for (int i = 2; i < 256; ++i) {
        y[i] = y[i - 1] + area / x[i - 1];
        x[i] = std::sqrt(-2.0 * portable::log(y[i]));
      }
      x[256] = x[257] = 0.0;
      y[256] = y[257] = 1.0;
    }
  };
  static const Ziggurat& ziggurat() {
    static const Ziggurat table;
    return table;
  }
  double tail() {
    for (;;) {
      const double x = exponential() / edge, y = exponential();
      if (y + y > x * x) return edge + x;
    }
  }

  const Ziggurat* ziggurat_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace nanet::rich
