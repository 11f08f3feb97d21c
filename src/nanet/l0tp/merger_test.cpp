// SPDX-License-Identifier: Apache-2.0
// Tests of the merger: order over nodes, silent nodes, bursts, and the account of a farm.
#include "nanet/l0tp/merger.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "nanet/l0tp/l0tp.hpp"

namespace nanet::l0tp {
namespace {

constexpr Nanoseconds silence = 1000;

struct Passed {
  Position at;
  bool behind;
};

class Merging : public testing::Test {
 protected:
  Merger make(unsigned nodes, Frame burst_frames = 0, std::size_t most_bytes = 1 << 20) {
    return Merger({nodes, silence, burst_frames, most_bytes},
                  [this](Position at, std::span<const std::byte>, Nanoseconds, bool behind) {
                    passed.push_back({at, behind});
                  });
  }
  std::vector<Frame> frames() const {
    std::vector<Frame> all;
    for (const Passed& p : passed)
      if (!p.behind) all.push_back(p.at.frame);
    return all;
  }
  std::vector<Passed> passed;
  std::vector<std::byte> bytes = std::vector<std::byte>(8);
};

TEST_F(Merging, AnyInterleavingLeavesInOrder) {
  std::mt19937 random(7);
  for (const unsigned nodes : {1u, 2u, 3u, 5u}) {
    passed.clear();
    Merger merger = make(nodes);
    std::vector<Frame> next(nodes);
    for (unsigned k = 0; k < nodes; ++k) next[k] = k;
    constexpr Frame end = 3000;
    for (bool any = true; any;) {
      any = false;
      const auto k = static_cast<unsigned>(random() % nodes);
      for (auto run = random() % 40; run > 0 && next[k] < end; --run, next[k] += nodes)
        merger.take(bytes, next[k], 1);
      for (const Frame frame : next) any = any || frame < end;
    }
    merger.flush();
    ASSERT_EQ(frames().size(), end);
    for (Frame frame = 0; frame < end; ++frame) ASSERT_EQ(passed[frame].at, (Position{0, frame}));
    for (unsigned k = 0; k < nodes; ++k) EXPECT_EQ(merger.node(k).silences, 0u);
  }
}

TEST_F(Merging, ALostAnswerHoldsNothingUp) {
  Merger merger = make(2);
  merger.take(bytes, 0, 1);
  merger.take(bytes, 1, 1);
  merger.take(bytes, 4, 1);  // frame 2 is lost: node 0 has gone on
  EXPECT_EQ(merger.waiting(), 1u);
  merger.take(bytes, 3, 1);
  EXPECT_EQ(frames(), (std::vector<Frame>{0, 1, 3, 4}));
  EXPECT_EQ(merger.waiting(), 0u);
}

TEST_F(Merging, ASilentNodeIsNoLongerWaitedForUntilItAnswers) {
  Merger merger = make(2);
  merger.take(bytes, 0, 10);
  merger.take(bytes, 1, 10);
  merger.take(bytes, 2, 20);
  merger.take(bytes, 4, 30);
  EXPECT_EQ(merger.waiting(), 1u);  // 2 comes before 3, which node 1 owes
  merger.advance(30 + silence - 1);
  EXPECT_FALSE(merger.node(1).silent);
  merger.advance(30 + silence);
  EXPECT_TRUE(merger.node(1).silent);
  EXPECT_EQ(merger.node(1).silences, 1u);
  EXPECT_EQ(merger.waiting(), 0u);
  merger.take(bytes, 6, 40);  // not held
  EXPECT_EQ(frames(), (std::vector<Frame>{0, 1, 2, 4, 6}));
  merger.take(bytes, 3, 50);  // behind the order
  EXPECT_TRUE(passed.back().behind);
  EXPECT_EQ(merger.node(1).returns, 1u);
  EXPECT_FALSE(merger.node(1).silent);
  merger.take(bytes, 7, 60);
  merger.take(bytes, 8, 60);
  merger.take(bytes, 10, 60);
  EXPECT_EQ(frames(), (std::vector<Frame>{0, 1, 2, 4, 6, 7, 8}));  // 10 waits for 9 again
  EXPECT_EQ(merger.waiting(), 1u);
}

TEST_F(Merging, ANodeThatNeverAnsweredIsSilentToo) {
  Merger merger = make(3);
  merger.take(bytes, 1, 10);
  merger.take(bytes, 2, 10);
  EXPECT_TRUE(passed.empty());
  merger.advance(10 + silence);
  EXPECT_EQ(frames(), (std::vector<Frame>{1, 2}));
  EXPECT_TRUE(merger.node(0).silent);
  EXPECT_FALSE(merger.node(1).silent || merger.node(2).silent);
}

TEST_F(Merging, TooManyWaitingAnswersEndTheWait) {
  Merger merger = make(2, 0, 80);
  for (Frame frame = 0; frame < 24; frame += 2) merger.take(bytes, frame, 1);
  EXPECT_TRUE(merger.node(1).silent);
  EXPECT_EQ(frames().size(), 12u);
}

TEST_F(Merging, NewBurstsAreFollowedByEachNode) {
  for (const Frame burst_frames : {Frame{0}, Frame{5000}}) {
    passed.clear();
    Merger merger = make(2, burst_frames);
    merger.take(bytes, 1, 1);
    for (Frame frame = 0; frame < 5000; frame += 2) merger.take(bytes, frame, 1);
    for (Frame frame = 0; frame < 100; frame += 2)
      merger.take(bytes, frame, 2);  // node 0 is in the next burst
    for (Frame frame = 3; frame < 5000; frame += 2) merger.take(bytes, frame, 3);
    EXPECT_EQ(passed.back().at.burst, burst_frames ? 1u : 0u);  // frame 0 needs the length to be sure of it
    for (Frame frame = 1; frame < 100; frame += 2) merger.take(bytes, frame, 4);
    merger.flush();
    ASSERT_EQ(passed.size(), 5100u);
    for (std::size_t i = 0; i < passed.size(); ++i)
      ASSERT_EQ(passed[i].at, (Position{i / 5000, static_cast<Frame>(i % 5000)}));
  }
}

TEST_F(Merging, ANodeThatComesBackIsPlacedInTheBurstOfTheOthers) {
  for (const Frame burst_frames : {Frame{0}, Frame{60'000}}) {
    passed.clear();
    Merger merger = make(2, burst_frames);
    for (Frame frame = 0; frame < 40; ++frame) merger.take(bytes, frame, 1);
    Nanoseconds now = 1;
    for (unsigned burst = 0; burst < 3; ++burst) {  // node 0 alone, through two new bursts
      for (Frame frame = burst ? 0 : 40; frame < 60'000; frame += 2) merger.take(bytes, frame, now);
      now += 2 * silence;
      merger.advance(now);
    }
    EXPECT_EQ(merger.node(1).silences, 1u);
    merger.take(bytes, 59'999, now);
    EXPECT_EQ(passed.back().at, (Position{2, 59'999}));
    merger.take(bytes, 1, now);  // and leads into the next burst
    merger.take(bytes, 0, now);
    EXPECT_EQ(passed.back().at, (Position{3, 1}));
  }
}

TEST_F(Merging, RepeatedAnswersAreCountedOnce) {
  Merger merger = make(2);
  merger.take(bytes, 0, 1);
  merger.take(bytes, 2, 1);
  merger.take(bytes, 2, 1);
  EXPECT_EQ(merger.duplicates(), 1u);
  merger.flush();
  merger.take(bytes, 0, 1);  // already passed on: the aligner finds it
  ASSERT_EQ(passed.size(), 3u);
  EXPECT_TRUE(passed.back().behind);
}

// Answers of a farm through the packet check.
class Farm : public testing::Test {
 protected:
  static std::vector<std::byte> answer(Frame frame) {
    std::vector<std::byte> bytes(wire::mtp::max_bytes);
    bytes.resize(wire::mtp::encode(bytes.data(), frame, nullptr, 0));
    return bytes;
  }
  static void expect_closed(const PacketCheck& check) {
    std::uint64_t missing = 0, frames = 0;
    for (const NodeCounters& node : check.nodes()) {
      EXPECT_EQ(node.frames_expected, node.frames + node.frames_missing);
      EXPECT_LE(node.frames_silent, node.frames_missing);
      missing += node.frames_missing;
      frames += node.frames;
    }
    EXPECT_EQ(check.counters().frames_missing, missing);
    EXPECT_EQ(check.counters().frames, frames);
  }
};

TEST_F(Farm, CountsADeadNodesFramesByItsNameAndItsReturn) {
  PacketCheck check(nullptr, nullptr, {.nodes = 3, .silence = silence});
  Nanoseconds now = 0;
  const auto feed = [&](Frame from, Frame to, bool second) {
    for (Frame frame = from; frame < to; ++frame, ++now)
      if (second || frame % 3 != 1)
        check.packet(answer(frame), now,
                     {0x0A000000 + frame % 3, static_cast<std::uint16_t>(5000 + (second && from > 0))});
    check.publish();
  };
  feed(0, 300, true);
  expect_closed(check);
  feed(300, 600, false);
  check.advance(now + silence);
  check.publish();
  EXPECT_EQ(check.nodes()[1].silent, 1u);
  EXPECT_EQ(check.nodes()[1].frames_missing, 100u);
  EXPECT_EQ(check.nodes()[1].frames_silent, 100u);
  feed(600, 900, false);
  feed(900, 1200, true);
  check.finish();
  expect_closed(check);
  EXPECT_EQ(check.nodes()[1].frames, 200u);
  EXPECT_EQ(check.nodes()[1].frames_missing, 200u);
  EXPECT_EQ(check.nodes()[1].silences, 1u);
  EXPECT_EQ(check.nodes()[1].returns, 1u);
  EXPECT_EQ(check.nodes()[1].from, std::uint64_t{0x0A000001} << 16 | 5001);
  for (const unsigned k : {0u, 2u}) {
    EXPECT_EQ(check.nodes()[k].frames, 400u);
    EXPECT_EQ(check.nodes()[k].frames_missing, 0u);
    EXPECT_EQ(check.nodes()[k].misdealt, 0u);
  }
  EXPECT_EQ(check.counters().out_of_order, 0u);
  EXPECT_EQ(check.counters().duplicates, 0u);
}

TEST_F(Farm, AnswersBehindTheOrderFillTheirGapUnlessStale) {
  PacketCheck check(nullptr, nullptr, {.nodes = 2, .silence = silence});
  for (Frame frame = 0; frame < 4000; frame += 2) check.packet(answer(frame), 0);
  check.advance(silence);
  check.packet(answer(1), 1);
  check.packet(answer(3997), 1);
  check.packet(answer(3997), 1);
  check.finish();
  expect_closed(check);
  EXPECT_EQ(check.nodes()[1].frames, 1u);
  EXPECT_EQ(check.nodes()[1].stale, 1u);
  EXPECT_EQ(check.counters().out_of_order, 1u);
  EXPECT_EQ(check.counters().duplicates, 1u);
  EXPECT_EQ(check.nodes()[1].frames_missing, 1998u);  // 1 to 3995; 3999 is not yet expected
}

TEST_F(Farm, AnotherNumberOfNodesThanTheBoardsIsNoticed) {
  PacketCheck check(nullptr, nullptr, {.nodes = 3, .silence = silence});
  for (Frame frame = 0; frame < 60; ++frame)
    check.packet(answer(frame), 0, {0x0A000000 + frame % 2, 5000});  // two nodes
  check.finish();
  EXPECT_GT(check.nodes()[2].misdealt, 0u);
}

TEST_F(Farm, FramesAfterTheLastAnswerAreCountedByTheirSendTimes) {
  const std::string path = testing::TempDir() + "nanet-farm-times-" + std::to_string(getpid());
  for (const unsigned answered : {0u, 1u}) {
    readout::TimesWriter times(path, 250);
    for (std::uint64_t frame = 0; frame < 225; ++frame) times.packet(frame, 5);
    readout::TimesReader reader(path);
    reader.refresh();
    PacketCheck check(nullptr, &reader, {.nodes = 2, .silence = silence, .burst_frames = 100});
    if (answered)  // node 1 in the first burst and half of the second
      for (Frame frame = 3; frame < 150; frame += 2) check.packet(answer(frame % 100), 10);
    check.finish();
    expect_closed(check);
    EXPECT_EQ(check.nodes()[0].frames_expected, 113u);
    EXPECT_EQ(check.nodes()[1].frames_expected, 112u);
    EXPECT_EQ(check.nodes()[0].frames_missing, 113u);
    EXPECT_EQ(check.nodes()[1].frames, answered ? 74u : 0u);
  }
  std::filesystem::remove(path);
}

TEST_F(Farm, OneNodeIsAFarmToo) {
  PacketCheck check(nullptr, nullptr, MergerOptions{});
  for (const Frame frame : {0u, 1u, 2u, 5u, 4u, 2000u, 0u, 3u}) check.packet(answer(frame), 0);
  check.finish();
  expect_closed(check);
  EXPECT_EQ(check.nodes()[0].frames, 8u);
  EXPECT_EQ(check.counters().bursts, 2u);
}

}  // namespace
}  // namespace nanet::l0tp
