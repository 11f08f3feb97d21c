// SPDX-License-Identifier: Apache-2.0
// Tests of downscaling: rate, reproducibility and counts.
#include "nanet/trigger/decide/downscale.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

TEST(Downscale, KeepsOneInSoMany) {
  EXPECT_TRUE(downscale_keeps(12345, 1));
  EXPECT_FALSE(downscale_keeps(12345, 0));
  for (const std::uint32_t factor : {2u, 3u, 10u, 1000u}) {
    // Realistic times: bunches of 256 LSB, and a uniform distribution.
    for (const Lsb step : {Lsb{1}, Lsb{256}, Lsb{65536}}) {
      const double n = 200'000, want = n / factor, sigma = std::sqrt(want * (1 - 1.0 / factor));
      double kept = 0;
      for (Lsb i = 0; i < 200'000; ++i) kept += downscale_keeps(i * step, factor);
      EXPECT_NEAR(kept, want, 5 * sigma) << factor << " " << step;
    }
  }
}

// Pins the public rule: readers of the primitives alone reproduce the choice.
TEST(Downscale, StaysWhatItIs) {
  std::vector<Lsb> kept;
  for (Lsb t = 0; t < 100; ++t)
    if (downscale_keeps(t, 10)) kept.push_back(t);
  EXPECT_EQ(kept, (std::vector<Lsb>{10, 18, 21, 41, 48, 68, 82, 83}));
}

TEST(Downscale, DropsAndCountsByKind) {
  // An event without rings (one hit) and an event on a circle, in every frame.
  std::vector<Bytes> packets{mgp_marker(flag::sob, 0, 0, 0)};
  const rich::Geometry geometry = rich::Geometry::make();
  std::vector<TestHit> circle;
  for (unsigned pm = 0; pm < 512; ++pm) {
    const rich::Point c = geometry.common[pm];
    if (std::abs(std::hypot(c.x + 152, c.y) - 130) < 9) circle.push_back({pm});
  }
  ASSERT_GE(circle.size(), 8u);
  if (circle.size() > 32) circle.resize(32);
  constexpr Frame frames = 2000;
  for (Frame f = 0; f < frames; ++f)
    packets.push_back(mgp_packet(0, f, f + 1, {{1000, {{3}}, 0}, {9000, circle, 0}}, flag::last));
  const auto algorithm = rich::make_reconstructor("math", {}, geometry);
  Chain::Packets first;
  for (const unsigned threads : {1u, 0u, 2u}) {
    ProcessOptions process;
    process.downscale.factor = {10, 1, 1, 1};
    Chain chain(Chain::options(1), *algorithm, threads, process);
    for (const auto& p : packets) chain.packet(p);
    chain.drain();
    const Account a = chain.account();
    EXPECT_TRUE(a.balances());
    ASSERT_EQ(a.rings, frames);
    EXPECT_EQ(a.events_built, 2 * frames);
    EXPECT_EQ(a.downscaled[0] + a.primitives_out, 2 * frames);
    EXPECT_NEAR(static_cast<double>(a.downscaled[0]), 0.9 * frames, 5 * std::sqrt(0.09 * frames));
    EXPECT_EQ(a.downscaled[1] + a.downscaled[2] + a.downscaled[3], 0u);
    for (Frame f = 0; f < frames; ++f) {
      const std::size_t primitives = std::to_integer<std::size_t>(chain.sent()[f][6]);
      EXPECT_EQ(primitives, downscale_keeps(Lsb{f} * lsb_per_frame + 1000, 10) ? 2u : 1u);
    }
    if (first.empty())
      first = chain.sent();
    else
      EXPECT_EQ(chain.sent(), first) << threads;  // same choice for any number of threads
  }
}

TEST(Downscale, NoneOfAKind) {
  ProcessOptions process;
  process.downscale.factor = {0, 1, 1, 1};
  Chain chain(Chain::options(1), *rich::make_reconstructor("math", {}, rich::Geometry::make()), 1, process);
  chain.packet(mgp_marker(flag::sob, 0, 0, 0));
  chain.packet(mgp_packet(0, 0, 1, {{1000, {{3}}, 0}}, flag::last));
  chain.drain();
  ASSERT_EQ(chain.sent().size(), 1u);
  EXPECT_EQ(chain.sent()[0].size(), wire::mtp::header_bytes);  // the frame is still answered
  EXPECT_EQ(chain.account().downscaled[0], 1u);
  EXPECT_TRUE(chain.account().balances());
}

}  // namespace
}  // namespace nanet::trigger
