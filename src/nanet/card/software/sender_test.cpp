// SPDX-License-Identifier: Apache-2.0
// Tests of the sender: order of numbers, deadlines, late answers, faulty descriptors, partial sends, several
// consumer devices.
#include "nanet/card/software/sender.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "nanet/card/frame_periods.hpp"
#include "nanet/card/software/rig_test.hpp"

namespace nanet::card {
namespace {

struct Limits final : AnswerLimit {
  Nanoseconds latest(std::uint64_t n) const noexcept override {
    const auto it = at.find(n);
    return it == at.end() ? std::numeric_limits<Nanoseconds>::max() : it->second;
  }
  std::map<std::uint64_t, Nanoseconds> at;
};

TEST(Sender, ALimitAdvancesTheDeadline) {
  Rig rig;
  Limits limits;
  ASSERT_TRUE(rig.stream.limit_answers(&limits));
  rig.sobs();
  for (Frame f = 0; f < 3; ++f) rig.frame(f);
  const Nanoseconds first = rig.now;
  limits.at = {{0, first + 2000}, {2, first + 9000}};  // the deadline is 6000
  const auto events = rig.take(EventType::receive_done);
  EXPECT_EQ(rig.stream.sender().next_deadline(), first + 2000);
  rig.now = first + 1999;
  EXPECT_EQ(rig.send(), 0u);
  rig.now = first + 2000;
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.transmit.sent[0].sub_id, 0xFF);
  EXPECT_EQ(rig.stream.sender().next_deadline(), first + 6000);
  rig.answer(events[1]);
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.stream.sender().next_deadline(), first + 6000);
  rig.now = first + 6000;
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.stream.counters().frames_late, 2u);
  rig.answer(events[0]);
  rig.answer(events[2]);
  rig.finish();
}

// Order of the calls, and the periods of late frames.
struct LateFrames final : AnswerObserver {
  bool wants_late() const noexcept override { return true; }
  void passed_late(std::uint64_t n, Frame frame, const FramePeriods& of) noexcept override {
    calls.push_back(n);
    std::set<unsigned>& set = periods[frame];
    of.each([&](unsigned period) {
      EXPECT_TRUE(of.has(period));
      set.insert(period);
    });
  }
  void sent(std::uint64_t n, std::span<const std::byte>) noexcept override { calls.push_back(100 + n); }
  void flush() noexcept override {}
  std::vector<std::uint64_t> calls;
  std::map<Frame, std::set<unsigned>> periods;
};

TEST(Sender, ReportsThePeriodsOfLateFrames) {
  using Set = std::set<unsigned>;
  for (const bool merge : {false, true}) {
    ClopOptions options = rig_options();
    options.merge = merge;
    Rig rig(options);
    LateFrames late;
    rig.stream.observe_answers(&late);
    rig.sobs();
    rig.feed({.board = 0, .frame = 0, .events = 3});
    rig.feed({.board = 1, .frame = 0, .events = 5});
    rig.feed({.board = 2, .frame = 0});
    rig.feed({.board = 3, .frame = 0});
    rig.frame(1);
    // An open frame, with two packets of a board.
    rig.feed({.board = 1, .frame = 2, .last = false, .events = 2});
    rig.feed({.board = 1, .frame = 2, .index = 1, .events = 40});
    const auto events = rig.take(EventType::receive_done);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(rig.header(events[0]).layout == contract::Layout::merged, merge);
    rig.answer(events[1]);
    rig.now += 6000;
    rig.send();
    EXPECT_EQ(late.calls, (std::vector<std::uint64_t>{0, 100, 1, 101, 2, 102}));  // all at their deadline
    EXPECT_EQ(late.periods[0], (Set{0, 1, 2, 3, 4}));
    EXPECT_EQ(late.periods[1], (Set{0}));
    EXPECT_EQ(late.periods[2].size(), 40u);
    EXPECT_EQ(*late.periods[2].rbegin(), 39u);
    rig.answer(events[0]);
    rig.finish();
  }
}

TEST(Sender, SendsByNumberForAnyOrderOfAnswers) {
  Rig rig;
  rig.sobs();
  for (Frame f = 0; f < 6; ++f) rig.frame(f);
  const auto events = rig.take(EventType::receive_done);
  ASSERT_EQ(events.size(), 6u);
  for (const unsigned i : {3u, 1u, 5u, 2u}) rig.answer(events[i]);
  EXPECT_EQ(rig.send(), 0u);
  rig.answer(events[0]);
  EXPECT_EQ(rig.send(), 4u);
  rig.answer(events[4]);
  EXPECT_EQ(rig.send(), 2u);
  for (Frame f = 0; f < 6; ++f) {
    EXPECT_EQ(rig.transmit.sent[f].frame, f);
    EXPECT_EQ(rig.transmit.sent[f].sub_id, 0);
    EXPECT_EQ(rig.observer.all[f].n, f);
  }
  rig.finish();
}

TEST(Sender, SendsTheBytesOfTheDescriptorToItsDestination) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  const auto events = rig.take(EventType::receive_done);
  std::byte* at = rig.views[0].send_buffer(events[0].buffer);
  for (unsigned i = 0; i < 1472; ++i) at[i] = static_cast<std::byte>(i * 7);
  contract::post(rig.views[0], 0, at, 1472, 1, 0xABCD);
  rig.send();
  ASSERT_EQ(rig.transmit.sent.size(), 1u);
  EXPECT_EQ(rig.transmit.sent[0].destination, 1u);
  ASSERT_EQ(rig.transmit.sent[0].bytes.size(), 1472u);
  EXPECT_EQ(std::memcmp(rig.transmit.sent[0].bytes.data(), at, 1472), 0);
  const auto done = rig.take(EventType::send_done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].buffer, 0xABCDu);  // the token
  EXPECT_EQ(done[0].n, 0u);
  EXPECT_EQ(done[0].frame, 0u);
  EXPECT_EQ(done[0].flags, 0);
  rig.give_back(events[0]);
  rig.finish();
}

TEST(Sender, DeadlineAnswersHeaderOnlyAndTheRealAnswerIsDropped) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  const Nanoseconds first = rig.now;
  rig.now += 100;
  rig.frame(1);
  const auto events = rig.take(EventType::receive_done);
  rig.answer(events[1]);
  EXPECT_EQ(rig.stream.sender().next_deadline(), first + 6000);
  rig.now = first + 5999;
  EXPECT_EQ(rig.send(), 0u);
  rig.now = first + 6000;
  EXPECT_EQ(rig.send(), 2u);
  EXPECT_EQ(rig.transmit.sent[0].sub_id, 0xFF);
  EXPECT_EQ(rig.transmit.sent[0].bytes.size(), 8u);
  EXPECT_EQ(rig.transmit.sent[1].sub_id, 0);
  const auto done = rig.take(EventType::send_done);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].flags, event_flag::late);
  EXPECT_EQ(done[1].flags, 0);
  EXPECT_EQ(rig.stream.counters().frames_late, 1u);
  rig.answer(events[0]);
  EXPECT_EQ(rig.send(), 0u);
  rig.finish();
  EXPECT_EQ(rig.transmit.sent.size(), 2u);
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 1u);
  EXPECT_EQ(rig.observer.late_answers, (std::vector<std::uint64_t>{0}));
}

TEST(Sender, BufferReturnedWithoutADescriptorIsAnsweredHeaderOnlyAtOnce) {
  Rig rig;
  rig.sobs();
  for (Frame f = 0; f < 3; ++f) rig.frame(f);
  const auto events = rig.take(EventType::receive_done);
  rig.give_back(events[1]);
  EXPECT_EQ(rig.send(), 0u);  // in order
  rig.give_back(events[0]);
  EXPECT_EQ(rig.send(), 2u);
  rig.answer(events[2]);
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.transmit.sent[0].sub_id, 0xFF);
  EXPECT_EQ(rig.transmit.sent[1].sub_id, 0xFF);
  EXPECT_EQ(rig.transmit.sent[2].sub_id, 0);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().frames_late, 2u);
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 0u);
}

TEST(Sender, LateAnswerIsReapedWhenItsBufferIsHandedOutAgain) {
  ClopOptions options = rig_options(8);
  options.deadline = 20'000;
  Rig rig(options);
  rig.sobs();
  for (Frame f = 0; f < 8; ++f) rig.frame(f);
  const auto events = rig.take(EventType::receive_done);
  rig.now += 20'000;
  EXPECT_EQ(rig.send(), 8u);
  for (unsigned i = 0; i < 8; ++i)
    i == 3 ? rig.give_back(events[i]) : rig.answer(events[i]);  // 3 receives no answer
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 0u);
  for (Frame f = 8; f < 16; ++f) rig.frame(f);
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 7u);
  EXPECT_EQ(rig.observer.late_answers.size(), 8u);
  rig.finish();
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 7u);
}

TEST(Sender, OpenFrameIsLateAtItsDeadlineToo) {
  ClopOptions options = rig_options();
  options.timeout = 1'000'000;
  Rig rig(options);
  rig.sobs();
  rig.feed({.board = 0, .frame = 0});
  rig.now += 6000;
  EXPECT_EQ(rig.send(), 1u);
  EXPECT_EQ(rig.transmit.sent[0].sub_id, 0xFF);
  for (BoardId b = 1; b < 4; ++b) rig.feed({.board = b, .frame = 0});
  EXPECT_EQ(rig.serve().size(), 1u);  // it still has a receive event
  rig.finish();
  EXPECT_EQ(rig.stream.counters().answers_after_deadline, 1u);
}

TEST(Sender, FaultyDescriptorsAreAnsweredHeaderOnly) {
  Rig rig;
  rig.sobs();
  const auto& v = rig.views[0];
  const std::size_t size = std::size_t{contract::send_buffer_bytes} * v.shape.buffers;
  struct Fault {
    const std::byte* at;
    std::uint32_t bytes, destination;
  };
  const std::vector<Fault> faults{{nullptr, 8, 0},
                                  {v.send_buffers - 1, 8, 0},
                                  {v.send_buffers + size - 7, 8, 0},
                                  {v.send_buffers + size, 1, 0},
                                  {v.send_buffer(4), 1473, 0},
                                  {v.send_buffer(5), 0xFFFFFFFF, 0},
                                  {v.send_buffer(6), 8, 2},
                                  {v.clop, 8, 0}};
  for (Frame f = 0; f < faults.size(); ++f) {
    rig.frame(f);
    const auto events = rig.take(EventType::receive_done);
    contract::post(v, f, faults[f].at, faults[f].bytes, faults[f].destination);
    rig.give_back(events[0]);
    EXPECT_EQ(rig.send(), 1u);
    EXPECT_EQ(rig.transmit.sent.back().sub_id, 0xFF);
    EXPECT_EQ(rig.transmit.sent.back().frame, f);
  }
  EXPECT_EQ(rig.stream.counters().bad_descriptors, faults.size());
  EXPECT_EQ(rig.stream.counters().frames_late, faults.size());
  rig.finish();
}

TEST(Sender, RestOfAPartlyAcceptedBatchIsSentLater) {
  Rig rig;
  rig.sobs();
  for (Frame f = 0; f < 200; ++f) rig.frame(f);
  rig.serve();
  rig.transmit.limit = 7;
  EXPECT_EQ(rig.send(), 7u);
  EXPECT_EQ(rig.take(EventType::send_done).size(), 7u);
  rig.transmit.limit = 0;
  EXPECT_EQ(rig.send(), 0u);
  rig.transmit.limit = 64;
  EXPECT_EQ(rig.send(), 193u);
  for (Frame f = 0; f < 200; ++f) EXPECT_EQ(rig.transmit.sent[f].frame, f);
  rig.finish();
}

TEST(Sender, SkippedNumbersArePassedOver) {
  Rig rig;
  rig.sobs();
  rig.frame(0);
  rig.feed({.board = 0, .frame = 3000});
  rig.feed({.board = 0, .frame = 3001});
  rig.feed({.board = 0, .frame = 9000});
  rig.feed({.board = 0, .frame = 9001});
  rig.expire(rig.now + 1000);
  rig.serve();
  EXPECT_EQ(rig.send(), 3u);
  EXPECT_TRUE(rig.stream.passed_all());
  EXPECT_EQ(rig.transmit.sent[1].frame, 3001u);
  EXPECT_EQ(rig.transmit.sent[2].frame, 9001u);
  rig.finish();
}

TEST(Sender, TwoDevicesShareTheNumbersInTurn) {
  ClopOptions options = rig_options(8);
  options.devices = 2;
  options.deadline = 40'000;
  Rig rig(options);
  rig.sobs();
  std::array<std::uint64_t, 2> begins{};
  for (Frame f = 0; f < 200; ++f) {
    rig.frame(f);
    for (std::size_t d = 0; d < 2; ++d)
      for (const Event& e : rig.take(d)) {
        if (e.type == static_cast<std::uint8_t>(EventType::burst_begins)) ++begins[d];
        if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
        ASSERT_EQ(e.n % 2, d);
        ASSERT_EQ(e.buffer, e.n / 2 % 8);
        ASSERT_EQ(rig.header(e, d).frame, f);
        rig.answer(e, d);
      }
    if (f % 8 == 7) {
      ASSERT_EQ(rig.send(), 8u);
    }
  }
  EXPECT_EQ(begins, (std::array<std::uint64_t, 2>{1, 1}));  // every device gets the event
  for (Frame f = 0; f < 200; ++f) EXPECT_EQ(rig.transmit.sent[f].frame, f);
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  rig.finish();
}

TEST(Sender, OneStalledDeviceLeavesTheOtherItsBuffers) {
  ClopOptions options = rig_options(8);
  options.devices = 2;
  options.deadline = 40'000;
  Rig rig(options);
  rig.sobs();
  for (Frame f = 0; f < 64; ++f) {
    rig.now += 6000;
    rig.frame(f);
    rig.serve(0);
    rig.send();
  }
  EXPECT_EQ(rig.stream.counters().frames_overrun, 32u - 8);
  rig.finish();
  for (Frame f = 0; f < 64; ++f) {
    EXPECT_EQ(rig.transmit.sent[f].frame, f);
    EXPECT_EQ(rig.transmit.sent[f].sub_id, f % 2 ? 0xFF : 0);
  }
}

TEST(Buffers, DefaultHoldsTwiceTheDeadlineAndTooFewAreRefused) {
  EXPECT_EQ(default_buffers(1'000'000), 2048u);
  EXPECT_EQ(default_buffers(50'000'000), 16384u);
  EXPECT_EQ(default_buffers(50'000'000, 2), 8192u);
  EXPECT_NO_THROW(check_buffers(16384, 50'000'000));
  EXPECT_NO_THROW(check_buffers(8, 0));
  try {
    check_buffers(8192, 50'000'000);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("8192"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("16384"), std::string::npos);
  }
  EXPECT_THROW(Rig(rig_options(100)), std::invalid_argument);
}

}  // namespace
}  // namespace nanet::card
