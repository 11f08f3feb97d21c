// SPDX-License-Identifier: Apache-2.0
// Tests of overruns: consumers that stall, return buffers in any order or are faulty. A frame without a
// buffer counts as one overrun for all its packets. It is answered at once, without effect on other frames.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::card {
namespace {

ClopOptions eight() {
  ClopOptions o = rig_options(8);
  o.deadline = 20'000;
  return o;
}

TEST(Overrun, DecidedOnceAtTheFirstPacket) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  rig.feed({.board = 0, .frame = 8});
  EXPECT_EQ(rig.lost(Lost::overrun), 1u);
  for (const Event& e : rig.serve()) EXPECT_LT(e.frame, 8u);
  EXPECT_EQ(rig.send(), 9u);  // all buffers are returned
  for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b, .frame = 8});
  EXPECT_EQ(rig.lost(Lost::overrun), 4u);
  rig.frame(9);
  EXPECT_EQ(rig.serve().size(), 1u);
  rig.finish();
  const Counters& c = rig.stream.counters();
  EXPECT_EQ(c.frames_overrun, 1u);
  EXPECT_EQ(c.frames_late, 1u);
  EXPECT_EQ(c.frames_in, 10u);
  const auto& s = rig.transmit.sent[8];
  EXPECT_EQ(s.frame, 8u);
  EXPECT_EQ(s.sub_id, 0xFF);
  EXPECT_EQ(s.bytes.size(), 8u);
  EXPECT_EQ(rig.observer.all[8].outcome, Outcome::overrun);
}

TEST(Overrun, PacketsAreListedWithBoardReasonAndArrival) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 1; f < 8; ++f) rig.frame(f);  // opens frame 0, too
  rig.now += 10;
  rig.feed({.board = 3, .frame = 9});  // also opens frame 8 without a buffer
  rig.feed({.board = 1, .frame = 9, .index = 0, .last = false});
  rig.feed({.board = 1, .frame = 7});  // late
  rig.feed({.board = 1, .frame = 9, .index = 1});
  rig.expire(rig.now += 2000);
  rig.serve();
  rig.send();                          // the buffers are returned
  rig.feed({.board = 2, .frame = 8});  // too late for them
  rig.feed({.board = 2, .frame = 0});
  for (int i = 0; i < 2; ++i) rig.feed({.board = 0, .frame = 10});  // a duplicate is not listed
  using Row = std::tuple<std::uint64_t, unsigned, Lost, Nanoseconds>;
  std::vector<Row> listed;
  for (const auto& p : rig.stream.receive_status().lost_packets())
    listed.emplace_back(p.n, p.board, p.reason, p.arrival);
  const Nanoseconds first = rig.now - 2000, second = rig.now;
  EXPECT_EQ(listed, (std::vector<Row>{{9, 3, Lost::overrun, first},
                                      {9, 1, Lost::overrun, first},
                                      {7, 1, Lost::late, first},
                                      {9, 1, Lost::overrun, first},
                                      {8, 2, Lost::overrun, second},
                                      {0, 2, Lost::late, second}}));
  EXPECT_EQ(rig.lost(Lost::overrun), 4u);
  EXPECT_EQ(rig.lost(Lost::late), 2u);
  EXPECT_EQ(rig.lost(Lost::duplicate), 1u);
  rig.finish();
}

TEST(Overrun, AFullListOfLostPacketsDoesNotGrow) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  const auto& listed = rig.stream.receive_status().lost_packets();
  const auto* const at = listed.data();
  constexpr std::size_t room = 1 << 18, more = 100;  // docs/files.md
  for (std::size_t i = 0; i < room + more; ++i) rig.feed({.board = 0, .frame = 8});
  EXPECT_EQ(rig.lost(Lost::overrun), room + more);
  EXPECT_EQ(listed.size(), room);
  EXPECT_EQ(listed.data(), at);
  rig.finish();
}

TEST(Overrun, ErrorEventCoversTheFrame) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  (void)rig.take();
  rig.feed({.board = 0, .frame = 10});
  const auto events = rig.take();
  ASSERT_EQ(events.size(), 3u);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].type, static_cast<std::uint8_t>(EventType::error));
    EXPECT_EQ(events[i].flags, event_flag::overrun);
    EXPECT_EQ(events[i].frame, 8 + i);
    EXPECT_EQ(events[i].n, 8 + i);
    EXPECT_EQ(events[i].bytes, 1u);
  }
  rig.finish();
}

TEST(Overrun, StalledReaderGetsOneEntryForMany) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 500; ++f) {
    rig.frame(f);
    rig.send();
    ASSERT_TRUE(rig.balances());
  }
  std::uint64_t covered = 0, receives = 0;
  const auto first = rig.take();
  EXPECT_LE(first.size(), 32u);
  for (const Event& e : first) {
    if (e.type == static_cast<std::uint8_t>(EventType::error)) {
      EXPECT_EQ(e.frame, receives + covered);
      covered += e.bytes;
    }
    if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) {
      ++receives;
      rig.answer(e);
    }
  }
  EXPECT_EQ(receives, 8u);
  EXPECT_LT(covered, 492u);
  rig.stream.receiver().expire(rig.now);  // space is available again
  const auto second = rig.take();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].frame, receives + covered);
  EXPECT_EQ(second[0].bytes, 492 - covered);
  rig.send();
  for (Frame f = 500; f < 508; ++f) rig.frame(f);
  EXPECT_EQ(rig.serve().size(), 8u);  // recovered
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_overrun, 492u);
  EXPECT_EQ(rig.stream.counters().events_dropped, 0u);
  EXPECT_EQ(rig.transmit.sent.size(), 508u);
  for (Frame f = 0; f < 508; ++f) EXPECT_EQ(rig.transmit.sent[f].frame, f);
}

TEST(Overrun, BuffersComeBackInAnyOrder) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 8u);
  for (const Event& e : events) rig.post(e);
  rig.send();
  for (const unsigned i : {6u, 1u, 7u, 3u}) rig.give_back(events[i]);
  for (Frame f = 8; f < 16; ++f) rig.frame(f);
  std::vector<Frame> got;
  for (const Event& e : rig.serve()) got.push_back(e.frame);
  EXPECT_EQ(got, (std::vector<Frame>{9, 11, 14, 15}));
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_overrun, 4u);
}

TEST(Overrun, ReturnAloneDoesNotFreeABufferWithAPendingAnswer) {
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  rig.serve();
  rig.feed({.board = 0, .frame = 8});  // answers are posted and buffers returned, but nothing is sent yet
  EXPECT_EQ(rig.lost(Lost::overrun), 1u);
  rig.send();
  rig.feed({.board = 0, .frame = 9});
  EXPECT_EQ(rig.lost(Lost::overrun), 1u);
  rig.finish();
}

TEST(Overrun, SlowReaderIsNeverLapped) {
  // Buffers are returned while one event stays unfinished: the queue runs out, not the CLOP.
  Rig rig(eight());
  rig.sobs();
  for (Frame f = 0; f < 200; ++f) {
    rig.frame(f);
    ++rig.now;
    for (const Event& e : rig.take(0, true))
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) rig.answer(e);
    rig.send();
    ASSERT_LE(rig.queue[0].next, 32u);
  }
  EXPECT_GT(rig.stream.counters().frames_overrun, 150u);
  rig.finish();
}

TEST(Overrun, ReplayWaitsForTheReader) {
  Rig rig(eight());
  int waits = 0;
  rig.stream.receiver().on_full([&] {
    ++waits;
    (void)rig.take();  // finishes the events read
  });
  rig.sobs();
  for (Frame f = 0; f < 200; ++f) {
    rig.frame(f);
    ++rig.now;
    for (const Event& e : rig.take(0, true))
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) rig.answer(e);
    rig.send();
  }
  EXPECT_GT(waits, 5);
  EXPECT_EQ(rig.stream.counters().frames_overrun, 0u);
  rig.finish();
}

TEST(Overrun, ManyOpenFramesCloseAtOnceIntoANearlyFullQueue) {
  ClopOptions options = rig_options(64);
  options.deadline = 200'000;
  Rig rig(options);
  rig.sobs();
  Frame f = 0;
  for (; f < 100; ++f) {  // 201 entries held
    rig.frame(f);
    for (const Event& e : rig.take(0, true))
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) rig.answer(e);
    rig.send();
  }
  rig.feed({.board = 0, .frame = f + 60});  // far more than the remaining entries
  rig.expire(rig.now + 1000);
  (void)rig.take(0, true);
  rig.send();
  (void)rig.take(0, true);
  EXPECT_LE(rig.queue[0].next, 256u);
  Event e;
  EXPECT_EQ(contract::poll_event(rig.views[0], 0, e), contract::Poll::event);
  rig.finish();
}

TEST(Overrun, BufferGivenBackBeforeItWasHandedOverIsNotTaken) {
  Rig rig(eight());
  rig.sobs();
  rig.feed({.board = 0, .frame = 0});
  rig.now += 20'000;
  EXPECT_EQ(rig.send(), 1u);  // late while it is still open
  contract::return_buffer(rig.views[0], 0);
  for (Frame f = 1; f < 8; ++f) rig.frame(f);
  rig.feed({.board = 0, .frame = 8});
  EXPECT_EQ(rig.lost(Lost::overrun), 1u);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 1u);  // finish() answers it
}

TEST(Overrun, GarbageInTheConsumersWordsDoesNoHarm) {
  Rig rig(eight());
  rig.sobs();
  std::uint32_t word = 12345;
  for (Frame f = 0; f < 400; ++f) {
    rig.frame(f);
    for (unsigned i = 0; i < 8; ++i) {
      word = word * 1664525 + 1013904223;
      rig.views[0].returned[i] = word % 3 ? word : f;
      auto& d = rig.views[0].ring[word >> 29];
      d.address = word % 2 ? reinterpret_cast<std::uintptr_t>(rig.views[0].send_buffers) + word % 20'000
                           : ~std::uint64_t{word};
      d.bytes = word % 5 ? word >> 20 : word;
      d.destination = word % 4;
      d.lap = f / 8 + word % 3;
    }
    rig.now += 500;
    rig.stream.receiver().expire(rig.now);
    rig.send();
    (void)rig.take();
    ASSERT_TRUE(rig.balances());
  }
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
