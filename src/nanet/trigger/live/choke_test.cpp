// SPDX-License-Identifier: Apache-2.0
// Tests of the choke state: hysteresis, times and fill level.
#include "nanet/trigger/live/choke.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::trigger {
namespace {

TEST(Choke, HasHysteresis) {
  Choke choke({.high = 0.8, .low = 0.4, .frames = {}});
  auto at = [&, now = Nanoseconds{0}](double fill) mutable {
    choke.update(fill, now += 10);
    return choke.on();
  };
  EXPECT_FALSE(at(0.79));
  EXPECT_TRUE(at(0.8));
  EXPECT_TRUE(at(0.4));  // withdrawn below, not at
  EXPECT_FALSE(at(0.39));
  EXPECT_FALSE(at(0.79));
  EXPECT_TRUE(at(1.0));
  EXPECT_EQ(choke.raised, 2u);
  EXPECT_EQ(choke.time(), 20);  // an ongoing choke counts from its next update
  EXPECT_FALSE(at(0.0));
  EXPECT_EQ(choke.time(), 30);
  EXPECT_EQ(choke.most(), 1.0);
  EXPECT_EQ(choke.fill(), 0.0);
}

TEST(Choke, IsRaisedForGivenFrames) {
  Choke choke({.high = 0.8, .low = 0.4, .frames = {{10, 5}, {20, 1}}});
  const auto at = [&](std::uint64_t frames, double fill = 0) {
    choke.update(fill, 0, frames);
    return choke.on();
  };
  EXPECT_FALSE(at(0));
  EXPECT_FALSE(at(10));  // frames 0 to 9 have begun
  EXPECT_TRUE(at(11));
  EXPECT_TRUE(at(15));
  EXPECT_FALSE(at(16));
  EXPECT_TRUE(at(21));
  EXPECT_TRUE(at(22, 0.4));  // the buffers keep it
  EXPECT_FALSE(at(23));
  EXPECT_EQ(choke.raised, 2u);
}

TEST(BufferFill, FollowsUnreturnedBuffers) {
  card::Rig rig(card::rig_options(2048));
  BufferFill fill;
  const auto give_back = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n < to; ++n) contract::return_buffer(rig.views[0], n);
  };
  EXPECT_EQ(fill(rig.stream), 0);
  rig.sobs();
  Frame f = 0;
  while (f < 512) rig.frame(f++);
  EXPECT_EQ(fill(rig.stream), 0.25);
  give_back(0, 256);
  EXPECT_EQ(fill(rig.stream), 0.125);
  give_back(300, 400);  // behind an unreturned buffer, which the next lap meets first
  EXPECT_EQ(fill(rig.stream), 0.125);
  give_back(256, 300);
  EXPECT_EQ(fill(rig.stream), 112.0 / 2048);
  while (f < 2560) rig.frame(f++);  // one lap later
  EXPECT_EQ(fill(rig.stream), 1);
  EXPECT_EQ(rig.stream.counters().frames_overrun, 512u);
  give_back(512, 2048);
  EXPECT_EQ(fill(rig.stream), 0);  // buffers held for more than a lap affect only their own frames
}

}  // namespace
}  // namespace nanet::trigger
