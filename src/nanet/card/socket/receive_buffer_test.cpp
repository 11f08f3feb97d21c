// SPDX-License-Identifier: Apache-2.0
// Tests of the receive buffer: shrinking, restoration, and overload that is too short for either.
#include "nanet/card/socket/receive_buffer.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace nanet::card {
namespace {

constexpr Nanoseconds ms = 1'000'000;

class ReceiveBuffers : public testing::Test {
 protected:
  ReceiveBuffers() { os::set_receive_buffer(fd.get(), 100'000); }
  int granted() const { return os::receive_buffer(fd.get()); }
  os::Fd fd{socket(AF_INET, SOCK_DGRAM, 0)};
};

TEST_F(ReceiveBuffers, ShrinkToTheToleratedAge) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms);
  Nanoseconds now = 1'000 * ms;
  for (int i = 0; i < 199; ++i, now += ms) buffer.observe(now, 11 * ms);
  EXPECT_EQ(granted(), full);
  now += ms;
  buffer.observe(now, 11 * ms);
  EXPECT_NEAR(granted(), 10.0 * full / 11, 4);
  EXPECT_EQ(granted(), buffer.bytes());
  for (int i = 0; i < 20; ++i) buffer.observe(now += ReceiveBuffer::patience, 1'000 * ms);
  EXPECT_NEAR(granted(), ReceiveBuffer::least, 4);
}

TEST_F(ReceiveBuffers, AreFullAgainAfterTheOverload) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms);
  buffer.observe(0, 20 * ms);
  buffer.observe(ReceiveBuffer::patience, 20 * ms);
  ASSERT_LT(granted(), full);
  const Nanoseconds calm = ReceiveBuffer::patience + ms;
  buffer.observe(calm, 0);
  buffer.observe(calm + ReceiveBuffer::relief - 1, 10 * ms);
  EXPECT_LT(granted(), full);
  buffer.observe(calm + ReceiveBuffer::relief, 0);
  EXPECT_EQ(granted(), full);
  EXPECT_EQ(buffer.bytes(), full);
}

// A stop of the host leaves old packets for a short time.
TEST_F(ReceiveBuffers, StayFullAfterAStop) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 10 * ms);
  for (Nanoseconds now = 0; now < 5'000 * ms; now += ms)
    buffer.observe(now, now % (100 * ms) < 90 * ms ? 500 * ms : 0);
  EXPECT_EQ(granted(), full);
}

TEST_F(ReceiveBuffers, StayFullWithoutADeadline) {
  const int full = granted();
  ReceiveBuffer buffer(fd.get(), 0);
  for (Nanoseconds now = 0; now < 5'000 * ms; now += ms) buffer.observe(now, 500 * ms);
  EXPECT_EQ(granted(), full);
}

}  // namespace
}  // namespace nanet::card
