// SPDX-License-Identifier: Apache-2.0
// Tests of bursts: begin, end, two open bursts, and the common numbering.
#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::card {
namespace {

std::vector<Event> only(const std::vector<Event>& events, EventType type) {
  std::vector<Event> got;
  for (const Event& e : events)
    if (e.type == static_cast<std::uint8_t>(type)) got.push_back(e);
  return got;
}

TEST(Burst, JoinedWithoutSobOwesFromTheFirstFrameSeen) {
  Rig rig;
  rig.feed({.board = 2, .frame = 70'000, .sequence = 1234});
  rig.feed({.board = 1, .frame = 69'999, .sequence = 1234});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 0u);
  rig.feed({.board = 1, .frame = 70'001});
  const auto begins = rig.take();
  ASSERT_EQ(begins.size(), 1u);
  EXPECT_EQ(begins[0].type, static_cast<std::uint8_t>(EventType::burst_begins));
  EXPECT_EQ(begins[0].frame, first_burst);
  EXPECT_EQ(begins[0].buffer, 0u);
  EXPECT_EQ(begins[0].bytes, 0u);
  EXPECT_EQ(rig.stream.counters().frames_skipped, 0u);
  rig.expire(rig.now + 2000);
  const auto events = rig.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].n, 70'000u);  // n = base + frame holds here too
  EXPECT_EQ(events[0].buffer, 70'000u % 4096);
  EXPECT_EQ(rig.missing(), 0);
  rig.finish();
  ASSERT_EQ(rig.transmit.sent.size(), 2u);
  EXPECT_EQ(rig.transmit.sent[0].frame, 70'000u);
}

TEST(Burst, WithSobOwesFromFrameZero) {
  Rig rig;
  rig.sob(2);
  rig.feed({.board = 1, .frame = 5, .sequence = 17});
  EXPECT_EQ(rig.stream.counters().frames_in, 6u);
  rig.finish();
  EXPECT_EQ(rig.transmit.sent.size(), 6u);
}

TEST(Burst, EndsWithEobOfAllBoards) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.eobs(2, first_burst, 3);
  rig.expire(rig.now + 50'000);
  EXPECT_TRUE(only(rig.take(), EventType::burst_ends).empty());
  rig.eob(3, 2);
  EXPECT_EQ(rig.stream.counters().frames_in, 3u);  // 1 and 2 need answers, even without a packet
  EXPECT_TRUE(only(rig.take(), EventType::burst_ends).empty());
  rig.feed({.board = 0, .frame = 1});
  rig.feed({.board = 0, .frame = 3});
  EXPECT_EQ(rig.lost(Lost::late), 1u);  // beyond the last frame
  rig.expire(rig.now + 1000);
  const auto events = rig.take();
  const auto ends = only(events, EventType::burst_ends);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].frame, 2u);
  EXPECT_EQ(ends[0].n, 2u);
  EXPECT_EQ(events.back().type, static_cast<std::uint8_t>(EventType::burst_ends));
  rig.sob(0);
  rig.eob(1, 2);
  EXPECT_EQ(rig.lost(Lost::late), 3u);  // the burst is over
  EXPECT_EQ(rig.stream.counters().burst_markers, 8u);
  rig.finish();
}

TEST(Burst, LastFrameIsTheLargestThatTwoBoardsGive) {
  const auto last = [](std::vector<Frame> said) {
    ClopOptions options = rig_options();
    options.rules.boards = static_cast<std::uint8_t>((1u << said.size()) - 1);
    Rig rig(options);
    for (std::size_t b = 0; b < said.size(); ++b) rig.sob(static_cast<BoardId>(b));
    for (std::size_t b = 0; b < said.size(); ++b) rig.eob(static_cast<BoardId>(b), said[b]);
    rig.expire(rig.now + 5000);
    Frame frame = ~0u;
    for (const Event& e : rig.take())
      if (e.type == static_cast<std::uint8_t>(EventType::burst_ends)) frame = e.frame;
    EXPECT_EQ(rig.stream.counters().frames_in, frame + 1);
    rig.finish();
    return frame;
  };
  EXPECT_EQ(last({7}), 7u);
  EXPECT_EQ(last({7, 7}), 7u);
  EXPECT_EQ(last({7, 7, 900, 3}), 7u);
  EXPECT_EQ(last({9, 3, 9, 3}), 9u);
  EXPECT_EQ(last({3, 3, 3, 8}), 3u);
}

TEST(Burst, EndsAfterSilence) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.now += 7;
  rig.feed({.board = 0, .frame = 1});
  const Nanoseconds last = rig.now;
  rig.stream.receiver().expire(last + 99'999);
  EXPECT_TRUE(only(rig.take(), EventType::burst_ends).empty());
  rig.stream.receiver().expire(last + 100'000);
  const auto ends = only(rig.take(), EventType::burst_ends);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].frame, 1u);
  rig.feed({.board = 1, .frame = 2});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  rig.finish();
}

TEST(Burst, EndsAtDrainWithTheLastFrameSeen) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.eob(1, 500);
  rig.feed({.board = 0, .frame = 4});
  rig.stream.receiver().drain(rig.now);
  const auto events = rig.take();
  const auto ends = only(events, EventType::burst_ends);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].frame, 4u);
  EXPECT_EQ(only(events, EventType::receive_done).size(), 5u);
  rig.finish();
}

TEST(Burst, NewOneBeginsWithItsSecondPacket) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 0, .burst = first_burst + 1, .sequence = 1});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.stream.counters().bursts, 1u);
  rig.feed({.board = 1, .frame = 1});  // the old burst continues
  EXPECT_EQ(rig.stream.counters().frames_in, 2u);
  rig.feed({.board = 0, .frame = 1, .burst = first_burst + 1, .sequence = 2});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.stream.counters().bursts, 2u);
  rig.finish();
}

TEST(Burst, SobAsFirstPacketIsKept) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.sob(3, first_burst + 1);
  EXPECT_EQ(rig.stream.counters().bursts, 1u);
  rig.feed({.board = 0, .frame = 2, .burst = first_burst + 1, .sequence = 3});
  EXPECT_EQ(rig.stream.counters().bursts, 2u);
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 0u);
  EXPECT_EQ(rig.stream.counters().burst_markers, 5u);
  EXPECT_EQ(rig.stream.counters().frames_in, 1u + 3u);  // the SOB makes an answer to frame 0 necessary
  rig.feed({.board = 3, .frame = 2, .burst = first_burst + 1, .sequence = 3});
  EXPECT_EQ(rig.missing(), 2);  // its SOB was number 0
  rig.finish();
}

TEST(Burst, NumbersUpTo127AheadAreNewOthersLate) {
  for (const auto& [from, to, is_new] : std::vector<std::tuple<int, int, bool>>{{7, 8, true},
                                                                                {7, 134, true},
                                                                                {7, 135, false},
                                                                                {7, 6, false},
                                                                                {255, 0, true},
                                                                                {255, 126, true},
                                                                                {200, 71, true},
                                                                                {200, 72, false}}) {
    Rig rig;
    rig.sobs(static_cast<std::uint8_t>(from));
    rig.frame(0, static_cast<std::uint8_t>(from));
    rig.frame(0, static_cast<std::uint8_t>(to));
    EXPECT_EQ(rig.stream.counters().bursts, is_new ? 2u : 1u) << from << " " << to;
    EXPECT_EQ(rig.lost(Lost::late), is_new ? 0u : 4u);
    rig.finish();
    if (is_new) {
      EXPECT_EQ(rig.stream.receive_status().bursts().back().number,
                static_cast<unsigned>(from + static_cast<std::uint8_t>(to - from)));
    }
  }
}

TEST(Burst, BothAreOpenUntilAllBoardsEndTheOldOne) {
  Rig rig;
  const std::uint8_t next = first_burst + 1;
  rig.sobs();
  rig.frame(0);
  for (BoardId b = 0; b < 3; ++b) rig.feed({.board = b, .frame = 1});
  rig.eob(0, 1);
  rig.sob(1, next);
  rig.feed({.board = 1, .frame = 0, .burst = next});
  EXPECT_EQ(rig.stream.counters().bursts, 2u);
  EXPECT_EQ(only(rig.take(), EventType::burst_ends).size(), 0u);
  rig.feed({.board = 3, .frame = 1});  // completes the old burst's last frame during the new burst
  EXPECT_EQ(only(rig.take(), EventType::receive_done).size(), 1u);
  EXPECT_EQ(rig.lost(Lost::late), 0u);
  rig.finish();

  Rig markers;  // EOB of some boards, SOB of the others: closes at the last of them
  markers.sobs();
  markers.feed({.board = 0, .frame = 0});
  markers.eob(0, 0);
  markers.eob(1, 0);
  markers.sob(2, next);
  markers.feed({.board = 2, .frame = 0, .burst = next});
  EXPECT_EQ(markers.stream.counters().bursts, 2u);
  EXPECT_TRUE(only(markers.take(), EventType::burst_ends).empty());
  markers.sob(3, next);
  const auto events = markers.take();
  ASSERT_EQ(only(events, EventType::burst_ends).size(), 1u);
  EXPECT_EQ(only(events, EventType::receive_done).size(), 1u);
  markers.feed({.board = 1, .frame = 0});
  EXPECT_EQ(markers.lost(Lost::late), 1u);
  markers.finish();
}

TEST(Burst, OldOneClosesAtTheTimeoutAfterTheFirstPacketOfTheNew) {
  Rig rig;
  const std::uint8_t next = first_burst + 1;
  rig.sobs();
  rig.frame(0);
  rig.sob(0, next);
  const Nanoseconds first = rig.now;
  rig.now += 500;
  rig.feed({.board = 0, .frame = 1});
  rig.feed({.board = 0, .frame = 0, .burst = next});
  rig.stream.receiver().expire(first + 999);
  EXPECT_TRUE(only(rig.take(), EventType::burst_ends).empty());
  rig.stream.receiver().expire(first + 1000);
  EXPECT_EQ(only(rig.take(), EventType::burst_ends).size(), 1u);
  rig.feed({.board = 1, .frame = 1});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  rig.finish();
}

TEST(Burst, SingleBoardClosesTheOldOneAtOnce) {
  for (const bool replay : {false, true}) {
    ClopOptions options = rig_options();
    options.rules.boards = 0;
    Rig rig(options, replay);
    for (std::uint8_t burst = 1; burst < 6; ++burst) {  // no EOB at all
      rig.sob(merged_board, burst);
      for (Frame f = 0; f < 10; ++f) {
        rig.feed({.board = merged_board, .frame = f, .burst = burst});
        rig.serve();
        rig.send();
      }
    }
    EXPECT_EQ(rig.stream.counters().bursts, 5u);
    EXPECT_EQ(rig.lost_or_bad(), 0u);
    rig.finish();
    EXPECT_EQ(rig.stream.counters().frames_out, 50u);
  }
}

TEST(Burst, ReplayContinuesWithoutMarkers) {
  Rig rig(rig_options(), true);
  for (std::uint8_t burst = 1; burst < 6; ++burst) {
    for (Frame f = 0; f < 10; ++f) {
      rig.frame(f, burst);
      rig.stream.receiver().expire(rig.now);
      rig.serve();
      rig.send();
    }
  }
  EXPECT_EQ(rig.stream.counters().bursts, 5u);
  EXPECT_EQ(rig.bad(wire::mgp::Refusal::wrong_burst), 0u);
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 4u);
  rig.finish();
}

TEST(Burst, AThirdWaitsUntilTheOldestIsClosed) {
  Rig rig;
  rig.sobs(1);
  rig.feed({.board = 0, .frame = 0, .burst = 1});
  rig.sob(0, 2);
  rig.feed({.board = 0, .frame = 0, .burst = 2});
  rig.sob(0, 3);
  rig.feed({.board = 0, .frame = 0, .burst = 3});
  EXPECT_EQ(rig.bad(wire::mgp::Refusal::wrong_burst), 2u);
  rig.expire(rig.now + 1000);
  rig.sob(0, 3);
  rig.feed({.board = 0, .frame = 0, .burst = 3});
  EXPECT_EQ(rig.stream.counters().bursts, 3u);
  rig.finish();
}

TEST(Burst, OneNumberingOverAllBursts) {
  Rig rig;
  std::uint64_t base = 0;
  for (unsigned i = 0; i < 300; ++i) {
    const auto burst = static_cast<std::uint8_t>(200 + i);
    const Frame last = i % 5;
    rig.sobs(burst);
    for (Frame f = 0; f <= last; ++f) rig.frame(f, burst);
    rig.eobs(last, burst);
    const auto events = rig.take();
    ASSERT_EQ(events.size(),
              last + 3 + (i ? (i - 1) % 5 + 1 : 0));  // with the send-done events of the previous burst
    const auto begins = only(events, EventType::burst_begins);
    ASSERT_EQ(begins.size(), 1u);
    EXPECT_EQ(begins[0].buffer, base);
    EXPECT_EQ(begins[0].bytes, 0u);
    EXPECT_EQ(begins[0].frame, 200 + i);  // wraps counted
    for (const Event& e : only(events, EventType::receive_done)) {
      EXPECT_EQ(e.n, base + e.frame);
      rig.answer(e);
    }
    const auto ends = only(events, EventType::burst_ends);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].frame, last);
    rig.send();
    base += last + 1;
  }
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  EXPECT_EQ(rig.stream.counters().frames_late, 0u);
  rig.finish();
  ASSERT_EQ(rig.stream.receive_status().bursts().size(), 300u);
  EXPECT_EQ(rig.stream.receive_status().bursts()[299].number, 499u);
}

TEST(Burst, MissingIsKeptOverBurstsAndLatePacketsAreNotMissing) {
  Rig rig;
  rig.sobs(1);
  rig.frame(0, 1);
  rig.skip_sequence(2, 2, 1);
  rig.frame(1, 1);
  rig.eobs(1, 1);
  rig.sobs(2);
  rig.frame(0, 2);
  EXPECT_EQ(rig.missing(), 2);
  rig.feed({.board = 2, .frame = 1, .burst = 1, .sequence = 2});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  EXPECT_EQ(rig.missing(), 1);
  rig.eobs(0, 2);
  rig.sobs(3);
  rig.frame(0, 3);
  EXPECT_EQ(rig.missing(), 1);
  rig.finish();
  EXPECT_EQ(rig.lost(Lost::missing), 1u);
}

TEST(Burst, EobFarAheadMustBeConfirmed) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.eobs(700'000);
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 4u);
  EXPECT_EQ(rig.stream.counters().frames_in, 1u);
  rig.finish();
}

ClopOptions dealt(unsigned node, unsigned nodes, std::uint32_t devices = 1) {
  ClopOptions options = rig_options();
  options.dealing = {node, nodes};
  options.devices = devices;
  return options;
}

// Sends the frames of one node, as boards deal them.
void burst_of_node(Rig& rig, unsigned node, unsigned nodes, Frame frames, std::uint8_t burst) {
  rig.sobs(burst);
  for (Frame f = node; f < frames; f += nodes) rig.frame(f, burst);
  rig.eobs(frames - 1, burst);
}

TEST(Dealt, EachNodeOwesItsFramesAndMissesNone) {
  for (const unsigned nodes : {2u, 3u, 7u}) {
    for (unsigned node = 0; node < nodes; ++node) {
      Rig rig(dealt(node, nodes, 2));
      const wire::Dealing share{node, nodes};
      Frame owed = 0;
      std::vector<Frame> wanted;
      for (std::uint8_t burst = first_burst; burst < first_burst + 3; ++burst) {
        const Frame frames = burst == first_burst + 1 ? 4 : 40;  // with 7 nodes, some without a frame
        burst_of_node(rig, node, nodes, frames, burst);
        for (std::size_t d = 0; d < 2; ++d) rig.serve(d);
        rig.send();
        for (Frame f = node; f < frames; f += nodes) wanted.push_back(f);
        owed += share.frames(frames - 1);
      }
      rig.finish();
      EXPECT_EQ(rig.lost_or_bad(), 0u) << node << " of " << nodes;
      EXPECT_EQ(rig.missing(), 0);
      EXPECT_EQ(rig.stream.counters().frames_in, owed);
      EXPECT_EQ(rig.stream.counters().frames_answered, owed);
      EXPECT_EQ(rig.stream.counters().frames_incomplete, 0u);
      EXPECT_EQ(rig.stream.counters().frames_skipped, 0u);
      ASSERT_EQ(rig.transmit.sent.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(rig.transmit.sent[i].frame, wanted[i]);
        EXPECT_EQ(rig.observer.all[i].n,
                  i);  // numbers have no gaps, so both devices and all buffers are used
      }
    }
  }
}

TEST(Dealt, AFrameWithoutAPacketIsOwedAndAnsweredByItsNumber) {
  Rig rig(dealt(1, 3));
  rig.sobs();
  rig.frame(1);
  for (unsigned b = 0; b < 4; ++b) rig.skip_sequence(static_cast<BoardId>(b), 1);  // frame 4 is lost
  rig.frame(7);
  rig.eobs(9);
  rig.expire(rig.now + 2000);
  const auto events = rig.serve();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(rig.missing(), 4);
  rig.finish();
  ASSERT_EQ(rig.transmit.sent.size(), 3u);
  EXPECT_EQ(rig.transmit.sent[1].frame, 4u);
  EXPECT_EQ(rig.stream.counters().frames_incomplete, 1u);
}

TEST(Dealt, JoinedWithoutSobOwesFromTheFirstFrameSeen) {
  Rig rig(dealt(2, 3));
  rig.feed({.board = 0, .frame = 71, .sequence = 24});
  rig.feed({.board = 1, .frame = 74, .sequence = 25});
  rig.finish();
  ASSERT_EQ(rig.transmit.sent.size(), 2u);
  EXPECT_EQ(rig.transmit.sent[0].frame, 71u);
  EXPECT_EQ(rig.transmit.sent[1].frame, 74u);
}

TEST(Dealt, OverrunsAreAnsweredWithTheirFrames) {
  ClopOptions options = dealt(1, 2);
  options.buffers = 2;
  options.deadline = 6;
  Rig rig(options);
  rig.sobs();
  for (Frame f = 1; f < 11; f += 2) rig.frame(f);
  EXPECT_GT(rig.stream.counters().frames_overrun, 0u);
  rig.now += 10;
  rig.finish();
  ASSERT_EQ(rig.transmit.sent.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(rig.transmit.sent[i].frame, 1 + 2 * i);
}

TEST(Dealt, FramesOfOtherNodesAreCountedByNameAndNotMissing) {
  for (const auto gather : {contract::Gather::frame, contract::Gather::packets}) {
    ClopOptions options = dealt(0, 2);
    options.gather = gather;
    Rig rig(options);
    rig.sobs();
    for (Frame f = 0; f < 10; ++f) rig.frame(f);  // boards that deal to one node
    rig.feed({.board = 1, .frame = 1, .sequence = 2});
    EXPECT_EQ(rig.lost(Lost::other_node), 20u);
    EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
    EXPECT_EQ(rig.missing(), 0);
    EXPECT_EQ(rig.stream.counters().packets_used, 20u);
    EXPECT_TRUE(rig.balances());
  }
}

TEST(Bursts, LatePacketsAreListedByFrameAndBoard) {
  Rig rig;
  const auto listed = [&] {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const auto& packet : rig.stream.receive_status().lost_packets()) {
      EXPECT_EQ(packet.reason, Lost::late);
      all.emplace_back(packet.n, packet.board);
    }
    return all;
  };
  using Listed = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  rig.sobs();
  for (BoardId b = 0; b < 2; ++b) rig.feed({.board = b, .frame = 0});
  rig.expire(rig.now += 2000);
  rig.feed({.board = 3, .frame = 0, .index = 0, .last = false});
  rig.feed({.board = 3, .frame = 0, .index = 1});
  rig.feed({.board = 2, .frame = 0});
  EXPECT_EQ(listed(), (Listed{{0, 3}, {0, 3}, {0, 2}}));
  rig.frame(1);
  rig.eobs(1);  // the burst has ended, its frames are closed
  rig.feed({.board = 1, .frame = 1});
  rig.sobs(first_burst + 1);
  rig.frame(0, first_burst + 1);
  rig.feed({.board = 0, .frame = 0, .burst = first_burst + 1});
  EXPECT_EQ(listed(), (Listed{{0, 3}, {0, 3}, {0, 2}, {1, 1}, {2, 0}}));
  EXPECT_EQ(rig.lost(Lost::late), 5u);
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
