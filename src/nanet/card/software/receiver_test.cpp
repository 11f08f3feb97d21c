// SPDX-License-Identifier: Apache-2.0
// Tests of gather mode frame: placement and completion, losses by reason, timeouts, frames without packets,
// sequence numbers and jumps. Times are arguments.
#include "nanet/card/software/receiver.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::card {
namespace {

constexpr std::uint16_t missing_boards(unsigned mask) {
  return static_cast<std::uint16_t>(mask << event_flag::missing_shift);
}

TEST(Frame, CompletesWhenAllBoardsAreThereInAnyOrder) {
  std::array<BoardId, 4> order{0, 1, 2, 3};
  do {
    Rig rig;
    rig.sobs();
    (void)rig.take();
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_TRUE(rig.take(EventType::receive_done).empty());
      ++rig.now;
      rig.feed({.board = order[i], .frame = 0});
    }
    const auto events = rig.take(EventType::receive_done);
    ASSERT_EQ(events.size(), 1u);
    const Event& e = events[0];
    EXPECT_EQ(e.stream, 3);
    EXPECT_EQ(e.flags, event_flag::complete);
    EXPECT_EQ(e.buffer, 0u);
    EXPECT_EQ(e.frame, 0u);
    EXPECT_EQ(e.n, 0u);
    EXPECT_EQ(e.lap, 1u);
    EXPECT_EQ(e.time_ns, static_cast<std::uint64_t>(rig.now));
    EXPECT_EQ(e.bytes, 4u * 32);
    rig.finish();
    EXPECT_EQ(rig.stream.counters().frames_incomplete, 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Frame, SeveralPacketsPerBoardInAnyOrderOfIndex) {
  std::array<unsigned, 3> order{0, 1, 2};
  do {
    Rig rig;
    rig.sobs();
    for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b});
    std::vector<std::vector<std::byte>> sent;
    for (const unsigned index : order) {
      EXPECT_TRUE(rig.take(EventType::receive_done).empty());
      sent.push_back(rig.feed(
          {.board = 0, .index = index, .last = index == 2, .sequence = 1 + index, .events = 1 + index}));
    }
    const auto events = rig.take(EventType::receive_done);
    ASSERT_EQ(events.size(), 1u);
    const auto& header = rig.header(events[0]);
    EXPECT_EQ(header.board[0].packets, 3);
    // In order of arrival, each at the next 16 B boundary.
    std::size_t at = 0;
    for (const auto& bytes : sent) {
      EXPECT_EQ(std::memcmp(rig.views[0].segment(events[0].buffer, 0) + at, bytes.data(), bytes.size()), 0);
      at += (bytes.size() + 15) / 16 * 16;
    }
    EXPECT_EQ(header.board[0].bytes, at);
    EXPECT_EQ(rig.lost_or_bad(), 0u);
    rig.finish();
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Frame, HeaderOfTheBufferListsTheReceivedPackets) {
  Rig rig;
  rig.sobs();
  rig.feed({.board = 0, .index = 0, .last = false, .flags = mgp_flag::truncated});
  rig.feed({.board = 0, .index = 1, .flags = mgp_flag::error});
  rig.feed({.board = 2, .events = 0});
  rig.feed({.board = 3, .index = 1});  // its index 0 never arrives
  rig.expire(rig.now + 1000);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  const auto& h = rig.header(events[0]);
  const std::uint16_t flags = event_flag::timed_out | event_flag::truncated | missing_boards(0b1010);
  EXPECT_EQ(events[0].flags, flags);
  EXPECT_EQ(h.flags, flags);
  EXPECT_EQ(h.frame, 0u);
  EXPECT_EQ(h.expected, 0xF);
  EXPECT_EQ(h.complete, 0b0101);
  EXPECT_EQ(h.board[0].flags, mgp_flag::truncated | mgp_flag::error | mgp_flag::last);
  EXPECT_EQ(h.board[0].packets, 2);
  EXPECT_EQ(h.board[0].bytes, 64);
  EXPECT_EQ(h.board[1].packets, 0);
  EXPECT_EQ(h.board[1].bytes, 0);
  EXPECT_EQ(h.board[2].bytes, 16);
  EXPECT_EQ(h.board[2].packets, 1);
  EXPECT_EQ(h.board[3].packets, 1);
  for (unsigned b = 4; b < max_boards; ++b)
    EXPECT_EQ(h.board[b].bytes + h.board[b].packets + h.board[b].flags, 0);
  for (const auto zero : h.zero) EXPECT_EQ(zero, 0);
  EXPECT_EQ(events[0].bytes, 64u + 16 + 32);
  rig.finish();
}

TEST(Frame, PaddingIsNotPlaced) {
  Rig rig;
  rig.sobs();
  for (BoardId b = 0; b < 4; ++b) {
    auto bytes = build({.board = b, .flags = mgp_flag::padded}, 1);
    bytes.resize(1472, std::byte{0});
    rig.raw(bytes);
  }
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].bytes, 4u * 32);
  rig.finish();
}

TEST(Frame, ConfiguredBoardsAloneAreWaitedFor) {
  ClopOptions options = rig_options();
  options.rules.boards = 0b1010;
  Rig rig(options);
  rig.sob(1);
  rig.sob(3);
  rig.feed({.board = 3});
  rig.feed({.board = 0, .sequence = 1});
  EXPECT_EQ(rig.bad(wire::mgp::Refusal::bad_board), 1u);
  rig.feed({.board = 1});
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, event_flag::complete);
  EXPECT_EQ(rig.header(events[0]).expected, 0b1010);
  EXPECT_EQ(rig.header(events[0]).board[3].packets, 1);
  rig.finish();
}

TEST(Frame, MergedStreamLiesInSegmentZero) {
  ClopOptions options = rig_options();
  options.rules.boards = 0;
  Rig rig(options);
  rig.sob(merged_board);
  const auto bytes = rig.feed({.board = merged_board, .events = 3, .hits = 20});
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, event_flag::complete);
  EXPECT_EQ(rig.header(events[0]).expected, 1);
  EXPECT_EQ(rig.header(events[0]).complete, 1);
  EXPECT_EQ(std::memcmp(rig.views[0].segment(0, 0), bytes.data(), bytes.size()), 0);
  rig.eob(merged_board, 0);
  EXPECT_EQ(rig.take(EventType::burst_ends).size(), 1u);
  rig.finish();
}

TEST(Frame, JumboPayloadsAreTakenWhereConfigured) {
  ClopOptions options = rig_options(64);
  options.rules.max_payload = 8972;
  options.segment_bytes = 16384;
  Rig rig(options);
  rig.sobs();
  for (BoardId b = 0; b < 4; ++b) rig.feed({.board = b, .events = 120, .hits = 32});
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].bytes, 4u * ((16 + 120 * 72 + 15) / 16 * 16));
  rig.finish();
  Rig plain;
  plain.sobs();
  plain.feed({.events = 120, .hits = 32});
  EXPECT_EQ(plain.bad(wire::mgp::Refusal::oversized), 1u);
  plain.finish();
}

TEST(Frame, ManyLapsOfQueueBuffersAndDescriptors) {
  ClopOptions options = rig_options(8);
  options.deadline = 20'000;
  Rig rig(options);
  rig.sobs();
  std::uint64_t events = 0;
  for (Frame f = 0; f < 1000; ++f) {
    rig.frame(f);
    const auto got = rig.take();
    events += got.size();
    const Event& e = got.back();
    ASSERT_EQ(e.type, static_cast<std::uint8_t>(EventType::receive_done));
    ASSERT_EQ(e.frame, f);
    ASSERT_EQ(e.n, f);
    ASSERT_EQ(e.buffer, f % 8);
    ASSERT_EQ(e.lap, (events - 1) / 32 + 1);
    ASSERT_EQ(rig.header(e).frame, f);
    rig.answer(e);
    ASSERT_EQ(rig.send(), 1u);
    ASSERT_TRUE(rig.balances());
    ++rig.now;
  }
  EXPECT_EQ(rig.transmit.sent.size(), 1000u);
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  rig.finish();
}

TEST(Lost, DuplicateIndexOrIndexAgainstAnEarlierLastOne) {
  Rig rig;
  rig.sobs();
  rig.feed({.board = 0, .index = 0, .last = false});
  rig.feed({.board = 0, .index = 0, .last = false});  // with a different sequence number
  EXPECT_EQ(rig.lost(Lost::duplicate), 1u);
  rig.feed({.board = 0, .index = 0, .last = false, .sequence = 1});  // the same packet again
  EXPECT_EQ(rig.lost(Lost::duplicate), 2u);                          // comes before replayed_sequence
  rig.feed({.board = 0, .index = 2, .last = true, .sequence = 3});
  rig.feed({.board = 0, .index = 3, .last = false});  // beyond the last index
  EXPECT_EQ(rig.lost(Lost::duplicate), 3u);
  rig.feed({.board = 0, .index = 1, .last = true});  // a second last packet
  EXPECT_EQ(rig.lost(Lost::duplicate), 4u);
  rig.feed({.board = 0, .index = 1, .last = false});
  EXPECT_EQ(rig.lost(Lost::duplicate), 4u);
  for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b});
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, event_flag::complete);
  EXPECT_EQ(rig.header(events[0]).board[0].packets, 3);
  EXPECT_EQ(rig.missing(), 0);  // all of them arrived
  rig.finish();
}

TEST(Lost, LateComesBeforeAllOtherNames) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 0, .sequence = 1});  // late, duplicate and replayed
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  rig.feed({.board = 0, .frame = 0, .sequence = 100'000});  // and a jump
  EXPECT_EQ(rig.lost(Lost::late), 2u);
  EXPECT_EQ(rig.missing(), 0);
  rig.frame(1);  // sequence numbers continue
  rig.finish();
}

TEST(Lost, ReplayedComesBeforeJumpAndOverrun) {
  ClopOptions options = rig_options(8);
  options.deadline = 20'000;
  Rig rig(options);
  rig.sobs();
  rig.feed({.board = 0, .frame = 0});
  rig.feed({.board = 0, .frame = 1025 + 0, .sequence = 1});
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 0u);
  rig.feed({.board = 0, .frame = 20, .sequence = 2});  // frames 8 - 20 have no buffer
  EXPECT_EQ(rig.lost(Lost::overrun), 1u);
  rig.feed({.board = 0, .frame = 20, .index = 1, .sequence = 2});
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 2u);
  rig.feed({.board = 0, .frame = 19, .sequence = 3});
  EXPECT_EQ(rig.lost(Lost::overrun), 2u);
  rig.finish();
}

TEST(Lost, PayloadsBeyondTheSegment) {
  ClopOptions options = rig_options();
  options.segment_bytes = 1024;
  Rig rig(options);
  rig.sobs();
  rig.feed({.board = 0, .index = 0, .last = false, .events = 10, .hits = 32});  // 736 B
  rig.feed({.board = 0, .index = 1, .last = false, .events = 4, .hits = 32});   // 304 B: 16 too many
  EXPECT_EQ(rig.lost(Lost::segment_overflow), 1u);
  rig.feed({.board = 0, .index = 2, .last = true, .events = 3, .hits = 32});  // 232 B fits
  for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b});
  EXPECT_TRUE(rig.take(EventType::receive_done).empty());  // index 1 is missing
  rig.expire(rig.now + 1000);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, event_flag::timed_out | missing_boards(1));
  EXPECT_EQ(rig.header(events[0]).board[0].bytes, 736 + 240);
  rig.finish();
  Rig exact(options);
  exact.sobs();
  exact.feed({.board = 0, .index = 0, .last = false, .events = 12, .hits = 32});  // 880 B
  exact.feed({.board = 0, .index = 1, .events = 1, .hits = 32});                  // 88 -> 96: 976
  exact.feed({.board = 0, .index = 2, .last = false});                            // contradicts the last
  EXPECT_EQ(exact.lost(Lost::segment_overflow), 0u);
  exact.finish();
}

TEST(Timeout, OnlyWhenEverythingUpToItHasBeenRead) {
  Rig rig;
  rig.sobs();
  rig.feed({.board = 0});
  const Nanoseconds first = rig.now;
  rig.now += 50'000;  // packets much later do not close it
  rig.feed({.board = 1});
  rig.feed({.board = 2, .frame = 1});
  rig.stream.receiver().expire(first + 999);
  EXPECT_TRUE(rig.take(EventType::receive_done).empty());
  EXPECT_EQ(rig.stream.receiver().next_timer(), first + 1000);
  rig.stream.receiver().expire(first + 1000);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].flags, event_flag::timed_out | missing_boards(0b1100));
  rig.feed({.board = 2, .frame = 0});
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  EXPECT_EQ(rig.stream.counters().frames_incomplete, 1u);
  rig.finish();
}

TEST(Timeout, UnseenFrameTakesTheTimeOfTheNextSeen) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.now += 100;
  rig.feed({.board = 0, .frame = 3});
  const Nanoseconds first = rig.now;
  rig.now += 500;
  rig.feed({.board = 0, .frame = 2});  // a packet arrives after all: the timeout starts here
  rig.stream.receiver().expire(first + 1000);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 3u);  // 0, 1 and 3
  EXPECT_EQ(events[1].frame, 1u);
  EXPECT_EQ(events[1].bytes, 0u);
  EXPECT_EQ(events[1].flags, event_flag::timed_out | missing_boards(0xF));
  EXPECT_EQ(rig.header(events[1]).complete, 0);
  for (unsigned b = 0; b < 4; ++b) EXPECT_EQ(rig.header(events[1]).board[b].packets, 0);
  EXPECT_EQ(events[2].frame, 3u);
  rig.stream.receiver().expire(first + 1500);
  const auto rest = rig.take(EventType::receive_done);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].frame, 2u);
  rig.finish();
}

TEST(Timeout, AnOldUnfinishedFrameDoesNotHoldUpLaterOnes) {
  Rig rig;
  rig.sobs();
  rig.feed({.board = 0, .frame = 0});
  for (Frame f = 1; f < 1000; ++f) {
    rig.now += 10;
    rig.frame(f);
  }
  EXPECT_EQ(rig.take(EventType::receive_done).size(), 999u);
  rig.expire(rig.now);
  EXPECT_EQ(rig.take(EventType::receive_done).size(), 1u);
  rig.finish();
}

TEST(Replay, FramesCloseWhenTheStreamIs1024Further) {
  Rig rig(rig_options(), true);
  rig.sobs();
  rig.feed({.board = 0, .frame = 0});
  rig.now += 1;
  rig.feed({.board = 0, .frame = 2});
  rig.now += 1'000'000'000;
  rig.feed({.board = 0, .frame = 1});  // opened without a packet, then with one
  rig.expire(rig.now);
  (void)rig.serve();
  for (Frame f = 3; f < 1024; ++f) rig.frame(f);
  rig.expire(rig.now);
  for (const Event& e : rig.serve()) EXPECT_GE(e.frame, 3u);
  for (Frame f = 1024; f < 1027; ++f) {
    rig.frame(f);
    rig.expire(rig.now);
    const auto events = rig.serve();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(std::min(events[0].frame, events[1].frame), f - 1024);
  }
  rig.finish();
}

TEST(Jump, Exactly1024FramesAheadIsOrdinary) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 1024});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 0u);
  EXPECT_EQ(rig.stream.counters().frames_in, 1025u);
  rig.feed({.board = 0, .frame = 1024 + 1025});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.stream.counters().frames_in, 1025u);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_skipped, 0u);
}

TEST(Jump, SecondPacketConfirmsAndTheGapNeedsNoAnswer) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 1, .frame = 5000});
  rig.feed({.board = 1, .frame = 5001});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.stream.counters().frames_skipped, 5000u);
  EXPECT_EQ(rig.stream.counters().frames_in, 2u);
  EXPECT_EQ(rig.missing(), 0);  // the dropped packet arrived
  rig.feed({.board = 0, .frame = 4000});
  EXPECT_EQ(rig.lost(Lost::late), 1u);    // no answer is needed
  rig.feed({.board = 0, .frame = 5001});  // this board's first packet after the gap, also unconfirmed
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  rig.feed({.board = 0, .frame = 5002});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  rig.finish();
  ASSERT_EQ(rig.transmit.sent.size(), 3u);
  EXPECT_EQ(rig.transmit.sent[0].frame, 0u);
  EXPECT_EQ(rig.transmit.sent[1].frame, 5001u);
  EXPECT_EQ(rig.observer.all[1].n, 5001u);
}

TEST(Jump, OrdinaryPacketInBetweenCancels) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 5000});
  rig.feed({.board = 0, .frame = 1});
  rig.feed({.board = 0, .frame = 5001});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  rig.feed({.board = 1, .frame = 1});  // a packet of another board does not confirm
  rig.feed({.board = 0, .frame = 5002});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 2u);
  EXPECT_GT(rig.stream.counters().frames_skipped, 0u);
  rig.finish();
}

TEST(Jump, NeitherADuplicateNorOneElsewhereConfirms) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 5000, .sequence = 2});
  rig.feed({.board = 0, .frame = 5000, .sequence = 2});
  rig.feed({.board = 0,
            .frame = 5000 + 1025,
            .sequence = 3});              // not within a window of the first: counts as a first packet again
  rig.feed({.board = 1, .frame = 5001});  // another board
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 4u);
  EXPECT_EQ(rig.stream.counters().frames_in, 1u);
  rig.feed({.board = 0, .frame = 5000 + 1, .sequence = 4});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 4u);
  rig.finish();
}

TEST(Jump, SequenceNumbers) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 1, .sequence = 1 + 4096});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 0u);
  EXPECT_EQ(rig.missing(), 4095);
  rig.feed({.board = 0, .frame = 2, .sequence = 4097 + 4097});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.missing(), 4095);
  rig.feed({.board = 0, .frame = 3, .sequence = 4097 + 4098});
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.missing(), 4095 + 4096);
  rig.feed({.board = 0, .frame = 3, .index = 0, .sequence = 4097 + 4097});
  EXPECT_EQ(rig.lost(Lost::duplicate), 1u);
  EXPECT_EQ(rig.stream.counters().frames_skipped, 0u);
  rig.finish();
}

TEST(Jump, FirstPacketOfASilentBoardIsComparedWithTheBurst) {
  Rig rig;
  rig.sob(0);
  rig.feed({.board = 1,
            .frame = 100'000,
            .sequence = 5});  // its SOB was lost, and this frame is far from the others
  EXPECT_EQ(rig.lost(Lost::unconfirmed_jump), 1u);
  EXPECT_EQ(rig.stream.counters().frames_in, 0u);
  rig.feed({.board = 1, .frame = 1024, .sequence = 6});
  EXPECT_EQ(rig.stream.counters().frames_in, 1025u);
  rig.finish();
}

TEST(Jump, FasterThanTheSenderPassesIsNotFollowed) {
  ClopOptions options = rig_options();
  options.rules.max_frames = 1 << 20;
  Rig rig(options);
  for (unsigned i = 0; i < 6; ++i) {  // six bursts with the largest frame number, without polling the sender
    const auto burst = static_cast<std::uint8_t>(first_burst + i);
    rig.sobs(burst);
    rig.frame(0, burst);
    for (BoardId b = 0; b < 4; ++b)
      for (Frame f : {1'000'000, 1'000'001}) rig.feed({.board = b, .frame = f, .burst = burst});
    rig.eobs(1'000'001, burst);
  }
  EXPECT_TRUE(rig.balances());
  rig.finish();
  EXPECT_GT(rig.stream.counters().frames_skipped, 1'000'000u);
}

TEST(Sequence, MissingIsABalance) {
  Rig rig;
  rig.sobs();
  rig.feed({.board = 0, .frame = 0, .sequence = 1});
  rig.feed({.board = 0, .frame = 3, .sequence = 4});
  rig.expire(rig.now + 10);
  EXPECT_EQ(rig.lost(Lost::missing), 2u);
  rig.feed({.board = 0, .frame = 2, .sequence = 3});
  rig.expire(rig.now + 10);
  EXPECT_EQ(rig.lost(Lost::missing), 1u);
  rig.expire(rig.now + 2000);
  rig.feed({.board = 0, .frame = 1, .sequence = 2});  // too late to be used, but received
  rig.expire(rig.now);
  EXPECT_EQ(rig.lost(Lost::late), 1u);
  EXPECT_EQ(rig.lost(Lost::missing), 0u);
  rig.finish();
}

TEST(Sequence, SobOvertakenByDataIsNoRestart) {
  Rig rig;
  for (BoardId b = 1; b < 4; ++b) rig.sob(b);
  rig.feed({.board = 0, .frame = 1, .sequence = 2});
  rig.feed({.board = 0, .frame = 2, .sequence = 3});
  rig.sob(0);
  rig.feed({.board = 0, .frame = 0, .sequence = 1});
  rig.feed({.board = 0, .frame = 3, .sequence = 4});
  EXPECT_EQ(rig.missing(), 0);
  rig.feed({.board = 0, .frame = 4, .sequence = 3});
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
  rig.finish();
}

TEST(Sequence, ReturningBoardWithSobRestarts) {
  for (const bool first_is_late : {false, true}) {
    Rig rig;
    rig.sobs();
    for (Frame f = 0; f < 50; ++f) rig.frame(f);
    rig.skip_sequence(0, 3);  // lost on the network
    rig.feed({.board = 0, .frame = 50});
    for (Frame f = 50; f < 60; ++f)
      for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b, .frame = f});
    EXPECT_EQ(rig.missing(), 3);
    rig.sob(0);
    rig.feed({.board = 0, .frame = first_is_late ? 10u : 55u});
    for (Frame f = 60; f < 70; ++f) rig.frame(f);
    EXPECT_EQ(rig.lost(Lost::replayed_sequence), 0u) << first_is_late;
    EXPECT_EQ(rig.lost(Lost::late), first_is_late ? 1u : 0u);
    EXPECT_EQ(rig.missing(), 3);
    rig.eobs(69);
    rig.finish();
    EXPECT_EQ(rig.stream.counters().frames_incomplete, first_is_late ? 9u : 8u);
    EXPECT_EQ(rig.stream.counters().bursts, 1u);
  }
}

TEST(Sequence, ReturningBoardWithoutSobIsReplayedUntilItCatchesUp) {
  Rig rig;
  rig.sobs();
  for (Frame f = 0; f < 50; ++f) rig.frame(f);
  for (Frame f = 50; f < 110; ++f) {
    rig.feed({.board = 0, .frame = f, .sequence = f - 49});  // from 1 again
    for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b, .frame = f});
  }
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 50u);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_incomplete, 50u);
}

TEST(Sequence, RepeatedSobWithoutARestartChangesNothing) {
  Rig rig;
  rig.sobs();
  for (Frame f = 0; f < 5; ++f) rig.frame(f);
  rig.raw(build_marker(mgp_flag::sob, 0, 0, 0, first_burst));
  for (Frame f = 5; f < 10; ++f) rig.frame(f);
  rig.feed({.board = 0, .frame = 10, .sequence = 1});  // the old sequence continues: no restart
  EXPECT_EQ(rig.lost(Lost::replayed_sequence), 1u);
  EXPECT_EQ(rig.missing(), 0);
  EXPECT_EQ(rig.stream.counters().burst_markers, 5u);
  rig.finish();
}

TEST(Refused, PacketsAreCountedOnceAndShownToTheHook) {
  Rig rig;
  std::vector<wire::mgp::Refusal> seen;
  rig.stream.receiver().on_refused([&](std::span<const std::byte>, wire::mgp::Refusal r, Nanoseconds at) {
    seen.push_back(r);
    EXPECT_EQ(at, rig.now);
  });
  rig.sobs();
  auto bytes = build({.board = 0}, 1);
  rig.raw({bytes.data(), 7});
  rig.raw({});
  bytes[2] = std::byte{9};
  rig.raw(bytes);
  bytes = build({.board = 0}, 1);
  bytes[17] = std::byte{0x44};  // a timestamp of another frame
  rig.raw(bytes);
  using wire::mgp::Refusal;
  EXPECT_EQ(seen, (std::vector{Refusal::short_header, Refusal::short_header, Refusal::bad_version,
                               Refusal::timestamp_outside_frame}));
  EXPECT_EQ(rig.bad(Refusal::short_header), 2u);
  rig.frame(0);  // the refused packets changed no state
  EXPECT_EQ(rig.take(EventType::receive_done).size(), 1u);
  EXPECT_EQ(rig.missing(), 0);
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
