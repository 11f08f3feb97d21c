// SPDX-License-Identifier: Apache-2.0
// Tests of the ring benchmark and its operation counts.
#include "nanet/bench/rings.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "nanet/bench/counting_lanes.hpp"
#include "nanet/os/sanitizer_test.hpp"

namespace nanet::bench {
namespace {

TEST(RingEvents, HoldDistinctAscendingHits) {
  const RingEvents events = ring_events(500, 1.0, -1, 3);
  ASSERT_EQ(events.first.size(), 501u);
  ASSERT_EQ(events.first.back(), events.pm.size());
  const auto batch = events.batch();
  for (std::uint32_t i = 0; i < batch.events; ++i) {
    const auto event = batch.view(i);
    ASSERT_LE(event.hits, max_event_hits);
    for (std::uint32_t k = 1; k < event.hits; ++k) ASSERT_LT(event.pm[k - 1], event.pm[k]);
  }
  const RingEvents none = ring_events(200, 0.0, 0, 3);
  EXPECT_TRUE(none.pm.empty());
}

TEST(RingsCpu, CountsWholeBatchesOfEveryThread) {
  const RingEvents events = ring_events(1000, 1.0, -1, 4);
  for (const unsigned threads : {1u, 2u}) {
    RingsCpuOptions options;
    options.algorithm = "math";
    options.batch = 300;
    options.threads = threads;
    options.seconds = 0.001;
    const RingsCpuResult result = rings_cpu(events.batch(), options);
    EXPECT_GT(result.events, 0u);
    EXPECT_EQ(result.events % 300, 0u);
    EXPECT_GT(result.events_per_s, 0.0);
    EXPECT_GE(result.batch_us, result.batch_us_least);
    EXPECT_GT(result.batch_us_least, 0.0);
  }
}

TEST(RingsCpu, RefusesMissingBatches) {
  const RingEvents events = ring_events(10, 1.0, -1, 4);
  RingsCpuOptions options;
  options.algorithm = "math";
  options.batch = 11;
  EXPECT_THROW(rings_cpu(events.batch(), options), std::invalid_argument);
  options.batch = 0;
  EXPECT_THROW(rings_cpu(events.batch(), options), std::invalid_argument);
  options.batch = 10;
  options.algorithm = "none";
  EXPECT_THROW(rings_cpu(events.batch(), options), std::invalid_argument);
}

TEST(Operations, OfMathAreLinearInTheHits) {
  const PmId pm[13] = {1, 2, 3, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
  const auto of_hits = [&](std::uint32_t hits) {
    const std::uint32_t first[] = {0, hits};
    return operations_per_event("math", {1, first, pm}).value();
  };
  EXPECT_EQ(of_hits(3), 0.0);  // no fit
  const double per_hit = of_hits(5) - of_hits(4);
  EXPECT_EQ(per_hit, 8.0);  // eight sums
  EXPECT_EQ(of_hits(13) - of_hits(5), 8 * per_hit);
  EXPECT_GT(of_hits(4), 4 * per_hit + 20);
  const std::uint32_t first[] = {0, 3, 13};
  EXPECT_EQ(operations_per_event("math", {2, first, pm}), of_hits(10) / 2);
  EXPECT_FALSE(operations_per_event("unknown", {2, first, pm}).has_value());
}

TEST(Operations, OfLanesGrowWithTheHits) {
  const std::uint32_t events = test_rounds(50u);
  const RingEvents few = ring_events(events, 0.0, 1, 5), many = ring_events(events, 0.0, 4, 5);
  for (const std::string& name : rich::algorithm_names()) {
    const auto a = operations_per_event(name, few.batch()), b = operations_per_event(name, many.batch());
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_GT(*a, 100.0) << name;
    EXPECT_GT(*b, *a) << name;
  }
}

TEST(Operations, CountingLanesCountEveryLane) {
  using L = CountingLanes;
  const L::F a(2.0f), b(3.0f);
  counted_operations = 0;
  const L::F c = L::fma(a, b, a * b - a) / L::sqrt(b);
  EXPECT_EQ(counted_operations, 6u * 32);
  counted_operations = 0;
  EXPECT_EQ(L::sum(a), 64.0f);
  EXPECT_EQ(counted_operations, 31u);
  EXPECT_NEAR(L::at(c, 7), 10.0f / 1.7320508f, 1e-6f);
  EXPECT_GT(most_operations_per_s(0.001), 0);
}

}  // namespace
}  // namespace nanet::bench
