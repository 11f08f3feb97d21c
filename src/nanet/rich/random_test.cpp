// SPDX-License-Identifier: Apache-2.0
// Tests of the random numbers: pinned sequences and distributions.
#include "nanet/rich/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace nanet::rich {
namespace {

TEST(Random, PortableFunctions) {
  for (double x = -30; x < 30; x += 0.37) EXPECT_NEAR(portable::exp(x) / std::exp(x), 1.0, 1e-14) << x;
  for (double x = 1e-12; x < 1e12; x *= 3.1) EXPECT_NEAR(portable::log(x), std::log(x), 2e-14) << x;
}

TEST(Random, Pinned) {
  Random random(1);
  EXPECT_EQ(random.bits(), 0xcfc5d07f6f03c29bull);
  EXPECT_EQ(random.bits(), 0xbf424132963fe08dull);
}

TEST(Random, Moments) {
  Random random(5);
  constexpr int n = 1'000'000;
  double sum = 0, sum2 = 0, sum4 = 0, exponential = 0;
  int beyond = 0, wide = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    sum2 += x * x;
    sum4 += x * x * x * x;
    beyond += std::fabs(x) > 1.0;
    wide += std::fabs(x) > 3.6541528853610088;
    exponential += random.exponential();
  }
  EXPECT_NEAR(sum / n, 0, 0.004);
  EXPECT_NEAR(sum2 / n, 1, 0.006);
  EXPECT_NEAR(sum4 / n, 3, 0.04);
  EXPECT_NEAR(beyond / 1e6, 0.317311, 0.002);
  EXPECT_NEAR(wide, 258, 70);
  EXPECT_NEAR(exponential / n, 1, 0.005);
}

TEST(Random, Poisson) {
  Random random(6);
  for (const double mean : {0.0, 0.5, 1.0, 13.9, 100.0}) {
    double sum = 0, sum2 = 0;
    constexpr int n = 200'000;
    for (int i = 0; i < n; ++i) {
      const double k = random.poisson(mean);
      sum += k;
      sum2 += k * k;
    }
    const double average = sum / n;
    EXPECT_NEAR(average, mean, 0.02 + 0.002 * mean);
    EXPECT_NEAR(sum2 / n - average * average, mean, 0.02 * mean + 1e-12);
  }
}

}  // namespace
}  // namespace nanet::rich
