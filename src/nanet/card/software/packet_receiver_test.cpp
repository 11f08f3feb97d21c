// SPDX-License-Identifier: Apache-2.0
// Tests of gather mode packets: P payloads per buffer in order of arrival, partly filled buffers, losses,
// overruns, bursts.
#include "nanet/card/software/packet_receiver.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::card {
namespace {

ClopOptions by_packets(std::uint32_t packets, std::uint32_t buffers = 8) {
  ClopOptions o = rig_options(buffers);
  o.gather = contract::Gather::packets;
  o.packets = packets;
  return o;
}

std::size_t length_at(const Rig& rig, const Event& e, unsigned slot) {
  return wire::mgp::decode_header(rig.views[0].buffer(e.buffer) + slot * rig.views[0].shape.slot_bytes)
      .length;
}

TEST(Packets, FillSlotsInOrderOfArrivalOverManyLaps) {
  Rig rig(by_packets(3));
  rig.sobs();
  std::uint32_t n = 0;
  for (Frame f = 0; f < 120; ++f) {
    std::vector<std::vector<std::byte>> sent;
    for (const BoardId b : std::array<BoardId, 3>{3, 0, 2})
      sent.push_back(rig.feed({.board = b, .frame = f, .events = 1u + b}));
    const auto events = rig.serve();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].flags, event_flag::complete);
    EXPECT_EQ(events[0].n, n);
    EXPECT_EQ(events[0].buffer, n++ % 8);
    std::size_t bytes = 0;
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_EQ(std::memcmp(rig.views[0].buffer(events[0].buffer) + i * 1472, sent[i].data(), sent[i].size()),
                0);
      bytes += sent[i].size();
    }
    EXPECT_EQ(events[0].bytes, bytes);
    EXPECT_EQ(rig.send(), 1u);
  }
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  rig.finish();
}

TEST(Packets, EmptySlotsOfAPartlyFilledBufferHaveLengthZero) {
  Rig rig(by_packets(4));
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);  // every buffer full once
  rig.serve();
  rig.send();
  rig.feed({.board = 0, .frame = 8});
  rig.eobs(8);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, 0);
  EXPECT_EQ(length_at(rig, events[0], 0), 30u);
  for (unsigned i = 1; i < 4; ++i) EXPECT_EQ(length_at(rig, events[0], i), 0u);
  rig.answer(events[0]);
  rig.finish();
}

TEST(Packets, ReplayedJumpingAndRefusedOnes) {
  Rig rig(by_packets(1, 64));
  rig.sobs();
  rig.feed({.board = 0, .sequence = 1});
  rig.feed({.board = 0, .sequence = 1});
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
  rig.feed({.board = 0, .sequence = 5000});
  rig.feed({.board = 0, .sequence = 5000});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  rig.feed({.board = 0, .sequence = 5001});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  EXPECT_EQ(rig.missing(), 4998);
  rig.raw({});
  EXPECT_EQ(rig.bad(wire::mgp::Refusal::short_header), 1u);
  rig.sob(0);
  rig.feed({.board = 0, .sequence = 1});  // the lost packet arrives
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
  EXPECT_EQ(rig.stream.counters().packets_used, 3u);
  rig.finish();
}

TEST(Packets, StalledConsumerCostsPacketsAndGetsAnEvent) {
  Rig rig(by_packets(1));
  rig.sobs();
  for (Frame f = 0; f < 108; ++f) rig.feed({.board = 0, .frame = f});
  EXPECT_EQ(rig.lost(Lost::overrun), 100u);
  std::uint64_t told = 0;
  for (int i = 0; i < 2; ++i) {
    for (const Event& e : rig.take()) {
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) rig.answer(e);
      if (e.type == static_cast<std::uint8_t>(EventType::error)) {
        EXPECT_EQ(e.flags, event_flag::overrun);
        told += e.bytes;
      }
    }
    rig.stream.receiver().expire(rig.now);
  }
  EXPECT_EQ(told, 100u);
  EXPECT_EQ(rig.send(), 8u);
  rig.feed({.board = 0, .frame = 108});
  EXPECT_EQ(rig.serve().size(), 1u);
  rig.finish();
}

TEST(Packets, DeadlineCountsFromTheFullBuffer) {
  Rig rig(by_packets(2));
  rig.sobs();
  rig.feed({.board = 0});
  rig.now += 1'000'000;
  EXPECT_EQ(rig.send(), 0u);
  rig.feed({.board = 1});
  rig.now += 5999;
  EXPECT_EQ(rig.send(), 0u);
  rig.now += 1;
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.stream.counters().frames_late, 1u);
  rig.finish();
}

TEST(Packets, BurstsBeginWithTheirSecondPacketAndOverlap) {
  Rig rig(by_packets(1, 64));
  const std::uint8_t next = first_burst + 1;
  rig.sobs();
  rig.feed({.board = 0});
  rig.sob(0, next);
  EXPECT_EQ(rig.stream.counters().bursts, 1u);
  rig.feed({.board = 0, .burst = next});
  EXPECT_EQ(rig.stream.counters().bursts, 2u);
  rig.feed({.board = 1, .frame = 0});  // from the old burst, still in time
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  rig.now += 1001;
  rig.feed({.board = 1, .frame = 1});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  EXPECT_EQ(rig.missing(), 0);
  rig.feed({.board = 2, .burst = next + 1, .sequence = 1});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  rig.feed({.board = 2, .burst = next + 1, .sequence = 2});
  EXPECT_EQ(rig.stream.counters().bursts, 3u);
  rig.finish();
}

TEST(Packets, LargerThanASlot) {
  ClopOptions options = by_packets(1);
  options.rules.max_payload = 8972;
  Rig rig(options);
  EXPECT_EQ(rig.views[0].shape.slot_bytes, 8976u);
  rig.sobs();
  rig.feed({.board = 0, .events = 120, .hits = 32});
  const auto events = rig.serve();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(length_at(rig, events[0], 0), 16u + 120 * 72);
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
