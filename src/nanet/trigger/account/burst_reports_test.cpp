// SPDX-License-Identifier: Apache-2.0
// Tests of the burst reports: counts per burst, lost EOB, late joins and the rest after the last burst.
#include "nanet/trigger/account/burst_reports.hpp"

#include <gtest/gtest.h>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

std::unique_ptr<rich::Reconstructor> math() {
  return rich::make_reconstructor("math", {}, rich::Geometry::make());
}

// A burst of board 0: `events` events of one hit in every frame.
void burst(Chain& chain, std::uint8_t number, Frame frames, unsigned events, bool eob = true,
           bool sob = true) {
  if (sob) chain.packet(mgp_marker(flag::sob, 0, 0, 0, number));
  for (Frame f = 0; f < frames; ++f) {
    std::vector<TestEvent> list;
    for (unsigned e = 0; e < events; ++e) list.push_back({static_cast<std::uint16_t>(1000 * e), {{e}}, 0});
    chain.packet(mgp_packet(0, f, f + 1, list, flag::last, 0, number));
  }
  if (eob) chain.packet(mgp_marker(flag::eob, 0, frames - 1, frames + 1, number));
}

TEST(Bursts, EachHasSeparateCounts) {
  for (const unsigned threads : {1u, 0u, 2u}) {
    Chain chain(Chain::options(1), *math(), threads);
    burst(chain, 9, 100, 3);
    burst(chain, 10, 50, 5, false);  // its EOB is lost
    burst(chain, 13, 70, 2, true, false);
    burst(chain, 14, 20, 1, false);
    chain.drain();
    const auto reports = chain.bursts().take();
    ASSERT_EQ(reports.size(), 4u) << threads;
    const struct {
      std::uint32_t number;
      std::uint64_t frames, events;
      card::BurstEnd how;
      std::uint8_t sob, eob;
    } want[] = {{9, 100, 300, card::BurstEnd::eob, 1, 1},
                {10, 50, 250, card::BurstEnd::next_burst, 1, 0},
                // Joined without SOB: the first packet only announced the burst, and frame 0 was lost with
                // it.
                {13, 69, 138, card::BurstEnd::eob, 0, 1},
                {14, 20, 20, card::BurstEnd::drain, 1, 0}};
    std::uint64_t base = 0;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const BurstReport& r = reports[i];
      EXPECT_FALSE(r.rest);
      EXPECT_EQ(r.burst.number, want[i].number);
      EXPECT_EQ(r.burst.how, want[i].how) << i;
      EXPECT_EQ(r.burst.sob, want[i].sob);
      EXPECT_EQ(r.burst.eob, want[i].eob);
      EXPECT_EQ(r.burst.base, base);
      base = r.burst.end;
      EXPECT_EQ(r.counts.frames_in, want[i].frames) << i;
      EXPECT_EQ(r.counts.frames_answered, want[i].frames);
      EXPECT_EQ(r.counts.events_built, want[i].events);
      EXPECT_EQ(r.counts.primitives_out, want[i].events);
    }
    EXPECT_TRUE(chain.bursts().take().empty());
    EXPECT_FALSE(chain.bursts().in_burst());
    EXPECT_EQ(chain.bursts().number(), 14u);
  }
}

TEST(Bursts, SumIsTheAccount) {
  std::mt19937 random(3);
  Chain chain(Chain::options(), *math());
  for (std::uint8_t b = 0; b < 6; ++b) {
    for (unsigned board = 0; board < 4; ++board) chain.packet(mgp_marker(flag::sob, board, 0, 0, b));
    for (Frame f = 0; f < 60; ++f)
      for (unsigned board = 0; board < 4; ++board) {
        auto packet = mgp_packet(board, f, f + 1, random_events(random, board, 6), flag::last, 0, b);
        if (random() % 20 == 0) continue;
        if (random() % 20 == 0) packet[random() % 15] ^= std::byte{4};
        chain.packet(packet);
        if (random() % 20 == 0) chain.packet(packet);
      }
    for (unsigned board = 0; board < 4; ++board) chain.packet(mgp_marker(flag::eob, board, 59, 61, b));
  }
  chain.turn();
  chain.packet(Bytes(3));  // after the last burst
  chain.drain();
  const auto reports = chain.bursts().take();
  ASSERT_EQ(reports.size(), 7u);
  EXPECT_TRUE(reports.back().rest);
  Account sum;
  const auto add = [&](std::uint64_t Account::* count, const Account& by) { sum.*count += by.*count; };
  for (const BurstReport& r : reports) {
    for (const auto count :
         {&Account::packets_in, &Account::packets_used, &Account::burst_markers, &Account::bytes_in,
          &Account::events_in, &Account::events_built, &Account::hits_in, &Account::rings,
          &Account::primitives_out, &Account::below_min_hits, &Account::frames_in, &Account::frames_out,
          &Account::frames_answered, &Account::frames_incomplete, &Account::duplicate_hits})
      add(count, r.counts);
    for (std::size_t i = 0; i < sum.bad.size(); ++i) sum.bad[i] += r.counts.bad[i];
    for (std::size_t i = 0; i < sum.lost.size(); ++i) sum.lost[i] += r.counts.lost[i];
  }
  const Account all = chain.account();
  EXPECT_TRUE(all.balances());
  EXPECT_EQ(sum.packets_in, all.packets_in);
  EXPECT_EQ(sum.packets_used, all.packets_used);
  EXPECT_EQ(sum.bytes_in, all.bytes_in);
  EXPECT_EQ(sum.events_built, all.events_built);
  EXPECT_EQ(sum.hits_in, all.hits_in);
  EXPECT_EQ(sum.primitives_out, all.primitives_out);
  EXPECT_EQ(sum.frames_in, all.frames_in);
  EXPECT_EQ(sum.frames_out, all.frames_out);
  EXPECT_EQ(sum.frames_incomplete, all.frames_incomplete);
  EXPECT_EQ(sum.duplicate_hits, all.duplicate_hits);
  EXPECT_EQ(sum.bad, all.bad);
  EXPECT_EQ(sum.lost, all.lost);
  EXPECT_TRUE(sum.balances());
}

TEST(Bursts, UnfetchedReportsGoIntoALaterOne) {
  Chain chain(Chain::options(1), *math());
  for (unsigned b = 0; b < 100; ++b) burst(chain, static_cast<std::uint8_t>(b), 10, 1);
  std::uint64_t events = 0, reports = 0;
  const auto take = [&] {
    for (const auto& r : chain.bursts().take()) {
      events += r.counts.events_built;
      reports += !r.rest;
    }
  };
  take();
  EXPECT_LT(reports, 100u);
  for (unsigned b = 100; b < 110; ++b) burst(chain, static_cast<std::uint8_t>(b), 10, 1);
  chain.drain();
  take();
  EXPECT_EQ(events, 1100u);
  EXPECT_EQ(reports + chain.bursts().kept_back, 110u);
}

}  // namespace
}  // namespace nanet::trigger
