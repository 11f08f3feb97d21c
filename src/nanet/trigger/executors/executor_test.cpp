// SPDX-License-Identifier: Apache-2.0
// Tests of the executors: all send the same packets, byte for byte and in order.
#include "nanet/trigger/executors/executor.hpp"

#include <gtest/gtest.h>

#include "nanet/os/sanitizer_test.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

// Two bursts with lost, repeated and reordered packets.
std::vector<Bytes> traffic(unsigned seed, Frame frames) {
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  for (std::uint8_t burst = 0; burst < 2; ++burst) {
    const std::size_t begin = out.size();
    for (unsigned b = 0; b < 4; ++b) out.push_back(mgp_marker(flag::sob, b, 0, 0, burst));
    for (Frame f = 0; f < frames; ++f)
      for (unsigned b = 0; b < 4; ++b)
        out.push_back(mgp_packet(b, f, f + 1, random_events(random, b, 12), flag::last, 0, burst));
    for (unsigned b = 0; b < 4; ++b) out.push_back(mgp_marker(flag::eob, b, frames - 1, frames + 1, burst));
    for (std::size_t i = begin + 4; i + 8 < out.size(); ++i) {
      if (random() % 20 == 0) std::swap(out[i], out[i + random() % 8]);
      if (random() % 50 == 0) out[i] = out[i - 1];
      if (random() % 50 == 0) out[i][random() % 15] ^= std::byte{4};  // all but the burst number
    }
  }
  return out;
}

struct Result {
  Chain::Packets sent;
  Account account;
  std::uint64_t rings = 0;
};

Result run(const std::vector<Bytes>& packets, unsigned threads, std::size_t restart_every = 0) {
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  Chain chain(Chain::options(), *algorithm, threads);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    chain.packet(packets[i]);
    if (restart_every && i % restart_every == 0) chain.restart();
  }
  chain.drain();
  Result result{chain.sent(), chain.account(), 0};
  for (const Physics* p : chain.executor().physics())
    for (unsigned r = 1; r <= rich::max_rings; ++r) result.rings += r * p->rings_per_event[r];
  EXPECT_FALSE(chain.executor().event_overrun());
  return result;
}

TEST(Executor, WorkersGiveTheSameBytes) {
  for (unsigned seed = 0; seed < test_rounds(4u); ++seed) {
    const auto packets = traffic(seed, 300);
    const Result one = run(packets, 1);
    ASSERT_TRUE(one.account.balances());
    EXPECT_GE(one.sent.size(), 500u);
    EXPECT_EQ(one.rings, one.account.rings);
    for (const unsigned threads : {0u, 2u, 3u}) {
      const Result more = run(packets, threads);
      EXPECT_EQ(more.sent, one.sent);
      EXPECT_TRUE(more.account.balances());
      EXPECT_EQ(more.account.events_built, one.account.events_built);
      EXPECT_EQ(more.account.split_at_frame_edge, one.account.split_at_frame_edge);
      EXPECT_EQ(more.rings, one.rings);
      EXPECT_EQ(more.account.frames_overrun, 0u);
    }
  }
}

TEST(Executor, MayBeStoppedAndStarted) {
  const auto packets = traffic(9, 100);
  const Result through = run(packets, 1);
  for (const unsigned threads : {0u, 1u, 2u}) {
    const Result again = run(packets, threads, 37);
    EXPECT_EQ(again.sent, through.sent) << threads;
    EXPECT_TRUE(again.account.balances());
  }
}

TEST(Executor, MoreFramesThanBuffers) {
  std::vector<Bytes> packets;
  for (Frame f = 0; f < 10'000; ++f)
    packets.push_back(mgp_packet(f % 4, f, f / 4 + 1, {{100, {{512 * (f % 4)}}, 0}}, flag::last));
  const Result inline_ = run(packets, 1);
  EXPECT_EQ(inline_.account.frames_answered, 10'000u);
  EXPECT_TRUE(inline_.account.balances());
  EXPECT_EQ(run(packets, 2).sent, inline_.sent);
  EXPECT_EQ(run(packets, 0).sent, inline_.sent);
}

}  // namespace
}  // namespace nanet::trigger
