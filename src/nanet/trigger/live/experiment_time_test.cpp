// SPDX-License-Identifier: Apache-2.0
// Tests of the experiment's time in the trigger: deadlines by TTC, bursts, sources, wrong datagrams.
#include "nanet/trigger/live/experiment_time.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cmath>
#include <limits>

#include "nanet/os/socket.hpp"

namespace nanet::trigger {
namespace {

constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();
constexpr Timestamp latency = 10'000;
constexpr double speed = 0.01;

using Bytes = std::array<std::byte, ttc::sync_bytes>;

Bytes sync(std::uint8_t burst, std::uint64_t period, std::int64_t tai) {
  Bytes bytes;
  ttc::encode(bytes, {burst, true, period, tai, 0});
  return bytes;
}

Nanoseconds wall(double periods) {
  return std::llround(periods * period_ns / speed);
}

ExperimentTimeOptions options_of(TimeSource source) {
  return {{0x7F000001, 0}, source, speed};
}

// Deadline of a frame: 20 us of the experiment before t + L of its first period.
Nanoseconds due(Nanoseconds sob, Frame frame) {
  return sob + wall(256.0 * frame + latency) - std::llround(20'000 / speed);
}

TEST(ExperimentTime, SetsTheDeadlineOfEachBurst) {
  ExperimentTime time(options_of(TimeSource::ptp), latency);
  const Nanoseconds tai = ttc::tai_offset(), sob = os::monotonic_now(), next = sob + 5'000'000'000;
  const auto near = [](Nanoseconds a, Nanoseconds b) { return std::abs(a - b) < 2000; };  // half a period
  EXPECT_EQ(time.latest(0), never);
  time.burst_began(0x107, 40);
  EXPECT_EQ(time.latest(41), never);  // no sync yet
  time.receive(sync(7, 1000, sob + tai + wall(1000)), sob);
  EXPECT_EQ(time.latest(39), never);  // of an unknown burst
  for (const Frame frame : {0U, 1U, 500'000U})
    EXPECT_TRUE(near(time.latest(40 + frame), due(sob, frame) + wall(0))) << frame;
  // The time of the next burst keeps that of the frames before.
  time.receive(sync(8, 0, next + tai), next);
  EXPECT_TRUE(near(time.latest(40), due(sob, 0)));
  time.burst_began(0x108, 100);
  EXPECT_TRUE(near(time.latest(99), due(sob, 59)));
  EXPECT_TRUE(near(time.latest(100), due(next, 0)));
  time.burst_began(0x109, 200);
  EXPECT_EQ(time.latest(200), never);
  EXPECT_TRUE(near(time.latest(199), due(next, 99)));
}

TEST(ExperimentTime, AJumpLeavesTheUsualDeadline) {
  ExperimentTime time(options_of(TimeSource::ptp), latency);
  const Nanoseconds tai = ttc::tai_offset(), sob = os::monotonic_now();
  time.burst_began(1, 0);
  time.receive(sync(1, 0, sob + tai), sob);
  EXPECT_NE(time.latest(0), never);
  time.receive(sync(1, 100, sob + tai + wall(100) + 5000), sob);
  EXPECT_EQ(time.latest(0), never);
}

TEST(ExperimentTime, FollowsTheLeastDelayOfDatagrams) {
  ExperimentTime time(options_of(TimeSource::udp), latency);
  const Nanoseconds sob = 1'000'000'000'000;
  time.burst_began(1, 0);
  for (unsigned i = 0; i < 127; ++i) time.receive(sync(1, 500 * i, 0), sob + wall(500 * i) + (i % 8) * 100);
  EXPECT_EQ(time.latest(0), never);  // after two blocks of 64
  time.receive(sync(1, 500 * 127, 0), sob + wall(500 * 127) + 5000);
  EXPECT_NEAR(static_cast<double>(time.latest(300) - due(sob, 300)), 0, 2000);
}

TEST(ExperimentTime, TakesDatagramsFromItsSocketAndCountsOthers) {
  ExperimentTime time(options_of(TimeSource::ptp), latency);
  const os::Fd sender = os::open_udp_sender(time.listening());
  const Nanoseconds now = os::monotonic_now();
  for (unsigned i = 0; i < 40; ++i) {
    Bytes bytes = sync(3, 0, now + ttc::tai_offset());
    if (i % 4 == 0) bytes[0] = std::byte{0};
    ASSERT_GT(::send(sender.get(), bytes.data(), i % 4 == 1 ? 31 : bytes.size(), 0), 0);
  }
  time.poll(now);
  EXPECT_EQ(time.counts().syncs, 20U);
  EXPECT_EQ(time.counts().refused, 20U);
  time.burst_began(3, 0);
  EXPECT_NEAR(static_cast<double>(time.latest(0) - due(now, 0)), 0, 10'000);
}

}  // namespace
}  // namespace nanet::trigger
