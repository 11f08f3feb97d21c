// SPDX-License-Identifier: Apache-2.0
// Tests of the torus model: unloaded latency of all pairs, delivery of every packet, the same result twice,
// load accepted below saturation, no deadlock with the smallest buffers, and errors.
#include "nanet/torus/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace nanet::torus {
namespace {

ModelOptions options(unsigned x, unsigned y, unsigned z, Timing timing = router_timing) {
  ModelOptions o;
  o.lattice.size = {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(z)};
  o.timing = timing;
  return o;
}

const std::array<std::array<unsigned, 3>, 6> shapes{
    {{2, 2, 2}, {3, 3, 3}, {4, 3, 2}, {4, 4, 4}, {8, 1, 1}, {1, 5, 2}}};

TEST(TorusModel, UnloadedLatencyOfAllPairs) {
  for (const Timing& timing : {router_timing, reliable_timing, apelink_timing}) {
    for (const auto& [x, y, z] : shapes) {
      const ModelOptions o = options(x, y, z, timing);
      Model model(o);
      for (std::uint32_t bytes : {0u, 16u, 256u, 4096u}) {
        for (std::uint32_t from = 0; from < o.lattice.nodes(); from += bytes == 256 ? 1 : 3) {
          std::vector<Injection> one_by_one;
          for (std::uint32_t to = 0; to < o.lattice.nodes(); ++to)
            one_by_one.push_back({11 + 1000 * std::uint64_t{to}, from, to, bytes});
          const auto done = model.play(one_by_one);
          for (const Injection& one : one_by_one) {
            const auto cycles =
                unloaded_cycles(o.lattice, timing, o.lattice.at(from), o.lattice.at(one.to), bytes);
            ASSERT_LT(cycles, 900u);  // the network is empty again before the next packet
            ASSERT_EQ(done.at(one.to).tail, one.at + cycles);
          }
        }
      }
    }
  }
}

TEST(TorusModel, EveryPacketArrivesOnceWithMixedLengths) {
  std::mt19937 random(3);
  for (const bool atomic : {true, false}) {
    for (const auto& [x, y, z] : shapes) {
      ModelOptions o = options(x, y, z);
      o.timing.atomic = atomic;
      o.timing.buffer_words = 258;  // one packet of the largest size
      Model model(o);
      std::vector<Injection> list;
      const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
      const std::uint32_t nodes = o.lattice.nodes();
      for (int i = 0; i < 2000; ++i) list.push_back({below(2000), below(nodes), below(nodes), below(4097)});
      std::stable_sort(list.begin(), list.end(),
                       [](const Injection& a, const Injection& b) { return a.at < b.at; });
      const auto done = model.play(list);
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto least = unloaded_cycles(o.lattice, o.timing, o.lattice.at(list[i].from),
                                           o.lattice.at(list[i].to), list[i].payload_bytes);
        ASSERT_GE(done[i].tail, list[i].at + least);
        ASSERT_GE(done[i].tail + 1, done[i].head + 2 + (list[i].payload_bytes + 15) / 16);
      }
      const auto again = model.play(list);
      for (std::size_t i = 0; i < list.size(); ++i) ASSERT_EQ(done[i].tail, again[i].tail);
    }
  }
}

TEST(TorusModel, AcceptsWhatIsOfferedBelowSaturation) {
  Model model(options(4, 4, 4));
  for (const auto pattern : {Pattern::uniform, Pattern::neighbour, Pattern::transpose, Pattern::halo}) {
    Traffic t;
    t.pattern = pattern;
    t.load = 0.2;
    const LoadResult r = model.run(t);
    EXPECT_NEAR(r.accepted, 0.2, 0.01);
    EXPECT_GT(r.mean_cycles, 10);
    EXPECT_LT(r.mean_cycles, 60);
    EXPECT_FALSE(r.deadlocked);
    EXPECT_EQ(r.events, model.run(t).events);
  }
  // One receiver takes one word per cycle: 64 nodes at 0.2 with a fifth to node 0 offer it 2.7.
  Traffic hot;
  hot.pattern = Pattern::hotspot;
  hot.load = 0.2;
  EXPECT_LT(model.run(hot).accepted, 0.15);
}

TEST(TorusModel, NoDeadlockAtFullLoadWithBuffersOfOnePacket) {
  for (const auto rule : {VcRule::infn, VcRule::balanced}) {
    for (const bool atomic : {true, false}) {
      for (const auto& [x, y, z] : shapes) {
        ModelOptions o = options(x, y, z);
        o.lattice.rule = rule;
        o.timing.buffer_words = 18;
        o.timing.atomic = atomic;
        Traffic t;
        t.load = 1;
        t.cycles = 4000;
        const LoadResult r = Model(o).run(t);
        EXPECT_FALSE(r.deadlocked);
        EXPECT_GT(r.accepted, 0.1);
      }
    }
  }
}

TEST(TorusModel, ExchangeFillsTheLinks) {
  Model model(options(4, 4, 4));
  const LoadResult r = model.exchange(20, 4096);
  EXPECT_EQ(r.packets, 64u * 120u);
  EXPECT_GT(r.accepted, 0.9);  // the node injects one word per cycle
}

TEST(TorusModel, ProgramEndsOnEveryLattice) {
  for (const auto& [x, y, z] : shapes) {
    for (const bool sum : {true, false}) {
      const ModelOptions o = options(x, y, z, reliable_timing);
      Model model(o);
      model.start({.iterations = 7, .packets = 3, .payload_bytes = 256, .compute_cycles = 500, .sum = sum});
      Progress p;
      while (!p.done && !p.deadlocked) p = model.advance(700);
      std::uint64_t each = 0;
      for (const unsigned n : {x, y, z}) each += n > 1 ? 6 + (sum ? n - 1 : 0) : 0;
      const std::uint64_t off_diagonal = x == z && x > 1 ? o.lattice.nodes() - x * y : 0;
      EXPECT_TRUE(p.done);
      EXPECT_EQ(p.iterations, 7u);
      EXPECT_EQ(p.packets, 7 * (each * o.lattice.nodes() + 3 * off_diagonal));
      EXPECT_EQ(p.cells_resent, 0u);
    }
  }
}

TEST(TorusModel, DamagedCellsAreSentAgainAndCounted) {
  Model model(options(4, 4, 4, reliable_timing));
  const Program program{.iterations = 20};
  const auto all = [&] {
    model.start(program);
    Progress p;
    while (!p.done && !p.deadlocked) p = model.advance(100'000);
    return p;
  };
  const Progress clean = all();
  const LinkErrors bad{.node = 21, .port = 0, .word_rate = 1e-2};
  model.damage({&bad, 1});
  const Progress p = all();
  EXPECT_TRUE(p.done);
  EXPECT_EQ(p.packets, clean.packets);
  EXPECT_GT(p.cells_damaged, 100u);
  EXPECT_GE(p.cells_resent, p.cells_damaged);
  EXPECT_EQ(model.link_resent()[21 * 6], p.cells_resent);
  EXPECT_GT(p.max_cycles, clean.max_cycles);
}

// Goodput of go-back-N: (1 - p) / (1 + (W - 1) p), W cells in a round trip.
TEST(TorusModel, GoodputUnderErrorsIsThatOfGoBackN) {
  const Timing timing = reliable_timing;
  for (const double rate : {1e-3, 1e-2}) {
    Model model(options(2, 1, 1, timing));
    std::vector<Injection> list(4000, {0, 0, 1, 4096});
    const double clean = static_cast<double>(model.play(list).back().tail);
    const LinkErrors bad{.node = 0, .port = 0, .word_rate = rate / 17};
    model.damage({&bad, 1});
    const double slow = static_cast<double>(model.play(list).back().tail);
    const double window = timing.retry_cycles / 17.0 + 1;
    const double p = 1 - std::pow(1 - bad.word_rate, 17);
    EXPECT_NEAR(clean / slow, (1 - p) / (1 + (window - 1) * p), 0.01);
  }
}

// With space reserved at injection, the throughput of uniform traffic does not fall beyond saturation.
TEST(TorusModel, ReserveHoldsTheThroughput) {
  ModelOptions o = options(8, 8, 8);
  o.timing.buffer_words = 63;
  Traffic t;
  t.load = 1;
  t.warm_cycles = 3000;
  t.cycles = 3000;
  EXPECT_LT(Model(o).run(t).accepted, 0.40);
  o.timing.reserve = true;
  EXPECT_GT(Model(o).run(t).accepted, 0.44);
}

template <class F>
std::string refused(F&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(TorusModel, ErrorsNameKeyValueAndRemedy) {
  EXPECT_EQ(refused([] { Model m(options(65, 1, 1)); }), "size of x = 65: must be 1 to 64");
  EXPECT_EQ(refused([] { Model m(options(4, 4, 0)); }), "size of z = 0: must be 1 to 32");
  Traffic t;
  t.payload_bytes = 5000;
  EXPECT_EQ(refused([&] { Model(options(2, 2, 2)).run(t); }), "payload_bytes = 5000: must be at most 4096");
  t.payload_bytes = 4096;
  ModelOptions small = options(2, 2, 2);
  small.timing.buffer_words = 64;
  EXPECT_NE(refused([&] { Model(small).run(t); }).find("258 words does not fit"), std::string::npos);
  t.pattern = Pattern::transpose;
  EXPECT_NE(refused([&] { Model(options(2, 2, 3)).run(t); }).find("sizes of x and z"), std::string::npos);
  const Injection outside{0, 0, 8, 0};
  EXPECT_NE(refused([&] { Model(options(2, 2, 2)).play({&outside, 1}); }).find("node 8"), std::string::npos);
  const LinkErrors often{.word_rate = 0.5};
  EXPECT_NE(refused([&] { Model(options(2, 2, 2, reliable_timing)).damage({&often, 1}); }).find("0 to 0.1"),
            std::string::npos);
  const LinkErrors none{};
  EXPECT_NE(refused([&] { Model(options(2, 2, 2)).damage({&none, 1}); }).find("link = reliable"),
            std::string::npos);
  EXPECT_NE(refused([] { Model(options(1, 1, 1)).start({}); }).find("needs neighbours"), std::string::npos);
  EXPECT_NE(refused([] { Model(options(2, 2, 2)).advance(1); }).find("call start"), std::string::npos);
  ModelOptions twice = options(2, 2, 2);
  twice.lattice.order = {0, 0, 1};
  EXPECT_EQ(refused([&] { Model m(twice); }), "order: must name each dimension once");
}

}  // namespace
}  // namespace nanet::torus
