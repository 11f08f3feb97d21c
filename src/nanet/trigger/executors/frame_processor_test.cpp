// SPDX-License-Identifier: Apache-2.0
// Tests of the frame processor: primitives, truncated and incomplete frames, histograms.
#include "nanet/trigger/executors/frame_processor.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

std::unique_ptr<rich::Reconstructor> math() {
  return rich::make_reconstructor("math", {}, rich::Geometry::make());
}

std::vector<std::uint32_t> words(const Bytes& packet) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i + 4 <= packet.size(); i += 4)
    out.push_back(wire::mgp::load<std::uint32_t>(packet.data() + i));
  return out;
}

// Frames of board 0 only, each a complete packet.
Chain::Packets answers(const std::vector<std::vector<TestEvent>>& frames, const ProcessOptions& process = {},
                       std::uint8_t flags = flag::last, Account* account = nullptr) {
  Chain chain(Chain::options(1), *math(), 1, process);
  Sequence s = 0;
  chain.packet(mgp_marker(flag::sob, 0, 0, s++));
  for (Frame f = 0; f < frames.size(); ++f) chain.packet(mgp_packet(0, f, s++, frames[f], flags));
  chain.drain();
  if (account) *account = chain.account();
  return chain.sent();
}

TEST(FrameProcessor, WritesPrimitivesInOrderOfTime) {
  const auto sent = answers({{}, {{5000, {{1}}, 0}, {700, {{2, 8}, {3, 0}}, 0}}});
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(words(sent[0]), (std::vector<std::uint32_t>{0x1C000000, 8}));
  const std::uint32_t id = primitive_bit::valid;
  EXPECT_EQ(words(sent[1]),
            (std::vector<std::uint32_t>{0x1C000001, 2u << 16 | 20, 1, id << 16 | 704, id << 16 | 5000}));
}

TEST(FrameProcessor, MarksIncompleteEvents) {
  const std::uint32_t id = primitive_bit::valid, not_whole = id | primitive_bit::incomplete;
  const std::vector<std::vector<TestEvent>> frames = {{{700, {{2}}, 1}, {5000, {{2}}, 0}}};
  EXPECT_EQ(words(answers(frames)[0])[3] >> 16, not_whole);  // a truncated fragment
  EXPECT_EQ(words(answers(frames)[0])[4] >> 16, id);
  EXPECT_EQ(words(answers(frames, {}, 0)[0])[4] >> 16, not_whole);  // an incomplete frame
  EXPECT_EQ(words(answers(frames, {}, flag::last | flag::truncated)[0])[4] >> 16,
            not_whole);  // truncated by the board
}

TEST(FrameProcessor, CountsUnsentPrimitives) {
  std::vector<TestEvent> many;
  for (unsigned i = 0; i < 120; ++i) many.push_back({static_cast<std::uint16_t>(100 * i), {{i}}, 0});
  for (unsigned i = 0; i < 30; ++i) many.push_back({static_cast<std::uint16_t>(100 * i + 50), {}, 0});
  ProcessOptions process;
  Account account;
  answers({many}, process, flag::last, &account);
  EXPECT_EQ(account.events_built, 150u);
  EXPECT_EQ(account.below_min_hits, 30u);
  EXPECT_EQ(account.primitives_out, 120u);
  process.decision.min_hits = 2;
  answers({many}, process, flag::last, &account);
  EXPECT_EQ(account.below_min_hits, 150u);
  EXPECT_EQ(account.primitives_out, 0u);
  process.decision.min_hits = 0;
  answers({many}, process, flag::last, &account);
  EXPECT_EQ(account.primitives_out, 150u);
  EXPECT_TRUE(account.balances());
}

TEST(FrameProcessor, NeverMoreThan255Primitives) {
  Chain chain(Chain::options(), *math());
  std::vector<TestEvent> events(64);
  for (unsigned board = 0; board < 4; ++board) {
    for (unsigned i = 0; i < 64; ++i)
      events[i] = {static_cast<std::uint16_t>(1000 * i + 100 * board), {{512 * board}}, 0};
    chain.packet(mgp_marker(flag::sob, board, 0, 0));
    chain.packet(mgp_packet(board, 0, 1, events, flag::last));
  }
  chain.drain();
  ASSERT_EQ(chain.sent().size(), 1u);
  EXPECT_EQ(words(chain.sent()[0])[1], 255u << 16 | (12 + 4 * 255));
  EXPECT_EQ(chain.account().mtp_overflow, 1u);
  EXPECT_TRUE(chain.account().balances());
}

TEST(FrameProcessor, PhysicsOfASampleOfFrames) {
  std::vector<std::vector<TestEvent>> frames(2 * Physics::sample_every,
                                             {{700, {{2}, {9}}, 0}, {9000, {{2}}, 0}});
  Chain chain(Chain::options(1), *math());
  for (Frame f = 0; f < frames.size(); ++f) chain.packet(mgp_packet(0, f, f + 1, frames[f], flag::last));
  chain.drain();
  const Physics& physics = *chain.executor().physics().at(0);
  EXPECT_EQ(physics.rings_per_event[0], 2 * frames.size());  // all events
  EXPECT_EQ(physics.sampled_events, 4u);                     // of two frames
  EXPECT_EQ(physics.hits_per_event[2], 2u);
  EXPECT_EQ(physics.hits_per_event[1], 2u);
  EXPECT_EQ(physics.pm_occupancy[2], 4u);
  EXPECT_EQ(physics.pm_occupancy[9], 2u);
  const auto kept = physics.events();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].frame, Physics::sample_every);
  EXPECT_EQ(kept[1].rings.count, 0);
  EXPECT_GT(kept[1].hits, 0);
}

}  // namespace
}  // namespace nanet::trigger
