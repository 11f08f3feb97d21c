// SPDX-License-Identifier: Apache-2.0
// Test of the choke by occupancy: the frame buffers in use stop the final trigger of the simulated card.
#include "nanet/trigger/live/choke.hpp"

#include <gtest/gtest.h>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {
namespace {

namespace flag = wire::mgp::flag;

constexpr std::uint8_t burst = 7;
constexpr std::uint32_t buffers = 256;

struct NoTriggers final : card::TriggerObserver {
  void answered(std::span<const std::byte>) noexcept override {}
  void released(std::uint8_t, Timestamp, std::uint8_t) noexcept override {}
  void flush() noexcept override {}
};

TEST(Choke, FollowsTheBuffersInUseToTheTriggerLine) {
  card::ClopOptions clop;
  clop.rules.boards = 0x1;
  clop.segment_bytes = 8192;
  clop.buffers = buffers;
  clop.timeout = 200'000;
  clop.deadline = 400'000;
  clop.destinations = {{0x0A000003, 58914}};
  card::FakeTransmit transmit;
  Simulation simulation(clop, 0, transmit, {});
  card::Stream& stream = simulation.stream();
  NoTriggers observer;
  card::CardTriggerOptions options;
  options.latency = 4000;
  const card::CardTriggerCounts* counts = stream.release_triggers(options, &observer);
  const stats::Counter &on = counts->specials[2], &off = counts->specials[3];
  trigger::Choke choke({.high = 0.75, .low = 0.5, .frames = {}});
  trigger::BufferFill fill;
  std::uint64_t next = 0;
  Nanoseconds now = 0;
  // As the trigger does in the card's thread.
  const auto run = [&] {
    simulation.run(1000);
    const contract::View view = stream.views().front();
    contract::Event event;
    while (contract::poll_event(view, next, event) == contract::Poll::event)
      contract::release(*view.finished, ++next);
    choke.update(fill(stream), now += 1000);
    stream.choke_triggers(choke.on());
  };
  Frame frame = 0;
  const auto frames = [&](Frame until) {
    for (; frame < until; ++frame) {
      simulation.datagram(0, card::build({.board = 0, .frame = frame, .burst = burst}, frame + 1));
      run();
    }
  };
  simulation.datagram(0, card::build_marker(flag::sob, 0, 0, 0, burst));
  frames(buffers * 3 / 4);  // the card is some frames behind
  EXPECT_GT(choke.fill(), 0.6);
  EXPECT_LT(choke.fill(), 0.75);
  EXPECT_EQ(on, 0u);
  frames(buffers * 7 / 8);
  EXPECT_TRUE(choke.on());
  EXPECT_EQ(on, 1u);
  EXPECT_EQ(off, 0u);

  const contract::View view = stream.views().front();
  for (std::uint64_t n = 0; n < buffers / 2; ++n) contract::return_buffer(view, n);
  frames(buffers);
  EXPECT_LT(choke.fill(), 0.5);
  EXPECT_EQ(on, 1u);
  EXPECT_EQ(off, 1u);
  EXPECT_EQ(choke.raised, 1u);
}

}  // namespace
}  // namespace nanet::gateware
