// SPDX-License-Identifier: Apache-2.0
// Tests of the latency histogram.
#include "nanet/stats/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace nanet::stats {
namespace {

TEST(Histogram, BinsAreContiguousAndNarrow) {
  for (std::size_t i = 1; i < Histogram::bins - 1; ++i) {
    const auto low = Histogram::upper(i - 1) + 1, high = Histogram::upper(i);
    ASSERT_EQ(Histogram::index(low), i);
    ASSERT_EQ(Histogram::index(high), i);
    ASSERT_LE(static_cast<double>(high - low), static_cast<double>(low) / 1000.0 + 1) << i;
  }
}

TEST(Histogram, PercentilesAgreeWithSortedValuesToThreeDigits) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> shape(10, 2);
  Histogram h;
  std::vector<double> values;
  for (int i = 0; i < 200'000; ++i) {
    const auto v = static_cast<Nanoseconds>(shape(random));
    h.add(v);
    values.push_back(static_cast<double>(v));
  }
  std::sort(values.begin(), values.end());
  for (double p : {0.01, 0.5, 0.9, 0.99, 0.999, 0.9999}) {
    const double exact =
        values[static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size()))) - 1];
    EXPECT_NEAR(h.percentile(p), exact, exact * 1e-3 + 1) << p;
  }
  EXPECT_EQ(static_cast<double>(h.max()), values.back());
  EXPECT_EQ(h.percentile(1.0), values.back());
}

TEST(Histogram, NegativeAndHugeValuesAreKept) {
  Histogram h;
  h.add(-5);
  h.add(Nanoseconds{1} << 60);
  EXPECT_EQ(h.count(), 2u);
  EXPECT_EQ(h.percentile(0.5), 0);
  EXPECT_EQ(h.max(), Nanoseconds{1} << 60);
}

TEST(Histogram, MergeAddsUp) {
  Histogram a, b;
  for (int i = 0; i < 100; ++i) a.add(10), b.add(1000);
  a.merge(b);
  EXPECT_EQ(a.count(), 200u);
  EXPECT_EQ(a.percentile(0.5), 10);
  EXPECT_EQ(a.percentile(0.75), 1000);
}

}  // namespace
}  // namespace nanet::stats
