// SPDX-License-Identifier: Apache-2.0
// Tests of mailboxes: the card's event lines and segments, answers that leave before their descriptors,
// marks, settlement before a buffer is used again.
#include "nanet/contract/mailbox.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/mailbox_rig_test.hpp"
#include "nanet/contract/fragment_index.hpp"

namespace nanet::card {
namespace {

TEST(Mailbox, HoldsEventsAndSegmentsOfAnyNumberOfPackets) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  for (Frame f = 0; f < 40; ++f)
    for (unsigned b = 0; b < 4; ++b) {
      const unsigned packets = 1 + (f + b) % 4;
      for (unsigned p = 0; p < packets; ++p)
        rig.feed({.board = static_cast<BoardId>(b),
                  .frame = f,
                  .index = p,
                  .last = p + 1 == packets,
                  .events = 1 + (f + p) % 3,
                  .hits = 1 + (f * 5 + b + p) % 9});
    }
  std::uint64_t k = 0;
  unsigned frames = 0;
  for (const Event& e : rig.take(0)) {
    contract::EventLine line;
    ASSERT_TRUE(rig.line(k++, line));
    EXPECT_EQ(std::memcmp(line.event.data(), &e, sizeof line.event), 0);
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    ++frames;
    ASSERT_EQ(line.flags, contract::EventLine::segments);
    for (unsigned b = 0; b < 4; ++b) {
      const std::uint32_t bytes = rig.header(e).board[b].bytes;
      EXPECT_EQ(line.bytes[b], bytes);
      const auto segment = rig.segment(rig.n_of(e), e.buffer, b, bytes);
      ASSERT_EQ(segment.size(), bytes);
      EXPECT_EQ(std::memcmp(segment.data(), rig.views[0].segment(e.buffer, b), bytes), 0);
    }
    rig.answer(e);
  }
  EXPECT_EQ(frames, 40u);
  contract::EventLine line;
  EXPECT_FALSE(rig.line(k, line));
  rig.finish();
}

// Index of a board as a consumer reads it.
std::vector<std::uint32_t> index_of(const MailboxRig& rig, const Event& e, unsigned board,
                                    std::uint32_t fragments) {
  std::vector<std::uint32_t> entries((fragments + 2) / 3 * 3);
  const contract::Mailbox& mailbox = rig.mailbox;
  for (std::uint32_t u = 0; 3 * u < fragments; ++u)
    EXPECT_TRUE(
        contract::load_unit(mailbox.input + mailbox.shape.index(e.buffer, board) + contract::unit_bytes * u,
                            contract::mailbox_mark(rig.n_of(e)),
                            reinterpret_cast<std::byte*>(entries.data() + std::size_t{3} * u)));
  entries.resize(fragments);
  return entries;
}

TEST(Mailbox, HoldsTheIndexOfUsualSegments) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  for (Frame f = 0; f < 12; ++f)
    for (unsigned b = 0; b < 4; ++b) {
      if (f == 5 && b == 1) continue;  // closed without this board, and with half of the next
      const unsigned packets = f == 7 && b == 2 ? 4 : 1 + (f + b) % 3;
      for (unsigned p = 0; p < packets; ++p)
        rig.feed({.board = static_cast<BoardId>(b),
                  .frame = f,
                  .index = p,
                  .last = p + 1 == packets && !(f == 5 && b == 2),
                  .events = 1 + (f + p) % 7,
                  .hits = 1 + (f * 5 + b + p) % 9});
    }
  rig.expire(1'000'000'000);
  unsigned indexed = 0;
  std::uint64_t k = 0;
  for (const Event& e : rig.take(0)) {
    contract::EventLine line;
    ASSERT_TRUE(rig.line(k++, line));
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    rig.answer(e);
    if (e.frame == 7) {
      EXPECT_EQ(line.flags, contract::EventLine::segments);
      EXPECT_EQ(line.bytes[contract::index_boards], 0);
      continue;
    }
    ++indexed;
    ASSERT_EQ(line.flags, contract::EventLine::segments | contract::EventLine::indexed) << e.frame;
    for (unsigned b = 0; b < 4; ++b) {
      std::vector<std::uint32_t> entries(contract::index_entries);
      entries.resize(contract::index_fragments(rig.views[0].segment(e.buffer, b), line.bytes[b], entries));
      ASSERT_EQ(line.bytes[contract::index_boards + b], entries.size());
      EXPECT_EQ(index_of(rig, e, b, static_cast<std::uint32_t>(entries.size())), entries);
      EXPECT_EQ(entries.empty(), e.frame == 5 && b == 1);
    }
  }
  EXPECT_EQ(indexed, 11u);
  rig.finish();
}

TEST(Mailbox, HoldsTheRowsAndHitsOfMergedFrames) {
  if (!contract::has_mailbox) GTEST_SKIP();
  ClopOptions options = rig_options();
  options.merge = true;
  MailboxRig rig(options);
  rig.sobs();
  for (Frame f = 0; f < 30; ++f)
    for (unsigned b = 0; b < 4; ++b)
      for (unsigned p = 0; p < (f == 20 ? 4u : 1u); ++p)
        rig.feed({.board = static_cast<BoardId>(b),
                  .frame = f,
                  .index = p,
                  .last = f != 20 || p == 3,
                  .events = f == 20 ? 20u : 1 + (f + b) % 5,
                  .hits = f == 20 ? 32u : (f * 5 + b) % 9});
  std::uint64_t k = 0;
  unsigned merged = 0;
  for (const Event& e : rig.take(0)) {
    contract::EventLine line;
    ASSERT_TRUE(rig.line(k++, line));
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    rig.answer(e);
    const contract::FrameHeader header = rig.header(e);
    if (e.frame == 20) {  // not in order: segments
      EXPECT_EQ(line.flags, 0u) << e.frame;
      continue;
    }
    ++merged;
    ASSERT_EQ(line.flags, contract::EventLine::merged) << e.frame;
    ASSERT_EQ(line.bytes[0], header.events);
    ASSERT_EQ(line.bytes[1], header.hits);
    const std::byte* const rows = rig.views[0].buffer(e.buffer) + sizeof header;
    std::vector<std::byte> want(rows, rows + sizeof(contract::MergedRow) * header.events);
    const std::byte* const hits = rows + sizeof(contract::MergedRow) * header.rows;
    want.insert(want.end(), hits, hits + sizeof(std::uint16_t) * header.hits);
    EXPECT_EQ(rig.segment(rig.n_of(e), e.buffer, 0, static_cast<std::uint32_t>(want.size())), want);
  }
  EXPECT_GT(merged, 20u);
  rig.finish();
}

TEST(Mailbox, LongSegmentsAreInTheClopOnly) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  for (unsigned b = 0; b < 4; ++b)
    for (unsigned p = 0; p < (b == 2 ? 3u : 1u); ++p)
      rig.feed({.board = static_cast<BoardId>(b),
                .frame = 0,
                .index = p,
                .last = b != 2 || p == 2,
                .events = 20,
                .hits = b == 2 ? 32u : 20u});
  for (const Event& e : rig.take(0, true)) {
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    contract::EventLine line;
    ASSERT_TRUE(rig.line(1, line));
    EXPECT_GT(line.bytes[2], contract::mailbox_segment_bytes);
    EXPECT_EQ(line.flags, 0u);
    rig.answer(e);
  }
  rig.finish();
}

TEST(Mailbox, HoldsTheLongestSegmentsWithTheirIndex) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  for (unsigned b = 0; b < 4; ++b)
    for (unsigned p = 0; p < 3; ++p)  // 83 fragments of 16 B
      rig.feed({.board = static_cast<BoardId>(b),
                .frame = 0,
                .index = p,
                .last = p == 2,
                .events = 83,
                .hits = 4});
  unsigned frames = 0;
  for (const Event& e : rig.take(0, true)) {
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    ++frames;
    contract::EventLine line;
    ASSERT_TRUE(rig.line(1, line));
    ASSERT_EQ(line.flags, contract::EventLine::segments | contract::EventLine::indexed);
    for (unsigned b = 0; b < 4; ++b) {
      ASSERT_EQ(line.bytes[b], contract::mailbox_segment_bytes);
      const auto segment = rig.segment(rig.n_of(e), e.buffer, b, line.bytes[b]);
      ASSERT_EQ(segment.size(), line.bytes[b]);
      EXPECT_EQ(std::memcmp(segment.data(), rig.views[0].segment(e.buffer, b), line.bytes[b]), 0);
      std::vector<std::uint32_t> entries(contract::index_entries);
      entries.resize(contract::index_fragments(segment.data(), line.bytes[b], entries));
      ASSERT_EQ(entries.size(), 249u);
      ASSERT_EQ(line.bytes[contract::index_boards + b], entries.size());
      EXPECT_EQ(index_of(rig, e, b, 249), entries);
    }
    rig.answer(e);
  }
  EXPECT_EQ(frames, 1u);
  rig.finish();
}

TEST(Mailbox, AnswersLeaveAtOnceAndAreAccountedWhenPosted) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  for (Frame f = 0; f < 4; ++f) rig.frame(f);
  const auto events = rig.take(EventType::receive_done);
  rig.whisper(events[1], 76);
  EXPECT_EQ(rig.send(), 0u);  // in order
  rig.whisper(events[0], 1472);
  EXPECT_EQ(rig.send(), 2u);
  EXPECT_EQ(rig.transmit.sent[0].bytes.size(), 1472u);
  EXPECT_EQ(rig.transmit.sent[1].bytes.size(), 76u);
  EXPECT_EQ(rig.transmit.sent[1].frame, 1u);
  EXPECT_TRUE(rig.observer.all.empty());  // the traces are not there yet
  EXPECT_FALSE(rig.stream.passed_all());
  rig.answer(events[1]);
  rig.answer(events[2]);  // the ordinary way, behind two that wait
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_TRUE(rig.observer.all.empty());
  EXPECT_EQ(rig.stream.table().settled(), 0u);
  rig.answer(events[0]);
  rig.send();
  ASSERT_EQ(rig.observer.all.size(), 3u);
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_EQ(rig.observer.all[n].n, n);
  EXPECT_EQ(rig.stream.table().settled(), 3u);
  rig.answer(events[3]);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_answered, 4u);
}

TEST(Mailbox, TornAndForeignAnswersDoNotLeave) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig;
  rig.sobs();
  rig.frame(0);
  const auto events = rig.take(EventType::receive_done);
  const std::vector<std::byte> answer(76);
  contract::put_answer(rig.mailbox, 5, events[0].buffer, answer.data(), 76);  // of another number
  EXPECT_EQ(rig.send(), 0u);
  contract::put_answer(rig.mailbox, 0, events[0].buffer, answer.data(), 76);
  std::byte* const unit = rig.mailbox.answers + 3 * contract::unit_bytes;
  const std::byte kept = unit[12];
  unit[12] = std::byte{0xFF};  // one unit has not arrived
  EXPECT_EQ(rig.send(), 0u);
  unit[12] = kept;
  std::uint32_t length = 1473;  // longer than any answer
  std::memcpy(rig.mailbox.answers, &length, sizeof length);
  EXPECT_EQ(rig.send(), 0u);
  length = 76;
  std::memcpy(rig.mailbox.answers, &length, sizeof length);
  EXPECT_EQ(rig.send(), 1u);
  rig.answer(events[0]);
  rig.finish();
}

TEST(Mailbox, ABufferIsNotUsedAgainBeforeItsTraceIsRead) {
  if (!contract::has_mailbox) GTEST_SKIP();
  MailboxRig rig(rig_options(2048));
  rig.sobs();
  rig.frame(0);
  auto events = rig.take(EventType::receive_done);
  rig.whisper(events[0]);
  EXPECT_EQ(rig.send(), 1u);
  for (Frame f = 1; f <= 2048; ++f) {
    if (f == 2048) contract::return_buffer(rig.views[0], 0);  // returned, but not posted
    rig.frame(f);
    rig.serve();
    rig.send();
  }
  EXPECT_EQ(rig.stream.counters().frames_overrun, 1u);
  rig.post(events[0]);
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
