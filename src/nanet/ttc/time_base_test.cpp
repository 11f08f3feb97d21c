// SPDX-License-Identifier: Apache-2.0
// Tests of the TTC time base: no step, jumps refused, the three sources.
#include "nanet/ttc/time_base.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace nanet::ttc {
namespace {

constexpr Nanoseconds sob = 7'000'000'000'123;

TEST(TimeBase, VirtualSourceIsExact) {
  TimeBase time;
  EXPECT_FALSE(time.at(sob).has_value());
  VirtualSource source(time);
  source.start_of_burst(3, sob);
  EXPECT_EQ(time.burst(), 3);
  EXPECT_FALSE(time.at(sob - 100).has_value());
  for (std::uint32_t period : {0U, 1U, 40'000U, 192'000'000U})
    EXPECT_EQ(time.at(time.local(period) + 2), period);
  EXPECT_NEAR(static_cast<double>(time.local(192'000'000) - sob), 192e6 * nominal_period_ns, 1);
}

TEST(TaiSource, ReadsTheTimeWithoutDelay) {
  constexpr Nanoseconds offset = 37'000'000'000;
  TimeBase time(nominal_period_ns * 100);  // of an experiment at a hundredth of its speed
  TaiSource source(time, nominal_period_ns * 100);
  const double rate = nominal_period_ns * 100 * (1 + 5e-6);
  const auto tai = [&](std::uint64_t period) {
    return sob + offset + std::llround(static_cast<double>(period) * rate);
  };
  source.receive({4, false, 5, tai(5), 0}, offset);
  EXPECT_FALSE(time.timed());
  for (std::uint64_t period = 1000; period < 2'000'000; period += 16'384) {
    source.receive({4, true, period, tai(period), 0}, offset);
    ASSERT_TRUE(time.timed());
    EXPECT_NEAR(
        static_cast<double>(time.local(static_cast<Timestamp>(period) + 20'000) - tai(period + 20'000)),
        -offset, 300);
  }
  source.receive({4, true, 2'000'000, tai(2'000'000) + 1500, 0}, offset);  // a jump
  EXPECT_FALSE(time.timed());
  source.receive({4, true, 2'100'000, tai(2'100'000), 0}, offset);
  EXPECT_FALSE(time.timed());
  source.receive({5, true, 100, tai(3'000'000), 0}, offset);
  EXPECT_TRUE(time.timed());
  EXPECT_EQ(time.burst(), 5);
  EXPECT_EQ(time.local(100), tai(3'000'000) - offset);
}

TEST(TimeBase, FollowsASourceOfItsNominalRate) {
  // An experiment at a tenth of its speed, with a datagram every half millisecond.
  TimeBase time(nominal_period_ns * 10);
  DatagramSource source(time);
  std::array<std::byte, sync_bytes> bytes;
  for (std::uint64_t i = 0; i < 20 * TimeBase::block_syncs; ++i) {
    encode(std::span<std::byte, sync_bytes>(bytes), {1, true, i * 2000, 0, 1});
    source.receive(
        bytes, sob + std::llround(static_cast<double>(i * 2000) * 249.5 + 40.0 * static_cast<double>(i % 7)));
  }
  ASSERT_TRUE(time.timed());
  EXPECT_NEAR(time.period_ns(), 249.5, 0.001);
}

struct Datagrams {
  TimeBase time;
  DatagramSource source{time};
  std::mt19937_64 random{5};
  std::exponential_distribution<double> delay{1.0 / 4000};  // 4 us mean
  double rate = nominal_period_ns * (1 + 30e-6);
  Timestamp last = 0;
  double worst = 0;
  std::uint64_t steps_back = 0;

  void send(std::uint8_t burst, std::uint64_t period, double extra = 0) {
    std::array<std::byte, sync_bytes> bytes;
    encode(std::span<std::byte, sync_bytes>(bytes), {burst, true, period, 0, 1});
    const double true_ns = static_cast<double>(sob) + static_cast<double>(period) * rate;
    const auto arrived = static_cast<Nanoseconds>(true_ns + 10'000 + delay(random) + extra);
    EXPECT_EQ(source.receive(bytes, arrived), SyncRefusal::none);
    if (const auto now = time.at(arrived)) {
      if (*now < last) ++steps_back;
      last = *now;
      worst = std::max(worst, std::abs(static_cast<double>(time.local(static_cast<Timestamp>(period))) -
                                       true_ns - 10'000));
    }
  }
};

TEST(TimeBase, DatagramsWithDelaysGiveATimeThatNeverSteps) {
  Datagrams d;
  for (std::uint8_t burst = 1; burst <= 3; ++burst) {
    d.last = 0;
    d.worst = 0;
    for (std::uint64_t period = 0; period < 192'000'000; period += 64 * 256) d.send(burst, period);
    EXPECT_TRUE(d.time.timed()) << int{burst} << " error " << d.time.error_ns();
    EXPECT_LT(d.worst, 3000) << int{burst};
  }
  EXPECT_EQ(d.steps_back, 0U);
  EXPECT_NEAR(d.time.period_ns(), d.rate, 5e-6 * d.rate);
}

TEST(TimeBase, AJumpMakesTheBurstUntimedUntilTheNext) {
  Datagrams d;
  std::uint64_t period = 0;
  for (; period < 20'000'000; period += 64 * 256) d.send(1, period);
  ASSERT_TRUE(d.time.timed());
  for (; period < 40'000'000; period += 64 * 256) d.send(1, period, -50'000);  // the source steps forward
  EXPECT_FALSE(d.time.timed());
  EXPECT_TRUE(d.time.jumped());
  EXPECT_FALSE(d.time.at(sob + 1'000'000'000).has_value());
  for (period = 0; period < 20'000'000; period += 64 * 256) d.send(2, period);
  EXPECT_TRUE(d.time.timed());
}

TEST(TimeBase, PtpFollowsSmallCorrectionsAndRefusesSteps) {
  TimeBase time;
  PtpSource source(time);
  const Nanoseconds offset = 37'000'000'000;
  source.start_of_burst(1, sob + offset, offset);
  Timestamp last = 0;
  for (int i = 1; i <= 40; ++i) {
    source.poll(offset + 10 * i);  // phc2sys moves the clock by 10 ns each time
    ASSERT_TRUE(time.timed());
    for (int k = 0; k < 20; ++k) {
      const auto now = time.at(sob + 100'000'000LL * i + 5'000'000LL * k);
      ASSERT_TRUE(now && *now >= last);
      last = *now;
    }
  }
  source.poll(offset + 5000);
  EXPECT_FALSE(time.timed());
  EXPECT_NE(tai_offset(), 0);
}

TEST(SyncDatagram, HostileBytesAreRefusedByName) {
  std::array<std::byte, sync_bytes> bytes;
  encode(std::span<std::byte, sync_bytes>(bytes), {7, true, 123'456, 99, 5});
  Sync sync;
  EXPECT_EQ(decode(bytes, sync), SyncRefusal::none);
  EXPECT_EQ(sync, (Sync{7, true, 123'456, 99, 5}));
  EXPECT_EQ(name(decode(std::span(bytes).first(31), sync)), "wrong_length");
  const auto broken = [&](std::size_t at, int value) {
    auto copy = bytes;
    copy[at] = static_cast<std::byte>(value);
    return name(decode(copy, sync));
  };
  EXPECT_EQ(broken(0, 0), "bad_magic");
  EXPECT_EQ(broken(4, 2), "bad_version");
  EXPECT_EQ(broken(5, 2), "reserved_bits");
  EXPECT_EQ(broken(31, 1), "reserved_bits");
  TimeBase time;
  DatagramSource source(time);
  EXPECT_EQ(source.receive({}, 1), SyncRefusal::wrong_length);
  EXPECT_EQ(source.counts()[static_cast<std::size_t>(SyncRefusal::wrong_length)], 1U);
}

}  // namespace
}  // namespace nanet::ttc
