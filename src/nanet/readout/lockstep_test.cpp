// SPDX-License-Identifier: Apache-2.0
// Tests of the lockstep: threads agree on the last frame and stay within the leash.
#include "nanet/readout/lockstep.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace nanet::readout {
namespace {

TEST(Lockstep, AllThreadsSendFramesClaimedBeforeTheEnd) {
  Lockstep lockstep(2, 10);
  EXPECT_EQ(lockstep.claim(5), 5u);
  EXPECT_EQ(lockstep.claim(3), 3u);
  EXPECT_EQ(lockstep.end(), 5u);
  EXPECT_EQ(lockstep.claim(9), 5u);
  EXPECT_EQ(lockstep.claim(4), 4u);
  EXPECT_EQ(lockstep.end(), 5u);
}

TEST(Lockstep, ThreadsStayWithinTheLeash) {
  Lockstep lockstep(3, 10);
  EXPECT_EQ(lockstep.reach(), 10u);
  lockstep.sent(0, 8);
  lockstep.sent(1, 4);
  EXPECT_EQ(lockstep.reach(), 10u);
  lockstep.sent(2, 7);
  EXPECT_EQ(lockstep.reach(), 14u);
  lockstep.left(1);
  EXPECT_EQ(lockstep.reach(), 17u);
  lockstep.left(0);
  lockstep.left(2);
  EXPECT_GT(lockstep.reach(), 1ull << 60);
}

TEST(Lockstep, ThreadsThatStopAtDifferentTimesEndAtTheSameFrame) {
  for (std::uint64_t stop = 1; stop < 400; stop += 7) {
    Lockstep lockstep(2, 1);
    std::uint64_t ended[2] = {};
    const auto run = [&](std::size_t t, std::uint64_t stop_at) {
      std::uint64_t index = 0;
      while (index < 1000) {
        if (index >= stop_at) {
          ended[t] = lockstep.end();
          break;
        }
        if (lockstep.claim(index + 1) <= index) {
          ended[t] = index;
          break;
        }
        ++index;
      }
    };
    std::jthread other([&] { run(1, stop); });
    run(0, stop / 2);
    other.join();
    EXPECT_EQ(ended[0], ended[1]);
    EXPECT_LE(ended[0], stop);
  }
}

}  // namespace
}  // namespace nanet::readout
