// SPDX-License-Identifier: Apache-2.0
// Tests of the accounting and its identities.
#include "nanet/trigger/account/accounting.hpp"

#include <gtest/gtest.h>

namespace nanet::trigger {
namespace {

using card::Outcome;

class AccountingTest : public ::testing::Test {
 protected:
  Trace& trace(std::uint64_t n, Frame frame) {
    Trace& t = traces[n];
    t = Trace{};
    t.n = n;
    t.frame = frame;
    return t;
  }
  card::Counters card;
  TraceTable traces{16};
  Accounting accounting{card, traces, 41};
};

TEST_F(AccountingTest, EventsFollowTheOutcomeOfTheirFrame) {
  for (std::uint64_t n : {0, 1}) {
    Trace& t = trace(n, static_cast<Frame>(n));
    t.events = 10;
    t.primitives = 7;
    t.below_min_hits = 2;
    t.mtp_overflow = 1;
  }
  accounting.passed(0, Outcome::answered, 100, 200, 900);
  accounting.passed(1, Outcome::late, 100, 200, 900);
  EXPECT_EQ(accounting.events_built, 10u);  // the late frame may still be in processing
  accounting.reaped(1);
  EXPECT_EQ(accounting.events_built, 20u);
  EXPECT_EQ(accounting.primitives_out, 7u);
  EXPECT_EQ(accounting.in_late_frames, 7u);
  EXPECT_EQ(accounting.stage(Stage::total).count(), 2u);
  EXPECT_EQ(accounting.stage(Stage::gather).count(), 1u);
  EXPECT_TRUE(accounting.check());
}

struct Limit final : card::AnswerLimit {
  Nanoseconds latest(std::uint64_t) const noexcept override { return at; }
  Nanoseconds at = 0;
};

TEST_F(AccountingTest, AnEarlierDeadlineCountsForExecutorsAndLateFrames) {
  Accounting final(card, traces, 41, 1000);
  Limit limit;
  limit.at = 2000;
  final.limit_answers(&limit);
  final.passed(0, Outcome::late, 500, 700, 1600);  // due at 1500, its own deadline
  EXPECT_EQ(traces.progress().lag, 200);
  EXPECT_EQ(final.stage(Stage::header_only).max(), 100);
  limit.at = 900;
  final.passed(1, Outcome::late, 500, 700, 1600);
  EXPECT_EQ(traces.progress().lag, 800);  // of 1000, 200 are left
  EXPECT_EQ(final.stage(Stage::header_only).max(), 700);
}

TEST_F(AccountingTest, EdgesOfFrames) {
  const auto pass = [&](std::uint64_t n, Frame frame, const std::vector<Trace::Edge>& low,
                        const std::vector<Trace::Edge>& high) {
    Trace& t = trace(n, frame);
    for (const auto& e : low) t.low[t.lows++] = e;
    for (const auto& e : high) t.high[t.highs++] = e;  // the last event first
    accounting.passed(n, Outcome::answered, 0, 0, 0);
    return static_cast<std::uint64_t>(accounting.split_at_frame_edge);
  };
  pass(0, 0, {}, {{65530, 1}});
  EXPECT_EQ(pass(1, 1, {{35, 2}}, {{65535, 1}}), 1u);
  EXPECT_EQ(pass(2, 2, {{41, 2}}, {{65535, 1}}), 1u);             // one LSB beyond the window
  EXPECT_EQ(pass(3, 3, {{0, 3}}, {{65535, 1}}), 1u);              // a board contributes once per event
  EXPECT_EQ(pass(5, 5, {{0, 2}}, {{65535, 1}}), 1u);              // another frame lies between
  EXPECT_EQ(pass(6, 0, {{0, 2}}, {{65535, 4}, {65530, 1}}), 1u);  // another burst
  EXPECT_EQ(pass(7, 1, {{0, 2}, {1, 2}, {2, 2}}, {}), 3u);        // each half has one partner
}

TEST_F(AccountingTest, ViolationsAreCounted) {
  ++card.packets_in;
  EXPECT_FALSE(accounting.check());
  ++card.packets_used;
  EXPECT_TRUE(accounting.check());
  EXPECT_EQ(accounting.account_checks, 2u);
  EXPECT_EQ(accounting.account_violations, 1u);
  EXPECT_FALSE(Account::of(card, accounting).balances());
}

TEST(Account, EveryTermCounts) {
  const auto balances = [](auto change) {
    Account a;
    change(a);
    return a.balances();
  };
  EXPECT_TRUE(balances([](Account&) {}));
  for (std::size_t i = 0; i < card::lost_count; ++i) {
    const auto lost = static_cast<card::Lost>(i);
    const bool came_in = lost != card::Lost::missing && lost != card::Lost::socket_overflow &&
                         lost != card::Lost::ring_overflow;
    EXPECT_EQ(balances([&](Account& a) { a.lost[i] = 1; }), !came_in) << card::lost_names[i];
    EXPECT_EQ(balances([&](Account& a) { a.lost[i] = a.packets_in = 1; }), came_in) << card::lost_names[i];
  }
  EXPECT_TRUE(balances([](Account& a) { a.bad[3] = a.packets_in = 1; }));
  EXPECT_TRUE(balances([](Account& a) { a.burst_markers = a.packets_in = 1; }));
  EXPECT_FALSE(balances([](Account& a) { a.frames_in = 1; }));
  EXPECT_TRUE(balances([](Account& a) { a.frames_in = a.frames_out = a.frames_late = 1; }));
  EXPECT_FALSE(balances([](Account& a) { a.events_built = 1; }));
  EXPECT_TRUE(balances([](Account& a) { a.events_built = a.in_late_frames = 1; }));
}

}  // namespace
}  // namespace nanet::trigger
