// SPDX-License-Identifier: Apache-2.0
// Tests of the final trigger in software: latency table, fragment store, farm, and the loop of the three.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "nanet/ttc/board.hpp"
#include "nanet/ttc/decisions.hpp"
#include "nanet/ttc/farm.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::ttc {
namespace {

using wire::trigger::Trigger;

TEST(LatencyTable, AnswersAtTPlusLOnly) {
  LatencyTable table(1000);
  std::vector<Timestamp> answered;
  Timestamp now = 0;
  const auto run = [&](Timestamp to) {
    for (; now < to; ++now)
      table.advance(now, [&](const LatencyTable::Due& due) {
        EXPECT_EQ(now, due.trigger.timestamp + 1000);
        answered.push_back(due.trigger.timestamp);
      });
  };
  table.accept(1, {5, 1, 0, 0}, 0, 10);  // no burst yet
  table.begin(1);
  run(500);
  table.accept(1, {400, 1, 0, 0}, 1, now);
  table.accept(1, {400, 2, 0, 0}, 2, now);  // the same period
  table.accept(1, {300, 1, 0, 0}, 3, now);
  table.accept(1, {501, 1, 0, 0}, 4, now);  // still to come
  table.accept(2, {300, 1, 0, 0}, 5, now);  // another burst
  run(3000);
  EXPECT_EQ(answered, (std::vector<Timestamp>{300, 400}));
  table.accept(1, {2000, 1, 0, 0}, 6, now);  // due now: late
  table.accept(1, {2001, 1, 0, 0}, 7, now);
  run(3100);
  EXPECT_EQ(answered.back(), 2001U);
  table.accept(1, {3000, 1, 0, 0}, 8, now);
  table.begin(2);
  table.accept(1, {0, 1, 0, 0}, 9, 5);
  table.lose();
  table.accept(2, {0, 1, 0, 0}, 10, 5);
  EXPECT_EQ(table.counts(), (LatencyTable::Counts{11, 3, 1, 1, 1, 4, 1}));
  EXPECT_TRUE(table.counts().balanced());
}

TEST(LatencyTable, RandomTriggersEachHaveOneOutcome) {
  std::mt19937 random{3};
  for (const Timestamp latency : {1U, 63U, 64U, 5000U}) {
    LatencyTable table(latency);
    std::map<Timestamp, unsigned> held;
    Timestamp now = 0;
    table.begin(0);
    for (int i = 0; i < 20'000; ++i) {
      now += random() % 4 ? static_cast<Timestamp>(random() % 7)
                          : static_cast<Timestamp>(random()) % (2 * latency);  // the reader may be late
      table.advance(now, [&](const LatencyTable::Due& due) {
        ASSERT_LE(due.trigger.timestamp + latency, now);
        ASSERT_EQ(held.begin()->first, due.trigger.timestamp);  // in order, none twice, none lost
        ASSERT_EQ(held.begin()->second, due.trigger.kind);
        held.erase(held.begin());
      });
      const Timestamp back = static_cast<Timestamp>(random()) % (latency + 10);
      if (back > now) continue;
      const Trigger trigger{now - back, static_cast<std::uint8_t>(1 << random() % 6), 0, 0};
      if (back < latency) held[trigger.timestamp] |= trigger.kind;
      table.accept(0, trigger, 0, now);
    }
    EXPECT_EQ(table.counts().early + table.counts().untimed, 0U);
    table.advance(now + latency, [&](const LatencyTable::Due&) { held.erase(held.begin()); });
    EXPECT_TRUE(held.empty());
    EXPECT_TRUE(table.counts().balanced());
  }
  EXPECT_THROW(LatencyTable(0), std::invalid_argument);
  EXPECT_THROW(LatencyTable(1U << 27), std::invalid_argument);
}

// Packet of one frame with fragments of so many hits at the given times.
struct Packet {
  explicit Packet(Frame frame) : writer(bytes.data(), bytes.size(), header(frame)) {}
  Packet& add(Timestamp t, unsigned hits) {
    const std::array<std::uint16_t, 32> words{};
    EXPECT_TRUE(writer.add(t, 0, std::span(words).first(hits), static_cast<std::uint8_t>(hits)));
    return *this;
  }
  std::span<const std::byte> done() { return {bytes.data(), writer.finish()}; }
  static wire::mgp::Header header(Frame frame) {
    wire::mgp::Header header;
    header.frame = frame;
    return header;
  }
  std::array<std::byte, 1472> bytes{};
  wire::mgp::PacketWriter writer;
};

TEST(FragmentStore, KeepsFragmentsForTheLatency) {
  FragmentStore store(1000, 65'536);
  store.begin();
  std::array<std::byte, wire::mep::max_bytes> out;
  std::mt19937 random{4};
  for (Frame frame = 0; frame < 400; ++frame) {
    const Timestamp begin = frame * 256;
    Packet first(frame), second(frame);  // 8 hits at every third period, 2 more at every ninth
    for (Timestamp t = begin; t < begin + 256; ++t)
      if (t % 3 == 0) (t < begin + 128 ? first : second).add(t, 8);
    for (Timestamp t = begin; t < begin + 256; ++t)
      if (t % 9 == 0) second.add(t, 2);
    ASSERT_TRUE(store.put(first.done()));
    ASSERT_TRUE(store.put(second.done()));
    if (frame < 4) continue;
    const Timestamp old = begin + 255 - static_cast<Timestamp>(random() % 1000);
    const std::size_t bytes = old % 3 ? 0U : old % 9 ? 24U : 36U;
    ASSERT_EQ(store.get(old, old, out), bytes) << frame << ' ' << old;
    if (bytes) {
      ASSERT_EQ(wire::mgp::load<Timestamp>(out.data()), old);
    }
    // Three neighbours hold a multiple of 3, across the edge of a frame too.
    ASSERT_EQ(store.get(begin - 1, begin + 1, out), (begin + 1) / 3 * 3 % 9 ? 24U : 36U);
  }
  EXPECT_EQ(store.counts().refused + store.counts().overwritten, 0U);
  EXPECT_EQ(store.get(399 * 256, 399 * 256 + 255, std::span(out).first(100)), 96U);
  EXPECT_GT(store.counts().no_room, 0U);
}

TEST(FragmentStore, PacketsOfAFrameMayComeApart) {
  FragmentStore store(100'000, 65'536);
  store.begin();
  std::array<std::byte, wire::mep::max_bytes> out;
  for (Frame frame = 0; frame < 2000; ++frame) {
    ASSERT_TRUE(store.put(Packet(frame).add(frame * 256, 8).done()));
    if (frame == 0) continue;
    ASSERT_TRUE(store.put(Packet(frame - 1).add(frame * 256 - 1, 4).done()));
    ASSERT_EQ(store.get(frame * 256 - 256, frame * 256 - 1, out), 40U);
  }
  EXPECT_EQ(store.counts().refused, 0U);
}

TEST(FragmentStore, OverwrittenFramesAreCounted) {
  std::array<std::byte, wire::mep::max_bytes> out;
  // Memory too small for the time.
  FragmentStore little(100'000, 65'536);
  little.begin();
  for (Frame frame = 0; frame < 300; ++frame) {
    Packet packet(frame);
    for (unsigned i = 0; i < 20; ++i) packet.add(frame * 256 + i, 8);
    ASSERT_TRUE(little.put(packet.done()));
  }
  EXPECT_EQ(little.get(5, 5, out), 0U);
  EXPECT_EQ(little.counts().overwritten, 1U);
  // A later frame in the place of an earlier one; an earlier one is none.
  FragmentStore store(1000, 65'536);
  store.begin();
  store.put(Packet(3).add(3 * 256, 1).done());
  store.put(Packet(3 + 1024).add((3 + 1024) * 256, 1).done());
  EXPECT_EQ(store.get(3 * 256, 3 * 256, out), 0U);
  EXPECT_EQ(store.counts().overwritten, 1U);
  EXPECT_EQ(store.get((3 + 2048) * 256, (3 + 2048) * 256, out), 0U);
  EXPECT_EQ(store.counts().overwritten, 1U);
  // Another burst begins at period 0.
  store.begin();
  EXPECT_EQ(store.get((3 + 1024) * 256, (3 + 1024) * 256, out), 0U);
  EXPECT_FALSE(store.put(std::vector<std::byte>(10)));
  EXPECT_FALSE(store.put(std::vector<std::byte>(9000)));
  EXPECT_EQ(store.counts().refused, 2U);
  EXPECT_THROW(FragmentStore(10, 100), std::invalid_argument);
}

TEST(Decisions, EveryDecisionHasOneOutcome) {
  std::array<TriggerMask, Masks::count> masks{};
  masks[0] = {0x3000, 0x2000, 0x01, 1};
  masks[1] = {0, 0, 0x02, 7};
  Decisions decisions(masks, 5);
  std::mt19937 random{5};
  Lsb last = -5;
  std::uint64_t triggers = 0;
  for (Frame frame = 0; frame < 2000; ++frame) {
    if (frame == 1000) {
      decisions.begin();
      last = -5;
    }
    std::vector<wire::mtp::TimedPrimitive> primitives;
    for (Lsb time = Lsb{frame} * lsb_per_frame; time < Lsb{frame + 1} * lsb_per_frame;
         time += random() % 2000)
      primitives.push_back({time, static_cast<std::uint16_t>(0x4000 | (random() & 0x3FFF))});
    if (frame % 10 == 0) primitives.push_back({(Lsb{frame} + 1) * lsb_per_frame, 0x6000});
    for (const Trigger& trigger : decisions.frame(frame, primitives)) {
      ASSERT_EQ(trigger.timestamp >> 8, frame);
      ASSERT_EQ(trigger.event, static_cast<std::uint16_t>(triggers++));
      ASSERT_GE(Lsb{trigger.timestamp} - last, 5);
      last = trigger.timestamp;
    }
  }
  const Decisions::Counts& c = decisions.counts();
  EXPECT_EQ(c.sent, triggers);
  EXPECT_EQ(c.decisions, c.sent + c.joined + c.dead);
  EXPECT_GT(c.joined, 0U);
  EXPECT_GT(c.dead, 0U);
  EXPECT_EQ(c.outside, 200U);
}

// Four boards and a farm; datagrams take `delay` periods to each board.
struct Loop {
  static constexpr unsigned boards = 4;
  static constexpr Timestamp latency = 40'000;  // 1 ms
  struct Board {
    LatencyTable table{latency};
    FragmentStore store{latency + 1000, 1 << 20};
    std::deque<std::pair<Timestamp, std::vector<std::byte>>> wire;  // arrival, datagram
    std::array<std::byte, wire::mep::max_bytes> buffer{};
    bool dead = false;
  };
  std::array<Board, boards> all;
  Farm farm{boards};
  std::mt19937 random{7};
  std::uint64_t wrong_bytes = 0;

  void run(Timestamp periods, const auto& delay) {
    std::uint32_t number = 0, sequence = 0;
    std::vector<Trigger> triggers;
    std::optional<Packet> events;  // of the frame
    for (Board& b : all) {
      b.table.begin(1);
      b.store.begin();
    }
    for (Timestamp now = 0; now < periods; ++now) {
      // Events of this period, seen by every board, and the decision for one in ten.
      if (now % 256 == 0) events.emplace(now / 256);
      if (random() % 8 == 0 && now + latency + 5000 < periods) {
        events->add(now, 4);
        if (random() % 10 == 0) {
          triggers.push_back({now, 1, 0, static_cast<std::uint16_t>(number)});
          farm.triggered(number++, now);
        }
      }
      if (now % 256 == 255) {
        for (Board& b : all) ASSERT_TRUE(b.store.put(events->done()));
        std::array<std::byte, wire::trigger::max_bytes> bytes;
        const auto size = wire::trigger::encode(bytes.data(), {0, 1, 0, sequence++, now >> 8}, triggers);
        for (Board& b : all)
          b.wire.emplace_back(now + delay(random), std::vector(bytes.begin(), bytes.begin() + size));
        triggers.clear();
      }
      for (unsigned b = 0; b < boards; ++b) {
        Board& board = all[b];
        if (board.dead) continue;
        while (!board.wire.empty() && board.wire.front().first <= now) {
          wire::trigger::Header header;
          std::array<Trigger, wire::trigger::max_triggers> out;
          ASSERT_EQ(wire::trigger::decode(board.wire.front().second, header, out.data()),
                    wire::trigger::Refusal::none);
          for (unsigned i = 0; i < header.count; ++i)
            board.table.accept(header.burst, out[i], (number & ~0xFFFFU) | out[i].event, now);
          board.wire.pop_front();
        }
        wire::mep::Writer writer(board.buffer, rich_source, static_cast<std::uint8_t>(b));
        board.table.advance(now, [&](const LatencyTable::Due& due) {
          std::array<std::byte, wire::mep::max_bytes> data;
          const std::size_t size = board.store.get(due.trigger.timestamp, due.trigger.timestamp, data);
          wrong_bytes += size != 16;
          ASSERT_TRUE(writer.add({due.number, due.trigger.timestamp, false, std::span(data).first(size)}));
        });
        if (const auto packet = writer.finish(); !packet.empty()) {
          ASSERT_EQ(farm.receive(packet), wire::mep::Refusal::none);
        }
      }
    }
    farm.end();
  }
};

TEST(FinalLoop, EveryBoardAnswersEveryTriggerOnce) {
  Loop loop;
  loop.run(500'000, [](auto& random) { return 5000 + random() % 20'000; });
  const Farm::Counts& counts = loop.farm.counts();
  EXPECT_GT(counts.triggered, 4000U);
  EXPECT_EQ(counts.complete, counts.triggered);
  EXPECT_EQ(counts.incomplete + counts.twice + counts.untriggered + counts.wrong_time + counts.refused, 0U);
  EXPECT_EQ(loop.wrong_bytes, 0U);
  for (const auto& board : loop.all) EXPECT_EQ(board.table.counts().late, 0U);
}

TEST(FinalLoop, LateTriggersAreCountedAndNeverAnswered) {
  Loop loop;
  loop.run(300'000, [](auto& random) { return random() % 4 ? 1000U : 45'000U; });
  const Farm::Counts& counts = loop.farm.counts();
  std::uint64_t late = 0;
  for (const auto& board : loop.all) {
    late += board.table.counts().late;
    EXPECT_TRUE(board.table.counts().balanced());
  }
  EXPECT_GT(late, 0U);
  EXPECT_EQ(counts.complete + counts.incomplete, counts.triggered);
  EXPECT_GT(counts.incomplete, 0U);
  EXPECT_EQ(counts.twice + counts.untriggered + counts.wrong_time, 0U);
}

TEST(FinalLoop, ADeadBoardLeavesEventsIncomplete) {
  Loop loop;
  loop.all[2].dead = true;
  loop.run(200'000, [](auto&) { return 1000U; });
  EXPECT_EQ(loop.farm.counts().complete, 0U);
  EXPECT_EQ(loop.farm.counts().incomplete, loop.farm.counts().triggered);
  EXPECT_EQ(loop.farm.answers()[2], 0U);
}

TEST(Farm, AnswersThatBelongToNoTriggerAreCounted) {
  Farm farm(2, 16);
  std::array<std::byte, wire::mep::max_bytes> buffer;
  const auto answer = [&](std::uint8_t board, std::uint32_t number, Timestamp timestamp) {
    wire::mep::Writer writer(buffer, rich_source, board);
    writer.add({number, timestamp, false, {}});
    farm.receive(writer.finish());
  };
  farm.triggered(3, 100);
  answer(0, 3, 100);
  answer(0, 3, 100);  // twice
  answer(1, 3, 101);  // wrong time
  answer(1, 4, 100);  // not triggered
  answer(1, 3, 100);
  EXPECT_EQ(farm.counts().complete, 1U);
  EXPECT_EQ(farm.counts().twice, 1U);
  EXPECT_EQ(farm.counts().wrong_time, 1U);
  EXPECT_EQ(farm.counts().untriggered, 1U);
  farm.receive({});
  EXPECT_EQ(farm.counts().refused, 1U);
  EXPECT_THROW(Farm(9), std::invalid_argument);
  EXPECT_THROW(Farm(2, 3), std::invalid_argument);
}

}  // namespace
}  // namespace nanet::ttc
