// SPDX-License-Identifier: Apache-2.0
// Tests of the final trigger: decisions by mask, joining, dead time, datagrams to boards and farm.
#include "nanet/trigger/live/final_trigger.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <random>
#include <stdexcept>

#include "nanet/card/frame_periods.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/trigger/live/final_trigger_test.hpp"
#include "nanet/trigger/live/trigger.hpp"

namespace nanet::trigger {
namespace {

using wire::trigger::Trigger;
using Packet = std::vector<std::byte>;

struct Datagram {
  wire::trigger::Header header;
  std::vector<Trigger> triggers;
};

std::optional<Datagram> read(int fd) {
  std::array<std::byte, 2048> bytes;
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0) return std::nullopt;
  Datagram datagram;
  datagram.triggers.resize(wire::trigger::max_triggers);
  EXPECT_EQ(wire::trigger::decode(std::span(bytes).first(static_cast<std::size_t>(n)), datagram.header,
                                  datagram.triggers.data()),
            wire::trigger::Refusal::none);
  datagram.triggers.resize(datagram.header.count);
  return datagram;
}

Packet mtp(Frame frame, const std::vector<wire::mtp::Primitive>& primitives) {
  Packet packet(wire::mtp::max_bytes);
  packet.resize(
      wire::mtp::encode(packet.data(), frame, primitives.data(), static_cast<unsigned>(primitives.size())));
  return packet;
}

class FinalTriggerTest : public testing::Test, protected TriggerReceivers<2> {
 protected:
  FinalTriggerTest() { options.masks[5] = {0x4FFF, 0x4001, 0x20, 2}; }
};

TEST_F(FinalTriggerTest, SendsTheTriggersOfAFrameToTheFarmAndEveryBoard) {
  FinalTrigger trigger(options);
  trigger.burst_began(0x103, 100);
  trigger.burst_began(0x104, 108);
  trigger.sent(100, mtp(0, {{0x6002, 10, 9}, {0x4001, 11, 0}, {0x4000, 12, 0}, {0x7000, 20, 1}}));
  trigger.sent(101, mtp(1, {}));
  trigger.sent(102, mtp(2, {{0x6000, 0, 0}, {0x4001, 0, 5}, {0x6000, 2, 0}, {0x6000, 3, 0}}));
  trigger.sent(108, mtp(0, {{0x6000, 1, 0}}));
  trigger.sent(109, Packet(7));  // no MTP packet
  EXPECT_FALSE(read(farm.get()));
  trigger.flush();
  for (const int fd : {farm.get(), boards[0].get(), boards[1].get()}) {
    const auto first = read(fd), second = read(fd), third = read(fd);
    ASSERT_TRUE(first && second && third);
    EXPECT_EQ(first->header, (wire::trigger::Header{0, 3, 2, 0, 0}));
    EXPECT_EQ(first->triggers, (std::vector<Trigger>{{10, 1, 9, 0}, {20, 1, 1, 1}}));
    // The second match of mask 5 falls into the same period; period 514 is dead.
    EXPECT_EQ(second->header, (wire::trigger::Header{0, 3, 2, 1, 2}));
    EXPECT_EQ(second->triggers, (std::vector<Trigger>{{512, 0x21, 0, 2}, {515, 1, 0, 3}}));
    EXPECT_EQ(third->header.burst, 4);
    EXPECT_EQ(third->triggers.at(0).event, 4);
    EXPECT_FALSE(read(fd));
  }
  const auto& c = trigger.counters();
  EXPECT_EQ(c.primitives, 9U);
  EXPECT_EQ(c.decisions, 7U);
  EXPECT_EQ(c.triggers + c.joined + c.dead, c.decisions);
  EXPECT_EQ(c.triggers, 5U);
  EXPECT_EQ(c.datagrams, 9U);
  EXPECT_EQ(c.send_errors, 0U);
}

TEST_F(FinalTriggerTest, AFullFrameTakesTwoDatagrams) {
  options.min_ticks = 1;
  FinalTrigger trigger(options);
  std::vector<wire::mtp::Primitive> primitives;
  for (unsigned t = 0; t < 255; ++t) primitives.push_back({0x6000, static_cast<std::uint8_t>(t), 0});
  for (std::uint64_t n = 0; n < 40; ++n) trigger.sent(n, mtp(static_cast<Frame>(n), primitives));
  trigger.flush();
  unsigned total = 0;
  std::uint16_t event = 0;
  std::uint32_t sequence = 0;
  while (const auto datagram = read(boards[1].get())) {
    EXPECT_EQ(datagram->header.sequence, sequence++);
    for (const Trigger& one : datagram->triggers) EXPECT_EQ(one.event, event++);
    total += datagram->header.count;
  }
  EXPECT_EQ(total, 40 * 255U);
}

TEST_F(FinalTriggerTest, PassesLateFrames) {
  options.late = {9, 3};
  FinalTrigger trigger(options);
  EXPECT_TRUE(trigger.wants_late());
  trigger.burst_began(3, 100);
  const Packet header_only = mtp(0, {});
  const auto late = [&](std::uint64_t n, Frame frame, std::initializer_list<unsigned> periods) {
    card::FramePeriods map;
    for (const unsigned period : periods) map.set(period);
    trigger.passed_late(n, frame, map);
    trigger.sent(n, header_only);
  };
  late(100, 0, {0, 7, 9, 64, 200, 255});        // every third: 9 and 255
  trigger.sent(101, mtp(1, {{0x6000, 0, 4}}));  // the period after: dead
  late(102, 2, {70, 71});                       // none
  late(103, 3, {128});                          // the third since 255
  trigger.sent(104, mtp(4, {{0x6000, 30, 4}}));
  trigger.flush();
  for (const int fd : {farm.get(), boards[1].get()}) {
    const auto first = read(fd), second = read(fd), third = read(fd);
    ASSERT_TRUE(first && second && third);
    EXPECT_EQ(first->header, (wire::trigger::Header{0, 3, 2, 0, 0}));
    EXPECT_EQ(first->triggers, (std::vector<Trigger>{{9, 9, 0, 0}, {255, 9, 0, 1}}));
    EXPECT_EQ(second->header.frame, 3U);
    EXPECT_EQ(second->triggers, (std::vector<Trigger>{{3 * 256 + 128, 9, 0, 2}}));
    EXPECT_EQ(third->triggers, (std::vector<Trigger>{{4 * 256 + 30, 1, 4, 3}}));
    EXPECT_FALSE(read(fd));
  }
  const auto& c = trigger.counters();
  EXPECT_EQ(c.passed, 3U);
  EXPECT_EQ(c.dead, 1U);
  EXPECT_EQ(c.decisions, 5U);
  EXPECT_EQ(c.triggers + c.joined + c.dead, c.decisions);
}

TEST_F(FinalTriggerTest, SendsTheReleasesOfACard) {
  FinalTrigger trigger(options);
  const card::CardTriggerCounts counts;
  trigger.use_card(&counts);
  trigger.answered(mtp(0, {{0x6002, 10, 9}, {0x6000, 20, 1}}));
  trigger.answered(mtp(1, {{0x6000, 5, 7}}));
  trigger.released(3, 10, 1);
  trigger.released(3, 20, 2);  // another type than decided here: without fine time
  trigger.released(3, 261, 1);
  trigger.answered(mtp(0, {}));  // a new burst
  trigger.released(4, 261, 1);
  trigger.flush();
  for (const int fd : {farm.get(), boards[0].get(), boards[1].get()}) {
    const auto first = read(fd), second = read(fd), third = read(fd);
    ASSERT_TRUE(first && second && third);
    EXPECT_EQ(first->header, (wire::trigger::Header{0, 3, 2, 0, 0}));
    EXPECT_EQ(first->triggers, (std::vector<Trigger>{{10, 1, 9, 0}, {20, 2, 0, 1}}));
    EXPECT_EQ(second->header, (wire::trigger::Header{0, 3, 1, 1, 1}));
    EXPECT_EQ(second->triggers, (std::vector<Trigger>{{261, 1, 7, 2}}));
    EXPECT_EQ(third->header.burst, 4);
    EXPECT_EQ(third->triggers, (std::vector<Trigger>{{261, 1, 0, 3}}));
    EXPECT_FALSE(read(fd));
  }
  EXPECT_EQ(trigger.counters().triggers, 4U);
  EXPECT_EQ(trigger.counters().differs, 2U);
}

TEST(FinalTrigger, ANetworkThatRefusesIsCounted) {
  FinalTriggerOptions options;
  options.boards = {{0x7F000001, 0}};  // port 0 is no destination
  options.masks[0] = {0, 0, 1, 1};
  FinalTrigger trigger(options);
  trigger.sent(0, mtp(0, {{0x4000, 0, 0}}));
  trigger.flush();
  EXPECT_EQ(trigger.counters().send_errors, 1U);
}

}  // namespace
}  // namespace nanet::trigger
