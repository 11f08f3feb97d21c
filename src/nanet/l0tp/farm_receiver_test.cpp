// SPDX-License-Identifier: Apache-2.0
// Tests of the farm: events from trigger datagrams and MEPs, every bad answer, share of true events kept.
#include "nanet/l0tp/farm_receiver.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <system_error>

#include "nanet/os/socket.hpp"

namespace nanet::l0tp {
namespace {

using Bytes = std::vector<std::byte>;
using wire::trigger::Trigger;

Bytes triggers(std::uint8_t burst, std::uint32_t sequence, const std::vector<Trigger>& list) {
  Bytes bytes(wire::trigger::max_bytes);
  bytes.resize(wire::trigger::encode(bytes.data(), {0, burst, 0, sequence, list.at(0).timestamp >> 8}, list));
  return bytes;
}

Bytes answer(std::uint8_t board, std::uint32_t number, Timestamp timestamp, std::size_t bytes = 10) {
  std::array<std::byte, wire::mep::max_bytes> buffer;
  wire::mep::Writer writer(buffer, rich_source, board);
  const Bytes data(bytes);
  EXPECT_TRUE(writer.add({number, timestamp, false, data}));
  const auto packet = writer.finish();
  return {packet.begin(), packet.end()};
}

TEST(FarmCheck, CountsEventsAndEveryBadAnswer) {
  FarmCheck farm({.boards = 2, .open = 16, .truth = {}});
  farm.triggers(triggers(1, 0, {{100, 1, 0, 0xFFFF}, {110, 1, 0, 0}, {120, 1, 0, 1}}));
  farm.triggers(triggers(1, 3, {{300, 1, 0, 2}}));  // after two lost datagrams
  farm.triggers(triggers(1, 3, {{300, 1, 0, 2}}));  // again
  farm.triggers(Bytes(3));
  farm.answers(answer(0, 0xFFFFFF, 100));
  farm.answers(answer(1, 0xFFFFFF, 100));
  farm.answers(answer(1, 0xFFFFFF, 100));  // twice
  farm.answers(answer(0, 0, 110, 0));
  farm.answers(answer(1, 0, 110, 0));  // complete, without a fragment
  farm.answers(answer(0, 1, 121));     // at another time
  farm.answers(answer(0, 9, 100));     // never triggered
  farm.answers(answer(2, 2, 300));     // a board that does not exist
  farm.answers(answer(0, 2, 300));     // board 1 never answers
  farm.finish();
  farm.answers(answer(1, 2, 300));  // after the event was given up
  const FarmCheck::Counts c = farm.counts();
  EXPECT_EQ(c.events.triggered, 4U);
  EXPECT_EQ(c.events.complete, 2U);
  EXPECT_EQ(c.events.incomplete, 2U);
  EXPECT_EQ(c.events.twice, 1U);
  EXPECT_EQ(c.events.untriggered, 2U);
  EXPECT_EQ(c.events.wrong_time, 1U);
  EXPECT_EQ(c.events.empty, 1U);
  EXPECT_EQ(c.events.bytes, 30U);
  EXPECT_EQ(c.refused_packets[static_cast<std::size_t>(wire::mep::Refusal::bad_board)], 1U);
  EXPECT_EQ(c.refused_datagrams[static_cast<std::size_t>(wire::trigger::Refusal::short_header)], 1U);
  EXPECT_EQ(c.datagrams_lost, 2U);
  EXPECT_EQ(c.datagrams_out_of_order, 1U);
  EXPECT_EQ(c.answers, (std::vector<std::uint64_t>{3, 2}));
}

TEST(FarmCheck, ComparesKeptEventsWithTheTruthByRings) {
  // A pool of two frames: single rings at periods 10 and 300, a double ring at 50.
  const std::vector<std::uint16_t> bursts(2);
  const std::vector<Timestamp> one = {10, 300}, two = {50};
  const std::vector<FineTime> fine = {7, 7};
  FarmOptions options{.boards = 1, .open = 16, .truth = {}};
  options.truth[0] = std::make_shared<TruthTable>(std::span(bursts).first(0), std::span(one).first(0),
                                                  std::span(fine).first(0), 2);
  options.truth[1] = std::make_shared<TruthTable>(bursts, one, fine, 2);
  options.truth[2] =
      std::make_shared<TruthTable>(std::span(bursts).first(1), two, std::span(fine).first(1), 2);
  FarmCheck farm(options);
  // Burst 1: frames 0 to 3 hold the events of the pool twice. Burst 2: frame 0 only.
  const std::vector<std::pair<std::uint8_t, Timestamp>> all = {{1, 10},       {1, 50},  {1, 300},
                                                               {1, 512 + 50}, {1, 812}, {2, 50}};
  std::uint16_t number = 0;
  for (const auto& [burst, time] : all) {
    farm.triggers(triggers(burst, number, {{time, 1, 7, number}}));
    if (number != 2) farm.answers(answer(0, number, time));
    ++number;
  }
  farm.finish();
  const FarmCheck::Counts c = farm.counts();
  EXPECT_EQ(c.events.incomplete, 1U);
  EXPECT_EQ(c.kept[1].expected, 5U);  // 10, 300, 522, 812; 10 of burst 2
  EXPECT_EQ(c.kept[1].kept, 2U);      // 10, 812
  EXPECT_EQ(c.kept[2].expected, 3U);
  EXPECT_EQ(c.kept[2].kept, 3U);
}

TEST(FarmReceiver, TakesTriggersAndAnswersAtTwoPorts) {
  std::unique_ptr<FarmReceiver> farm;
  FarmOptions options{.boards = 1, .open = 128, .truth = {}};
  while (!farm) {  // until the next port is free, too
    os::Fd any = os::open_udp_receiver({0x7F000001, 0}, {});
    options.listen = os::local_endpoint(any.get());
    any = {};
    try {
      farm = std::make_unique<FarmReceiver>(options);
    } catch (const std::system_error&) {
    }
  }
  farm->start();
  const os::Fd events = os::open_udp_sender(farm->endpoint());
  const os::Fd datagrams =
      os::open_udp_sender({farm->endpoint().address, static_cast<std::uint16_t>(farm->endpoint().port + 1)});
  for (std::uint16_t i = 0; i < 100; ++i) {
    const Bytes trigger = triggers(0, i, {{i, 1, 0, i}}), event = answer(0, i, i);
    ASSERT_GT(::send(datagrams.get(), trigger.data(), trigger.size(), 0), 0);
    ASSERT_GT(::send(events.get(), event.data(), event.size(), 0), 0);
  }
  farm->stop();  // what has arrived is taken first
  EXPECT_EQ(farm->counts().events.complete, 100U);
  EXPECT_EQ(farm->counts().events.untriggered, 0U);
  EXPECT_THROW(FarmReceiver(FarmOptions{.listen = {0x7F000001, 9}, .boards = 9, .truth = {}}),
               std::exception);
}

}  // namespace
}  // namespace nanet::l0tp
