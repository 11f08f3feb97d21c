// SPDX-License-Identifier: Apache-2.0
// Tests of TTC time in the simulated card: merged buffers, closing of frames, deadline of answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "model.hpp"
#include "nanet/card/software/rig_test.hpp"
#include "nanet/gateware/simulated.hpp"
#include "nanet/ttc/deadline.hpp"

namespace nanet::gateware {
namespace {

namespace flag = wire::mgp::flag;

constexpr std::uint8_t burst = 7;
constexpr Frame frames = 20;
constexpr Frame further = 60;  // beyond the timeout; the end of the run closes open frames
constexpr std::uint8_t locked_in_burst = 3, locked_lost = 5;

struct NoTriggers final : card::TriggerObserver {
  void answered(std::span<const std::byte>) noexcept override {}
  void released(std::uint8_t, Timestamp, std::uint8_t) noexcept override {}
  void flush() noexcept override {}
};

struct Run {
  bool final = true;  // the card has final trigger
  bool sob = true;    // of boards and TTC
  BoardId boards = 4;
  Frame sent = frames;
  bool merge = true;
  Timestamp latency = 4000;
  Timestamp close_ticks = 0;
  bool read_counters = false;  // during the run, as the card does
  unsigned log2_page = 21;
  unsigned events = 3;  // of a packet
  Frame batch = 1;      // frames that a board sends before the next board does
};

struct Seen {
  std::vector<contract::FrameHeader> headers;
  std::vector<std::uint64_t> closed, late;  // cycles of their events; of header-only answers, by frame
  std::uint64_t out_of_time = 0, burst_mismatch = 0;
};

// Frames with a packet of each board.
Seen run_card(const Run& given) {
  card::ClopOptions clop;
  clop.rules.boards = 0xF;
  clop.merge = given.merge;
  clop.segment_bytes = 8192;
  clop.buffers = 256;
  clop.timeout = 200'000;
  clop.deadline = 400'000;
  clop.destinations = {{0x0A000003, 58914}};
  card::FakeTransmit transmit;
  SimulationOptions made;
  made.driver.log2_page = given.log2_page;
  Simulation simulation(clop, 0, transmit, made);
  NoTriggers observer;
  card::CardTriggerOptions options;
  options.latency = given.latency;
  options.close_ticks = given.close_ticks;
  const card::CardTriggerCounts* counts = nullptr;
  if (given.final) counts = simulation.stream().release_triggers(options, &observer);
  Seen seen;
  std::uint64_t next = 0;
  const auto run = [&](std::uint64_t cycles) {
    simulation.run(cycles);
    const contract::View view = simulation.stream().views().front();
    contract::Event event;
    while (contract::poll_event(view, next, event) == contract::Poll::event) {
      contract::release(*view.finished, ++next);
      if (event.type == static_cast<std::uint8_t>(contract::EventType::send_done) &&
          event.flags & contract::event_flag::late)
        seen.late.push_back(event.time_ns);
      if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done)) continue;
      seen.closed.push_back(event.time_ns);
      std::memcpy(&seen.headers.emplace_back(), view.buffer(event.buffer), sizeof(contract::FrameHeader));
    }
  };
  if (given.sob)
    for (BoardId b = 0; b < 4; ++b)
      simulation.datagram(b & 1u, card::build_marker(flag::sob, b, 0, 0, burst));
  for (Frame f = 0; f < given.sent; f += given.batch) {
    for (BoardId b = 0; b < given.boards; ++b)
      for (Frame g = f; g < f + given.batch; ++g)
        simulation.datagram(
            b & 1u, card::build({.board = b, .frame = g, .burst = burst, .events = given.events}, g + 1));
    run(1000);
    if (given.read_counters && simulation.counters_due()) simulation.read_counters();
  }
  simulation.drain();
  for (unsigned i = 0; i < 400 && seen.headers.size() < given.sent; ++i) run(1000);
  simulation.read_counters();
  if (counts) {
    seen.out_of_time = counts->out_of_time;
    seen.burst_mismatch = counts->burst_mismatch;
  }
  return seen;
}

TEST(BufferTime, PacketsOfAFrameComeAtItsEnd) {
  const Seen seen = run_card({});
  ASSERT_EQ(seen.headers.size(), frames);
  for (const contract::FrameHeader& h : seen.headers) {
    EXPECT_EQ(h.layout, contract::Layout::merged);
    EXPECT_EQ(h.ttc, locked_in_burst);
    const std::uint32_t end = (h.frame + 1) * 256;  // periods
    EXPECT_GE(h.first_period, end);
    EXPECT_LT(h.first_period, end + 50);
    EXPECT_GE(h.close_period, h.first_period);
    EXPECT_LT(h.close_period, end + 250);
  }
  EXPECT_EQ(seen.out_of_time, 0u);
  EXPECT_EQ(seen.burst_mismatch, 0u);
}

TEST(BufferTime, IsZeroWithoutReceiver) {
  const Seen seen = run_card({.final = false});
  ASSERT_EQ(seen.headers.size(), frames);
  for (const contract::FrameHeader& h : seen.headers) {
    EXPECT_EQ(h.layout, contract::Layout::merged);
    EXPECT_EQ(h.ttc, 0);
    EXPECT_EQ(h.first_period | h.close_period, 0u);
  }
}

TEST(BufferTime, BoardsOfALinkDoNotWaitForEachOther) {
  // The host reads a board's packets of ten frames before those of the other board on its link.
  const Seen seen = run_card({.close_ticks = 200, .batch = 10});
  ASSERT_EQ(seen.headers.size(), frames);
  for (const contract::FrameHeader& h : seen.headers) {
    EXPECT_EQ(h.complete, 0xF) << h.frame;
    EXPECT_LT(h.first_period, (h.frame + 1) * 256 + 50);
  }
}

TEST(BufferTime, ReadsOfTheCountersDelayNoPacket) {
  constexpr Frame sent = 200;
  const Seen seen = run_card({.sent = sent, .close_ticks = 200, .read_counters = true});
  ASSERT_EQ(seen.headers.size(), sent);
  for (const contract::FrameHeader& h : seen.headers) {
    EXPECT_EQ(h.complete, 0xF) << h.frame;
    EXPECT_LT(h.first_period, (h.frame + 1) * 256 + 50);
  }
}

TEST(BufferTime, ReadsOfTheCountersDelayNoTranslation) {
  // In pages of 32 KB each frame needs the translation of the firmware, for which long packets wait.
  constexpr Frame sent = 200;
  const Seen seen = run_card({.sent = sent,
                              .merge = false,
                              .close_ticks = 300,
                              .read_counters = true,
                              .log2_page = 15,
                              .events = 60});
  ASSERT_EQ(seen.headers.size(), sent);
  for (const contract::FrameHeader& h : seen.headers) EXPECT_EQ(h.complete, 0xF) << h.frame;
}

TEST(BufferTime, AFrameWithoutABoardClosesByTtcTime) {
  constexpr Timestamp ticks = 700;
  for (const bool merge : {true, false}) {
    const Seen seen = run_card({.boards = 3, .sent = frames + further, .merge = merge, .close_ticks = ticks});
    ASSERT_GE(seen.headers.size(), frames);
    for (const contract::FrameHeader& h : std::span(seen.headers).first(frames)) {
      EXPECT_EQ(h.complete, 0x7);
      if (!merge) continue;  // no TTC time in the header
      const std::uint32_t closes = (h.frame + 1) * 256 + ticks;
      EXPECT_GE(h.close_period, closes);
      EXPECT_LT(h.close_period, closes + 100);
    }
  }
}

TEST(BufferTime, AFrameWithoutABoardClosesAtItsTimeoutFirst) {
  const Seen seen =
      run_card({.boards = 3, .sent = frames + further, .latency = 30'000, .close_ticks = 60'000});
  ASSERT_GE(seen.headers.size(), frames);
  for (const contract::FrameHeader& h : std::span(seen.headers).first(frames)) {
    const double after = (h.close_period - h.first_period) * period_ns;
    EXPECT_GE(after, 200'000 - period_ns);
    EXPECT_LT(after, 230'000);  // with the driver's grace
  }
}

TEST(BufferTime, AnAnswerIsLateBeforeItsTriggersAre) {
  constexpr Timestamp latency = 4000;
  const Seen seen = run_card({.sent = frames + further, .latency = latency});
  ASSERT_GE(seen.headers.size(), frames);
  ASSERT_GE(seen.late.size(), frames);
  // Periods of the card's clock: an event follows its frame's closing.
  const auto periods = [](std::uint64_t cycle) {
    return static_cast<double>(cycle) * sim::cycle_ns / period_ns;
  };
  double begin = periods(seen.closed[0]) - seen.headers[0].close_period;
  for (Frame f = 1; f < frames; ++f)
    begin = std::min(begin, periods(seen.closed[f]) - seen.headers[f].close_period);
  for (Frame f = 0; f < frames; ++f) {
    const double after = periods(seen.late[f]) - begin - (f * 256.0 + ttc::answer_deadline(latency));
    EXPECT_GE(after, -40) << f;
    EXPECT_LE(after, 40) << f;
  }
}

TEST(BufferTime, PacketsOlderThanLatencyAreCounted) {
  const Seen seen = run_card({.latency = 10});
  EXPECT_EQ(seen.headers.size(), frames);
  EXPECT_GE(seen.out_of_time, frames * 3);  // the first packet of a frame takes about ten periods
}

TEST(BufferTime, ABurstWithoutSobIsCountedAndMerged) {
  const Seen seen = run_card({.sob = false});
  EXPECT_FALSE(seen.headers.empty());
  for (const contract::FrameHeader& h : seen.headers) {
    EXPECT_EQ(h.layout, contract::Layout::merged);
    EXPECT_EQ(h.ttc, locked_lost);
    EXPECT_EQ(h.complete, 0xF);
  }
  EXPECT_EQ(seen.burst_mismatch, 1u);
  EXPECT_EQ(seen.out_of_time, 0u);
}

}  // namespace
}  // namespace nanet::gateware
