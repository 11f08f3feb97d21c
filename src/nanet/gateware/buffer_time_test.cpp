// SPDX-License-Identifier: Apache-2.0
// Tests of the TTC time in merged buffers of the simulated card.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {
namespace {

namespace flag = wire::mgp::flag;

constexpr std::uint8_t burst = 7;
constexpr Frame frames = 20;
constexpr std::uint8_t locked_in_burst = 3;

struct NoTriggers final : card::TriggerObserver {
  void answered(std::span<const std::byte>) noexcept override {}
  void released(std::uint8_t, Timestamp, std::uint8_t) noexcept override {}
  void flush() noexcept override {}
};

// Headers of frames with a packet of each board, from a card with or without final trigger.
std::vector<contract::FrameHeader> headers(bool final) {
  card::ClopOptions clop;
  clop.rules.boards = 0xF;
  clop.merge = true;
  clop.segment_bytes = 8192;
  clop.buffers = 256;
  clop.timeout = 200'000;
  clop.deadline = 400'000;
  clop.destinations = {{0x0A000003, 58914}};
  card::FakeTransmit transmit;
  Simulation simulation(clop, 0, transmit, {});
  NoTriggers observer;
  card::CardTriggerOptions options;
  options.latency = 4000;
  if (final) simulation.stream().release_triggers(options, &observer);
  std::vector<contract::FrameHeader> seen;
  std::uint64_t next = 0;
  const auto run = [&](std::uint64_t cycles) {
    simulation.run(cycles);
    const contract::View view = simulation.stream().views().front();
    contract::Event event;
    while (contract::poll_event(view, next, event) == contract::Poll::event) {
      contract::release(*view.finished, ++next);
      if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done)) continue;
      seen.emplace_back();
      std::memcpy(&seen.back(), view.buffer(event.buffer), sizeof seen.back());
    }
  };
  for (BoardId b = 0; b < 4; ++b) simulation.datagram(b & 1u, card::build_marker(flag::sob, b, 0, 0, burst));
  for (Frame f = 0; f < frames; ++f) {
    for (BoardId b = 0; b < 4; ++b)
      simulation.datagram(b & 1u, card::build({.board = b, .frame = f, .burst = burst, .events = 3}, f + 1));
    run(1000);
  }
  simulation.drain();
  for (unsigned i = 0; i < 400 && seen.size() < frames; ++i) run(1000);
  return seen;
}

TEST(BufferTime, PacketsOfAFrameComeAtItsEnd) {
  const auto seen = headers(true);
  ASSERT_EQ(seen.size(), frames);
  for (const contract::FrameHeader& h : seen) {
    EXPECT_EQ(h.layout, contract::Layout::merged);
    EXPECT_EQ(h.ttc, locked_in_burst);
    const std::uint32_t end = (h.frame + 1) * 256;  // periods
    EXPECT_GE(h.first_period, end);
    EXPECT_LT(h.first_period, end + 50);
    EXPECT_GE(h.close_period, h.first_period);
    EXPECT_LT(h.close_period, end + 250);
  }
}

TEST(BufferTime, IsZeroWithoutReceiver) {
  const auto seen = headers(false);
  ASSERT_EQ(seen.size(), frames);
  for (const contract::FrameHeader& h : seen) {
    EXPECT_EQ(h.layout, contract::Layout::merged);
    EXPECT_EQ(h.ttc, 0);
    EXPECT_EQ(h.first_period | h.close_period, 0u);
  }
}

}  // namespace
}  // namespace nanet::gateware
