// SPDX-License-Identifier: Apache-2.0
// Tests of the simulated card's experiment time: times of packets, limit of the clock, bursts without SOB or
// EOB; and of the options that the card's final trigger supports.
#include "nanet/gateware/burst_clock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "model.hpp"
#include "nanet/gateware/trigger_unit.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gateware {
namespace {

namespace flag = wire::mgp::flag;

constexpr double frame_cycles = frame_ns / sim::cycle_ns;
constexpr Timestamp latency = 1000;
constexpr std::uint64_t start = 5000;
constexpr std::uint64_t free = std::uint64_t{1} << 60;  // no limit

class BurstClockTest : public testing::Test {
 protected:
  std::uint64_t packet(std::uint8_t burst, Frame frame, BoardId board = 0, std::uint8_t flags = 0) {
    std::array<std::byte, wire::mgp::header_bytes> bytes;
    wire::mgp::Header header;
    header.burst = burst;
    header.frame = frame;
    header.board = board;
    header.flags = flags;
    header.length = wire::mgp::header_bytes;
    wire::mgp::encode_header(bytes.data(), header);
    return clock.packet(bytes, now);
  }
  BurstClock clock{latency, start, 0xF};
  std::uint64_t now = start;
};

TEST_F(BurstClockTest, FramesComeAtTheirEnd) {
  EXPECT_GT(clock.limit(), free);  // no burst: the card runs freely
  const std::uint64_t sob = packet(7, 0, 0, flag::sob);
  EXPECT_GE(sob, now);
  EXPECT_LT(sob, now + 20);
  EXPECT_EQ(packet(7, 0, 1, flag::sob), sob);
  EXPECT_EQ(clock.limit(), sob);
  for (Frame f = 0; f < 100; ++f)
    for (BoardId board = 0; board < 4; ++board) {
      const auto from = static_cast<double>(packet(7, f, board));
      EXPECT_NEAR(from - static_cast<double>(sob), (f + 1) * frame_cycles, 2);
    }
  // The card stays behind the newest packet.
  EXPECT_NEAR(static_cast<double>(clock.limit() - sob), (100 - BurstClock::lead) * frame_cycles, 2);
  // A wrong number moves no time, and does not overtake.
  EXPECT_EQ(packet(7, 5000), packet(7, 99));
  EXPECT_NEAR(static_cast<double>(clock.limit() - sob), (100 - BurstClock::lead) * frame_cycles, 2);
  EXPECT_EQ(packet(6, 3), packet(7, 99));
}

TEST_F(BurstClockTest, TimeAwaitsBoardsThatHaveNotSent) {
  packet(1, 0, 0, flag::sob);
  const std::uint64_t sob = clock.limit();
  for (Frame f = 0; f < 40; ++f) packet(1, f, 0);
  EXPECT_EQ(clock.limit(), sob);
  for (BoardId board = 1; board < 4; ++board) packet(1, 0, board, flag::sob);
  EXPECT_EQ(clock.limit(), sob);
  for (BoardId board = 1; board < 4; ++board)
    for (Frame f = 0; f < 40; ++f) packet(1, f, board);
  EXPECT_NEAR(static_cast<double>(clock.limit() - sob), (40 - BurstClock::lead) * frame_cycles, 2);
}

TEST_F(BurstClockTest, TimeFollowsTheSlowestBoardThatSends) {
  for (BoardId board = 0; board < 4; ++board) packet(1, 0, board, flag::sob);
  const std::uint64_t sob = clock.limit();
  // A batch comes board by board; the fourth board is dead.
  for (Frame f = 0; f < 40; ++f) packet(1, f, 0);
  for (Frame f = 0; f < 40; ++f) packet(1, f, 1);
  for (Frame f = 0; f < 20; ++f) packet(1, f, 2);
  EXPECT_EQ(clock.limit(), sob);
  for (Frame f = 20; f < 200; ++f)
    for (BoardId board = 0; board < 3; ++board) packet(1, f, board);
  EXPECT_NEAR(static_cast<double>(clock.limit() - sob),
              (200 - BurstClock::patience - BurstClock::lead) * frame_cycles, 2);
}

TEST_F(BurstClockTest, TimeRunsOnForTheLatencyAfterTheLastEob) {
  std::uint64_t sob = 0;
  for (BoardId board = 0; board < 4; ++board) sob = packet(1, 0, board, flag::sob);
  EXPECT_GT(clock.busy_until(), free);
  for (Frame f = 0; f < 20; ++f)
    for (BoardId board = 0; board < 4; ++board) packet(1, f, board);
  for (BoardId board = 0; board < 3; ++board) packet(1, 19, board, flag::eob);
  EXPECT_LT(clock.limit(), free);
  packet(1, 19, 3, flag::eob);
  EXPECT_GT(clock.limit(), free);
  const double after = static_cast<double>(clock.busy_until() - sob) - 20 * frame_cycles;
  EXPECT_GT(after, latency * period_ns / sim::cycle_ns);
  EXPECT_LT(after, (latency + 300) * period_ns / sim::cycle_ns);
  // The next burst begins a turn of the latency memory after the one before.
  now = sob + 30'000;
  const std::uint64_t next = packet(2, 0, 0, flag::sob);
  EXPECT_GT(next, sob + std::uint64_t{1 << 15} * 3);
  EXPECT_EQ(clock.burst_at(next - 1), 1);
  EXPECT_EQ(clock.burst_at(next), 2);
  // A release belongs to the burst in which it leaves.
  constexpr double since = 100 * period_ns / sim::cycle_ns;
  EXPECT_NEAR(clock.cycle_of(100, next - 1), static_cast<double>(sob) + since, 2);
  EXPECT_NEAR(clock.cycle_of(100, next), static_cast<double>(next) + since, 2);
}

TEST_F(BurstClockTest, MissingMarkersStopNoClock) {
  EXPECT_EQ(packet(1, 0), 0u);  // no SOB: untimed
  EXPECT_GT(clock.limit(), free);
  packet(2, 0, 0, flag::sob);
  std::uint64_t last = 0;
  for (Frame f = 0; f < 20; ++f) last = packet(2, f);
  EXPECT_LT(clock.limit(), free);
  EXPECT_EQ(packet(3, 0), last);  // neither EOB of 2 nor SOB of 3
  EXPECT_GT(clock.limit(), free);
  packet(4, 0, 0, flag::sob);
  packet(4, 30);
  EXPECT_LT(clock.limit(), free);
  clock.drain();
  EXPECT_GT(clock.limit(), free);
  EXPECT_LT(clock.busy_until(), free);
  EXPECT_EQ(clock.packet({}, now), 0u);
}

TEST(TriggerUnit, NamesWhatTheCardCannotHold) {
  const auto refused = [](const card::CardTriggerOptions& options) -> std::string {
    try {
      TriggerUnit::check(options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  card::CardTriggerOptions options;
  options.latency = 4000;
  options.masks[0] = {0, 0, 0x1F, 1};
  EXPECT_EQ(refused(options), "");
  options.latency = 9;
  EXPECT_NE(refused(options).find("final.latency_us"), std::string::npos);
  options.latency = 1 << 15;
  EXPECT_NE(refused(options).find("final.latency_us"), std::string::npos);
  options.latency = 4000;
  options.min_ticks = 16;
  EXPECT_NE(refused(options).find("final.min_ticks = 16"), std::string::npos);
  options.min_ticks = 3;
  options.masks[3] = {0, 0, 0x20, 1};
  EXPECT_NE(refused(options).find("final.masks: type 32"), std::string::npos);
}

}  // namespace
}  // namespace nanet::gateware
