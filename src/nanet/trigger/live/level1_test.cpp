// SPDX-License-Identifier: Apache-2.0
// Tests of level 1: the rings of the trigger's event, every bad answer, hostile data.
#include "nanet/trigger/live/level1.hpp"

#include <gtest/gtest.h>

#include <random>

#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

Bytes answer(BoardId board, std::uint32_t number, Timestamp timestamp, std::span<const std::byte> data = {}) {
  std::array<std::byte, wire::mep::max_bytes> buffer;
  wire::mep::Writer writer(buffer, rich_source, board);
  EXPECT_TRUE(writer.add({number, timestamp, false, data}));
  const auto packet = writer.finish();
  return {packet.begin(), packet.end()};
}

// Random events of four boards, answered for each period in which the trigger saw one: level 1 finds the
// rings of the trigger, though neighbouring periods have events, too.
TEST(Level1, ReconstructsTheEventsOfTheTrigger) {
  Level1Builder level1({});
  FrameBuilder builder(8192, 4);
  const auto algorithm = rich::make_reconstructor(rich::default_algorithm, {}, *rich::na62());
  std::mt19937 random{8};
  std::uint32_t number = 0;
  std::array<std::uint64_t, rich::max_rings + 1> by_rings{};
  for (Frame frame = 0; frame < 20; ++frame) {
    std::array<std::vector<TestEvent>, 4> fragments;
    for (unsigned time = 100; time < 65'400; time += 120 + static_cast<unsigned>(random() % 1500))
      for (unsigned b = 0; b < 4; ++b) {
        TestEvent event{static_cast<std::uint16_t>(time + random() % 20), {}};
        const unsigned first = 512 * b + static_cast<unsigned>(random() % 300);
        for (unsigned i = 0; i < 5; ++i) event.hits.push_back({first + 20 * i, 0});
        fragments[b].push_back(event);
      }
    Bytes together(4 * 8192 + contract::tail_bytes);  // segments of one region
    std::array<Segment, 4> segments;
    for (unsigned b = 0; b < 4; ++b) {
      const Bytes packet = mgp_packet(b, frame, 0, fragments[b]);
      std::copy(packet.begin(), packet.end(), together.begin() + b * 8192);
      segments[b] = {together.data() + b * 8192, packet.size()};
    }
    const BuiltFrame& built = builder.build(segments);
    std::vector<rich::Rings> rings(built.events);
    (*algorithm)(built.batch(), rings.data());
    Timestamp last = 0;
    for (std::uint32_t k = 0; k < built.events; ++k) {
      const std::uint32_t i = built.order[k];
      const Timestamp t = frame << 8 | built.time[i] >> 8;
      ++by_rings[rings[i].count];
      if (k > 0 && t == last) continue;  // one trigger per period
      last = t;
      for (unsigned b = 0; b < 4; ++b) {
        Bytes data;
        const auto header = wire::mgp::decode_header(segments[b].at);
        wire::mgp::FragmentReader reader(segments[b].at, segments[b].bytes, header);
        for (wire::mgp::Fragment f; reader.next(f);)
          if (f.timestamp + 1 >= t && f.timestamp <= t + 1)
            data.insert(data.end(), f.hits - 8, f.hits + 2 * f.stored);
        level1.packet(answer(static_cast<BoardId>(b), number, t, data));
      }
      ++number;
    }
  }
  level1.finish();
  EXPECT_GT(number, 1000U);
  EXPECT_EQ(level1.counts().complete, number);
  EXPECT_EQ(level1.counts().incomplete + level1.counts().bad_data + level1.counts().empty, 0U);
  EXPECT_EQ(level1.counts().by_rings, by_rings);
}

TEST(Level1, BadAnswersAreCountedByName) {
  Level1Options options;
  options.rules.boards = 0x3;
  options.open = 16;
  Level1Builder level1(options);
  level1.packet(answer(0, 5, 100));
  level1.packet(answer(0, 5, 100));  // twice
  level1.packet(answer(1, 5, 101));  // another time
  level1.packet(answer(1, 5, 100));  // complete, without a fragment
  level1.packet(answer(1, 5, 100));  // twice
  level1.packet(answer(0, 6, 100));  // board 1 never answers
  level1.packet(answer(0, 22, 100));
  level1.packet(answer(1, 6, 100));  // given up before
  level1.packet(answer(3, 6, 100));  // no such board
  level1.packet(Bytes(3));
  // Data that are no MGP events: cut short; more hits than a fragment has; a PM of another board.
  std::uint32_t number = 30;
  Bytes event(10);
  wire::mgp::store<Timestamp>(event.data(), 100);
  event[5] = event[6] = std::byte{1};
  for (const int wrong : {0, 1, 2}) {
    Bytes data = event;
    if (wrong == 0) data.resize(9);
    if (wrong == 1) data[5] = std::byte{200};
    if (wrong == 2) wire::mgp::store<std::uint16_t>(data.data() + 8, 700);
    level1.packet(answer(0, number, 100, data));
    level1.packet(answer(1, number++, 100));
  }
  level1.packet(answer(0, number, 100, event));
  level1.packet(answer(1, number, 100));
  level1.finish();
  const auto& c = level1.counts();
  EXPECT_EQ(c.complete, 5U);
  EXPECT_EQ(c.incomplete, 2U);
  EXPECT_EQ(c.twice, 2U);
  EXPECT_EQ(c.wrong_time, 1U);
  EXPECT_EQ(c.stale, 1U);
  EXPECT_EQ(c.empty, 4U);
  EXPECT_EQ(c.bad_data, 3U);
  EXPECT_EQ(c.events, 1U);
  EXPECT_EQ(c.refused[static_cast<std::size_t>(wire::mep::Refusal::bad_board)], 1U);
  EXPECT_EQ(c.refused[static_cast<std::size_t>(wire::mep::Refusal::short_header)], 1U);
}

TEST(Level1, AnyBytesAreSafe) {
  Level1Builder level1({});
  std::mt19937 random{11};
  for (std::uint32_t i = 0; i < 4000; ++i) {
    Bytes data(random() % 200);
    for (std::byte& b : data) b = static_cast<std::byte>(random() % (random() % 3 ? 4 : 256));
    for (BoardId b = 0; b < 4; ++b) level1.packet(answer(b, i, random() % 4, data));
    level1.packet(data);
  }
  level1.finish();
  EXPECT_EQ(level1.counts().packets, 20'000U);
}

}  // namespace
}  // namespace nanet::trigger
