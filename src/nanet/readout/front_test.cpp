// SPDX-License-Identifier: Apache-2.0
// Threads agree where to end, and none gets far ahead of another.
#include "nanet/readout/front.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace nanet::readout {
namespace {

TEST(Front, WhatWasClaimedBeforeTheEndIsSentByAll) {
  Front front(2, 10);
  EXPECT_EQ(front.claim(5), 5u);
  EXPECT_EQ(front.claim(3), 3u);
  EXPECT_EQ(front.end(), 5u);
  EXPECT_EQ(front.claim(9), 5u);
  EXPECT_EQ(front.claim(4), 4u);
  EXPECT_EQ(front.end(), 5u);
}

TEST(Front, NobodyIsFartherAheadThanTheLeash) {
  Front front(3, 10);
  EXPECT_EQ(front.reach(), 10u);
  front.sent(0, 8);
  front.sent(1, 4);
  EXPECT_EQ(front.reach(), 10u);
  front.sent(2, 7);
  EXPECT_EQ(front.reach(), 14u);
  front.left(1);
  EXPECT_EQ(front.reach(), 17u);
  front.left(0);
  front.left(2);
  EXPECT_GT(front.reach(), 1ull << 60);
}

TEST(Front, ThreadsThatStopAtDifferentTimesEndAtTheSameFrame) {
  for (std::uint64_t stop = 1; stop < 400; stop += 7) {
    Front front(2, 1);
    std::uint64_t ended[2] = {};
    const auto run = [&](std::size_t t, std::uint64_t stop_at) {
      std::uint64_t index = 0;
      while (index < 1000) {
        if (index >= stop_at) {
          ended[t] = front.end();
          break;
        }
        if (front.claim(index + 1) <= index) {
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
