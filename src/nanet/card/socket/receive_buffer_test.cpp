// SPDX-License-Identifier: Apache-2.0
// Tests of the receive buffer: shrinking, restoration, discarding, and overload that is too short for either.
#include "nanet/card/socket/receive_buffer.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <ctime>

namespace nanet::card {
namespace {

constexpr Nanoseconds ms = 1'000'000;

class ReceiveBuffers : public testing::Test {
 protected:
  ReceiveBuffers() { os::set_receive_buffer(fd.get(), 100'000); }
  int granted() const { return os::receive_buffer(fd.get()); }
  // A buffer of the socket, which is empty, for a deadline of 40 ms.
  static void observe(ReceiveBuffer& buffer, Nanoseconds now, Nanoseconds age) {
    EXPECT_EQ(buffer.observe(now, age, 0), 0U);
  }
  os::Fd fd{socket(AF_INET, SOCK_DGRAM, 0)};
};

TEST_F(ReceiveBuffers, ShrinkToTheToleratedAge) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  Nanoseconds now = 1'000 * ms;
  for (int i = 0; i < 199; ++i, now += ms) observe(buffer, now, 11 * ms);
  EXPECT_EQ(granted(), full);
  now += ms;
  observe(buffer, now, 11 * ms);
  EXPECT_NEAR(granted(), 10.0 * full / 11, 4);
  EXPECT_EQ(granted(), buffer.bytes());
  for (int i = 0; i < 20; ++i) observe(buffer, now += ReceiveBuffer::patience, 1'000 * ms);
  EXPECT_NEAR(granted(), ReceiveBuffer::least, 4);
}

TEST_F(ReceiveBuffers, AreFullAgainAfterTheOverload) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  observe(buffer, 0, 20 * ms);
  observe(buffer, ReceiveBuffer::patience, 20 * ms);
  ASSERT_LT(granted(), full);
  const Nanoseconds calm = ReceiveBuffer::patience + ms;
  observe(buffer, calm, 0);
  observe(buffer, calm + ReceiveBuffer::relief - 1, 10 * ms);
  EXPECT_LT(granted(), full);
  observe(buffer, calm + ReceiveBuffer::relief, 0);
  EXPECT_EQ(granted(), full);
  EXPECT_EQ(buffer.bytes(), full);
}

// A stop of the host leaves old packets for a short time.
TEST_F(ReceiveBuffers, StayFullAfterAStop) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  for (Nanoseconds now = 0; now < 5'000 * ms; now += ms)
    observe(buffer, now, now % (100 * ms) < 90 * ms ? 500 * ms : 0);
  EXPECT_EQ(granted(), full);
}

TEST_F(ReceiveBuffers, StayFullWithoutADeadline) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 0, 0);
  for (Nanoseconds now = 0; now < 5'000 * ms; now += ms) observe(buffer, now, 500 * ms);
  EXPECT_EQ(granted(), full);
}

// A receiver whose buffer is more than half full.
class FullBuffer : public testing::Test {
 protected:
  FullBuffer() {
    while (os::receive_backlog(fd.get()) <= 0.9 && sent < 10'000) {
      EXPECT_EQ(send(sender.get(), datagram.data(), datagram.size(), 0), 1);
      ++sent;
    }
  }
  std::uint64_t left() const {
    std::uint64_t n = 0;
    std::array<char, 1> bytes;
    while (recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) >= 0) ++n;
    return n;
  }
  static std::int64_t realtime() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  }
  os::Fd fd = os::open_udp_receiver({0x7F000001, 0}, {.buffer_bytes = 400'000});
  os::Fd sender = os::open_udp_sender(os::local_endpoint(fd.get()));
  std::array<char, 1> datagram{};
  std::uint64_t sent = 0;
};

TEST_F(FullBuffer, IsDiscardedWhenItsPacketsAreHopeless) {
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  const int full = buffer.bytes();
  EXPECT_EQ(buffer.observe(1'000 * ms, 40 * ms, realtime()), 0U) << "still in time";
  // Everything is older than the tolerated 10 ms before this packet's time of reading.
  EXPECT_EQ(buffer.observe(1'000 * ms, 41 * ms, realtime()), sent);
  EXPECT_EQ(left(), 0U);
  EXPECT_EQ(buffer.bytes(), full) << "a stop does not shrink it";
}

TEST_F(FullBuffer, KeepsLaterPackets) {
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  const std::uint64_t discarded = buffer.observe(1'000 * ms, 41 * ms, realtime() - 10'000 * ms);
  EXPECT_LE(discarded, 64U);  // of one call
  EXPECT_EQ(left(), sent - discarded);
}

TEST_F(FullBuffer, ShrinksWhenItIsHopelessAgain) {
  ReceiveBuffer buffer(fd.get(), 10 * ms, 40 * ms);
  const int full = buffer.bytes();
  const std::int64_t before = realtime() - 10'000 * ms;
  buffer.observe(1'000 * ms, 41 * ms, before);
  buffer.observe(1'000 * ms + ReceiveBuffer::relief, 41 * ms, before);
  EXPECT_EQ(buffer.bytes(), full);
  buffer.observe(1'100 * ms + ReceiveBuffer::relief, 41 * ms, before);
  EXPECT_LT(buffer.bytes(), full);
}

}  // namespace
}  // namespace nanet::card
