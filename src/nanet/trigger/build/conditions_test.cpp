// SPDX-License-Identifier: Apache-2.0
// Tests of the detector conditions: change between bursts, postponed offers, masks and time offsets.
#include "nanet/trigger/build/conditions.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

std::shared_ptr<Conditions> offset_of(PmId pm, std::int16_t lsb, std::string name = "") {
  auto c = std::make_shared<Conditions>();
  c->t0[pm] = lsb;
  c->name = std::move(name);
  return c;
}

TEST(ConditionsStore, TakesTheLastOfferAtTheNextBurst) {
  ConditionsStore store(offset_of(0, 1));
  ConditionsReader reader(&store);
  store.burst_began(0, 0);  // no offer, no change
  EXPECT_EQ(store.changes(), 0u);
  EXPECT_EQ(reader.at(5)->t0[0], 1);
  store.offer(offset_of(0, 2));
  store.offer(offset_of(0, 3));
  EXPECT_EQ(reader.at(5)->t0[0], 1);  // an offer is not yet in effect
  store.burst_began(100, 100);
  EXPECT_EQ(store.changes(), 1u);
  EXPECT_EQ(store.current()->t0[0], 3);
  EXPECT_EQ(reader.at(99)->t0[0], 1);  // later frames of the old burst keep the old conditions
  EXPECT_EQ(reader.at(100)->t0[0], 3);
  store.burst_began(200, 200);
  EXPECT_EQ(store.changes(), 1u);
}

TEST(ConditionsStore, WaitsForLaggingConsumers) {
  ConditionsStore store(offset_of(0, 0));
  ConditionsReader reader(&store);
  for (unsigned b = 1; b <= 40; ++b) {
    store.offer(offset_of(0, static_cast<std::int16_t>(b)));
    store.burst_began(10 * b, 0);
  }
  EXPECT_EQ(reader.at(5)->t0[0], 0);
  EXPECT_EQ(reader.at(15)->t0[0], 1);
  const auto held = store.changes();
  EXPECT_LT(held, 20u);
  EXPECT_EQ(reader.at(10'000)->t0[0], held);
  store.burst_began(1000, 1000);
  EXPECT_EQ(reader.at(1000)->t0[0], 40);
  EXPECT_EQ(reader.at(999)->t0[0], held);
}

TEST(ConditionsStore, WithoutOneThereAreNone) {
  ConditionsReader reader(nullptr);
  EXPECT_EQ(reader.at(0), nullptr);
}

TEST(ConditionsStore, ReadersFollowWhileOthersAreOffered) {
  ConditionsStore store(offset_of(0, 0));
  std::atomic<std::uint64_t> newest{0};
  std::atomic<bool> ending{false};
  std::jthread loader([&] {
    for (std::int16_t i = 1; !ending; i = static_cast<std::int16_t>(i % 1000 + 1))
      store.offer(offset_of(0, i));
  });
  std::jthread follower([&] {
    ConditionsReader reader(&store);
    while (!ending) {
      const std::uint64_t n = newest.load(std::memory_order_acquire);
      const Conditions* c = reader.at(n);
      ASSERT_NE(c, nullptr);
      ASSERT_LE(c->t0[0], 1000);
    }
  });
  for (std::uint64_t base = 10; base < 20'000; base += 10) {
    store.burst_began(base, base);
    newest.store(base, std::memory_order_release);
  }
  ending = true;
}

// Bursts of frames with one hit at 1000 LSB. An offer in the middle of a burst shifts the times of the next
// burst only, for all executors.
TEST(Conditions, TakeEffectBetweenBursts) {
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  constexpr unsigned bursts = 20, frames = 40;
  for (const unsigned threads : {1u, 0u, 2u, 3u}) {
    ConditionsStore store(offset_of(7, 0, "0"));
    Chain chain(Chain::options(1), *algorithm, threads, {}, {}, &store);
    for (unsigned b = 0; b < bursts; ++b) {
      while (b > 4 && chain.stream().table().next < (b - 4) * frames) chain.turn();  // a few may be pending
      chain.packet(mgp_marker(flag::sob, 0, 0, 0, static_cast<std::uint8_t>(b)));
      for (Frame f = 0; f < frames; ++f) {
        if (f == frames / 2)
          store.offer(offset_of(7, static_cast<std::int16_t>(b + 1), std::to_string(b + 1)));
        chain.packet(
            mgp_packet(0, f, f + 1, {{1000, {{7}}, 0}}, flag::last, 0, static_cast<std::uint8_t>(b)));
      }
      chain.packet(mgp_marker(flag::eob, 0, frames - 1, frames + 1, static_cast<std::uint8_t>(b)));
    }
    chain.drain();
    ASSERT_EQ(chain.sent().size(), bursts * frames);
    for (unsigned i = 0; i < chain.sent().size(); ++i) {
      const auto word = wire::mgp::load<std::uint32_t>(chain.sent()[i].data() + 12);
      ASSERT_EQ(word & 0xFFFF, 1000 - i / frames) << "threads " << threads << " frame " << i;
    }
    EXPECT_EQ(store.changes(), bursts - 1);
    for (const auto& report : chain.bursts().take())
      EXPECT_EQ(report.conditions, report.rest ? "" : std::to_string(report.burst.number));
  }
}

TEST(Conditions, MaskedHitsAreCounted) {
  auto conditions = std::make_shared<Conditions>();
  conditions->masked[7] = conditions->masked[9] = 1;
  ConditionsStore store(conditions);
  Chain chain(Chain::options(1), *rich::make_reconstructor("math", {}, rich::Geometry::make()), 1, {}, {},
              &store);
  chain.packet(mgp_marker(flag::sob, 0, 0, 0));
  // One event loses all its hits and falls below min_hits. PM 7 occurs twice; as it is masked, it is no
  // duplicate.
  chain.packet(mgp_packet(0, 0, 1, {{1000, {{7}, {7}, {9}}, 0}, {5000, {{7}, {8, 40}}, 0}}, flag::last));
  chain.drain();
  const Account a = chain.account();
  EXPECT_EQ(a.masked_hits, 4u);
  EXPECT_EQ(a.duplicate_hits, 0u);
  EXPECT_EQ(a.hits_in, 5u);
  EXPECT_EQ(a.below_min_hits, 1u);
  EXPECT_EQ(a.primitives_out, 1u);
  EXPECT_EQ(wire::mgp::load<std::uint32_t>(chain.sent()[0].data() + 12) & 0xFFFF, 5040u);
  EXPECT_TRUE(a.balances());
}

}  // namespace
}  // namespace nanet::trigger
