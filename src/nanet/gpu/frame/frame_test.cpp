// SPDX-License-Identifier: Apache-2.0
// Frame processing of a thread block, run on the CPU thread by thread, against the CPU's frame processor:
// equal packets and counts for any bytes.
#include "nanet/gpu/frame/frame.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "nanet/gpu/frame/both_test.hpp"
#include "nanet/os/sanitizer_test.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/multiring.hpp"
#include "nanet/rich/tripl.hpp"

namespace nanet::gpu {
namespace {

namespace flag = wire::mgp::flag;

template <class A>
std::uint64_t frames_of_boards(unsigned boards, unsigned most, unsigned rounds, std::uint32_t room,
                               const rich::Geometry& geometry = rich::Geometry::make()) {
  std::mt19937 random(17 + boards + most);
  Both<A> both(contract::Gather::frame, boards, 1, 8192, room, geometry);
  for (unsigned round = 0; round < rounds; ++round) {
    std::memset(both.buffer(), 0, both.shape().buffer_bytes());
    const auto frame = static_cast<Frame>(random() % 1000);
    for (unsigned b = 0; b < boards; ++b) {
      const auto packets = static_cast<unsigned>(random() % 3);
      for (unsigned p = 0; p < packets; ++p)
        both.place(b, trigger::mgp_packet(b, frame, 100 + (random() % 4 ? p : 9 - p),
                                          trigger::random_events(random, b, most),
                                          random() % 4 ? 0 : flag::fixed, p));
    }
    if (round % 3 == 2) {  // hostile: bytes here and there, and the header's own
      for (unsigned i = 0; i < 40; ++i)
        both.buffer()[random() % both.shape().buffer_bytes()] = static_cast<std::byte>(random());
      for (unsigned i = 0; i < 4; ++i) both.buffer()[random() % 64] = static_cast<std::byte>(random());
    }
    trigger::ProcessOptions options;
    if (round % 5 == 4) options.decision.min_hits = static_cast<std::uint32_t>(random() % 6);
    if (round % 7 == 6) options.window_lsb = static_cast<std::int32_t>(random() % 3 ? 2000 : 65535);
    if (round % 4 == 1) options.downscale.factor = {2, 1 + static_cast<std::uint32_t>(random() % 9), 0, 5};
    trigger::ConditionsStore store(
        std::make_shared<trigger::Conditions>(random_conditions(random, round % 3 ? 0 : 60)));
    if (round % 6 < 3) options.conditions = &store;
    both.compare(random() % 2 ? contract::event_flag::complete : 0, frame, options);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(both.masked, both.events / 50);
  EXPECT_GT(both.downscaled, both.events / 20);
  EXPECT_GT(both.timed, both.hits / 2);
  EXPECT_GT(both.hits, both.events);
  return both.events;
}

TEST(FrameWork, FramesOfAnyNumberOfBoards) {
  std::uint64_t events = 0;
  for (const unsigned boards : {1u, 2u, 4u}) {
    events += frames_of_boards<rich::Math>(boards, 30, test_rounds(400u), shared_fragments);
    events += frames_of_boards<rich::Math>(boards, 30, test_rounds(100u), 8);  // the large tables
  }
  EXPECT_GT(events, test_rounds(20'000u));
}

TEST(FrameWork, PositionsThatAreNoWholeNumbers) {
  rich::Geometry moved = rich::Geometry::make();
  for (rich::Point& p : moved.common) p = {p.x * 1.3f + 0.7f, p.y + 3.3f};
  EXPECT_GT(frames_of_boards<rich::Math>(4, 30, 60, shared_fragments, moved), 1000u);
}

TEST(FrameWork, AlgorithmsThatAreWide) {
  EXPECT_GT(frames_of_boards<rich::Multiring>(4, 10, 60, shared_fragments), 400u);
}

TEST(FrameWork, EventsReconstructedInOtherBlocks) {
  EXPECT_GT(frames_of_boards<Nearby<rich::Multiring>>(4, 10, 60, shared_fragments), 400u);
  EXPECT_GT(frames_of_boards<Nearby<rich::Tripl>>(2, 25, 60, 8), 400u);  // the large tables
}

TEST(FrameWork, NothingButNoise) {
  std::mt19937 random(3);
  for (const unsigned boards : {1u, 4u, 8u}) {
    Both<rich::Math> both(contract::Gather::frame, boards);
    for (unsigned round = 0; round < test_rounds(300u); ++round) {
      for (std::size_t i = 0; i < both.shape().buffer_bytes(); i += 4) {
        // Small numbers give long walks, noise gives short ones.
        const std::uint32_t word = round % 2 ? static_cast<std::uint32_t>(random())
                                             : static_cast<std::uint32_t>(random()) & 0x0FFF03FF;
        std::memcpy(both.buffer() + i, &word, 4);
      }
      // The layout comes from the card, which does not merge here.
      both.buffer()[offsetof(contract::FrameHeader, layout)] = std::byte{0};
      both.compare(0, 5);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(FrameWork, AFrameFullOfEmptyFragments) {
  Both<rich::Math> both(contract::Gather::frame, 4);
  std::mt19937 random(4);
  std::memset(both.buffer(), 0, both.shape().buffer_bytes());
  for (unsigned b = 0; b < 4; ++b)
    for (unsigned p = 0; p < 4; ++p) {
      std::vector<trigger::TestEvent> events(250);
      for (auto& e : events) e.time = static_cast<std::uint16_t>(random() % 65536);
      both.place(b, trigger::mgp_packet(b, 1, p, events, 0, p));
    }
  trigger::ProcessOptions options;
  options.decision.min_hits = 0;
  both.compare(contract::event_flag::complete, 1, options);
  EXPECT_GT(both.events, 1500u);  // more than the limit for ranking by comparison
}

TEST(FrameWork, PacketsOfOneBuffer) {
  std::mt19937 random(5);
  for (const std::uint32_t packets : {1u, 3u, 16u}) {
    Both<rich::Math> both(contract::Gather::packets, 1, packets);
    for (unsigned round = 0; round < test_rounds(300u); ++round) {
      std::memset(both.buffer(), 0, both.shape().buffer_bytes());
      const unsigned filled = 1 + static_cast<unsigned>(random() % packets);
      for (unsigned p = 0; p < filled; ++p) {
        const trigger::Bytes packet = trigger::mgp_packet(0, 7 + static_cast<Frame>(random() % 2 ? p / 2 : 0),
                                                          p, trigger::random_events(random, 0, 20));
        if (packet.size() <= both.shape().slot_bytes)
          std::memcpy(both.buffer() + p * both.shape().slot_bytes, packet.data(), packet.size());
      }
      if (round % 3 == 2)
        for (unsigned i = 0; i < 20; ++i)
          both.buffer()[random() % both.shape().buffer_bytes()] = static_cast<std::byte>(random());
      trigger::ProcessOptions options;
      trigger::ConditionsStore store(std::make_shared<trigger::Conditions>(random_conditions(random, 60)));
      if (round % 2) {
        options.conditions = &store;
        options.downscale.factor = {3, 2, 1, 1};
      }
      both.compare(contract::event_flag::complete, 7, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The GPU's ring of tables and the CPU's store give the same conditions for every n.
TEST(Conditions, TheTablesOfAGpuAreThoseOfTheStore) {
  std::mt19937 random(6);
  const auto made = [&](unsigned i) {
    trigger::Conditions c;
    c.t0[7] = static_cast<std::int16_t>(i);
    c.masked[8] = i % 2;
    return std::make_shared<trigger::Conditions>(c);
  };
  auto board = std::make_unique<ConditionsBoard>();
  trigger::ConditionsStore store(made(0));
  store.follow([&](std::uint64_t from, const trigger::Conditions& c) { publish(*board, from, c); });
  std::uint64_t base = 0;
  for (unsigned i = 1; i < 60; ++i) {
    base += 1 + random() % 100;
    if (random() % 4) store.offer(made(i));
    store.burst_began(base, base);  // nothing is pending: the oldest may be overwritten
    trigger::ConditionsReader reader(&store);
    for (std::uint64_t n = base > 1000 ? base - 1000 : 0; n < base + 10; ++n) {
      const ConditionsTable& table =
          board->table[table_for(n, board->version, board->from) % conditions_kept];
      const trigger::Conditions& c = *reader.at(n);
      ASSERT_EQ(table.t0[7], c.t0[7]) << n << " of " << base;
      ASSERT_EQ(table.t0[8], c.masked[8] ? masked_pm : 0);
      ASSERT_EQ(table.t0[conditions_pms - 1], 0);
    }
  }
  EXPECT_GT(board->version, 30u);
}

}  // namespace
}  // namespace nanet::gpu
