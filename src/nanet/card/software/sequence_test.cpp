// SPDX-License-Identifier: Apache-2.0
// Tests of the sequence tracker: window, jumps, restarts and the balance of missing numbers, also against a
// plain set of all numbers seen.
#include "nanet/card/software/sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "nanet/os/sanitizer_test.hpp"

namespace nanet::card {
namespace {

using Look = SequenceTracker::Look;

TEST(SequenceTracker, NumbersOfTheWindowAreKnownExactly) {
  SequenceTracker t;
  EXPECT_EQ(t.look(123), Look::fresh);
  t.accept(10'000);
  EXPECT_EQ(t.look(10'000), Look::replayed);
  EXPECT_EQ(t.look(10'001), Look::fresh);
  EXPECT_EQ(t.look(10'000 + 4096), Look::fresh);
  EXPECT_EQ(t.look(10'000 + 4097), Look::jump);
  EXPECT_EQ(t.look(10'000 - 4095), Look::fresh);
  EXPECT_EQ(t.look(10'000 - 4096), Look::replayed);  // no longer distinguishable
}

TEST(SequenceTracker, TheFarthestOrdinaryStepKeepsTheWindow) {
  SequenceTracker t;
  t.accept(0);
  t.accept(4096);
  EXPECT_EQ(t.look(0), Look::replayed);
  EXPECT_EQ(t.look(4096), Look::replayed);
  for (Sequence s = 1; s < 4096; ++s) ASSERT_EQ(t.look(s), Look::fresh) << s;
  EXPECT_EQ(t.missing(), 4095);
}

TEST(SequenceTracker, ReorderedNumbersAreNotMissing) {
  SequenceTracker t;
  t.accept(5);
  t.accept(9);
  EXPECT_EQ(t.missing(), 3);
  t.accept(7);
  EXPECT_EQ(t.missing(), 2);
  t.accept(6);
  t.accept(8);
  EXPECT_EQ(t.missing(), 0);
  t.accept(3);  // before the first one seen: 4 is now missing
  EXPECT_EQ(t.missing(), 1);
  t.accept(4);
  EXPECT_EQ(t.missing(), 0);
}

TEST(SequenceTracker, NumbersDoNotWrap) {
  SequenceTracker t;
  t.accept(5);
  EXPECT_EQ(t.look(0xFFFFFFFF), Look::jump);
  EXPECT_EQ(t.look(0x80000006), Look::jump);
}

TEST(SequenceTracker, ConfirmedJumpCountsWhatLiesBetween) {
  for (const bool behind : {false, true}) {
    SequenceTracker t;
    t.accept(0);
    t.accept(1);
    const Sequence dropped = 10'001, confirming = behind ? 10'000 : 10'002;
    t.jump(dropped, confirming);
    EXPECT_EQ(t.newest(), std::max(dropped, confirming));
    EXPECT_EQ(t.look(dropped), Look::replayed);
    EXPECT_EQ(t.look(confirming), Look::replayed);
    EXPECT_EQ(t.look(9'999), Look::fresh);
    EXPECT_EQ(t.missing(), static_cast<std::int64_t>(t.newest()) + 1 - 4);
  }
}

TEST(SequenceTracker, JumpInsideTheWindowKeepsAllNumbers) {
  SequenceTracker t;
  t.accept(0);
  t.accept(2);
  t.jump(3000, 3001);  // a jump of frames, not of numbers
  EXPECT_EQ(t.look(0), Look::replayed);
  EXPECT_EQ(t.look(1), Look::fresh);
  EXPECT_EQ(t.look(2), Look::replayed);
}

TEST(SequenceTracker, RestartKeepsWhatWasMissing) {
  SequenceTracker t;
  t.accept(0);
  t.accept(3);
  t.restart();
  EXPECT_EQ(t.missing(), 2);
  t.accept(0);
  t.accept(1);
  t.accept(3);
  EXPECT_EQ(t.missing(), 3);
  EXPECT_EQ(t.look(3), Look::replayed);
  EXPECT_EQ(t.look(2), Look::fresh);
}

TEST(SequenceTracker, ManyJumpsDoNotWrapTheBalance) {
  SequenceTracker t;
  t.accept(0);
  Sequence at = 0;
  for (int i = 0; i < 3; ++i) {
    at += 0x50000000;
    ASSERT_EQ(t.look(at), Look::jump);
    t.jump(at, at + 1);
    at += 1;
  }
  EXPECT_EQ(t.missing(), 3 * (std::int64_t{0x50000000} - 1));
}

TEST(SequenceTracker, AgreesWithASetOfEverythingSeen) {
  for (unsigned seed = 0; seed < test_rounds(20u); ++seed) {
    std::mt19937 random(seed);
    SequenceTracker t;
    std::set<std::int64_t> seen;
    std::int64_t newest = 100'000;
    for (int i = 0; i < 20'000; ++i) {
      const std::int64_t s =
          newest + static_cast<std::int64_t>(random() % 9000) - (random() % 8 ? 7500 : 4600);
      const auto look = t.look(static_cast<Sequence>(s));
      Look want = Look::fresh;
      if (!seen.empty()) {
        if (s - newest > 4096)
          want = Look::jump;
        else if (s - newest <= -4096 || seen.count(s))
          want = Look::replayed;
      }
      ASSERT_EQ(look, want) << seed << " " << i << " " << s - newest;
      if (look == Look::replayed || (look == Look::jump && random() % 4)) continue;
      t.accept(static_cast<Sequence>(s));
      newest = seen.empty() ? s : std::max(newest, s);
      seen.insert(s);
      ASSERT_EQ(t.missing(), *seen.rbegin() - *seen.begin() + 1 - static_cast<std::int64_t>(seen.size()));
    }
  }
}

}  // namespace
}  // namespace nanet::card
