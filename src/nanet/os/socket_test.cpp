// SPDX-License-Identifier: Apache-2.0
// Tests of UDP sockets: endpoint parsing, refusals, control messages of loopback datagrams.
#include "nanet/os/socket.hpp"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

#include "nanet/os/clock.hpp"

namespace nanet::os {
namespace {

TEST(Endpoint, ReadsAddressesNamesAndAny) {
  EXPECT_EQ(parse_endpoint("10.1.2.3:58913"), (wire::Endpoint{0x0A010203, 58913}));
  EXPECT_EQ(parse_endpoint("localhost:1"), (wire::Endpoint{0x7F000001, 1}));
  EXPECT_EQ(parse_endpoint(":7"), (wire::Endpoint{0, 7}));
  EXPECT_EQ(parse_endpoint("*:7"), (wire::Endpoint{0, 7}));
  EXPECT_EQ(to_string(parse_endpoint("10.1.2.3:58913")), "10.1.2.3:58913");
  EXPECT_EQ(from_sockaddr(to_sockaddr({0x0A010203, 58913})), (wire::Endpoint{0x0A010203, 58913}));
}

TEST(Endpoint, InterfaceNameIsRefusedWithARemedy) {
  try {
    parse_endpoint("lo:58913");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "'lo:58913' names an interface: give its address");
  }
}

TEST(Endpoint, RefusalNamesValueAndRemedy) {
  for (const char* text :
       {"127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:12x", "127.0.0.1:-1", "::1:5", ""}) {
    try {
      parse_endpoint(text);
      FAIL() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("HOST:PORT"), std::string::npos);
    }
  }
}

TEST(Endpoint, ListsSplitAtCommas) {
  EXPECT_EQ(parse_endpoints("127.0.0.1:1,127.0.0.1:2"),
            (std::vector<wire::Endpoint>{{0x7F000001, 1}, {0x7F000001, 2}}));
  EXPECT_THROW(parse_endpoints("127.0.0.1:1,"), std::invalid_argument);
}

TEST(Receiver, PortInUseIsNamed) {
  const Fd first = open_udp_receiver({0x7F000001, 0});
  const wire::Endpoint taken = local_endpoint(first.get());
  EXPECT_NE(taken.port, 0);
  try {
    (void)open_udp_receiver(taken);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EADDRINUSE);
    EXPECT_NE(std::string(error.what()).find(to_string(taken)), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("choose another port"), std::string::npos);
  }
}

TEST(Receiver, ForeignAddressIsRefused) {
  try {
    (void)open_udp_receiver({0xC0000201, 0});  // 192.0.2.1, reserved for documentation
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EADDRNOTAVAIL);
  }
}

TEST(Receiver, TrainComesWithStampAndSegmentSize) {
  UdpReceiveOptions options;
  options.gro = true;
  const Fd receiver = open_udp_receiver({0x7F000001, 0}, options);
  EXPECT_GT(receive_buffer(receiver.get()), 0);
  const Fd sender = open_udp_sender(local_endpoint(receiver.get()));
  if (!supports_segmentation(sender.get())) GTEST_SKIP() << "kernel without UDP_SEGMENT";
  const int segment = 100;
  ASSERT_EQ(setsockopt(sender.get(), IPPROTO_UDP, 103 /* UDP_SEGMENT */, &segment, sizeof segment), 0);
  std::array<char, 300> train{};
  const Nanoseconds before = monotonic_now();
  ASSERT_EQ(send(sender.get(), train.data(), train.size(), 0), 300);

  std::size_t bytes = 0;
  while (bytes < train.size()) {
    pollfd wait{receiver.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, 5000), 1);
    std::array<char, 1000> data{};
    alignas(cmsghdr) std::array<char, receive_control_bytes> control{};
    iovec vector{data.data(), data.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(receiver.get(), &message, 0);
    ASSERT_GT(got, 0);
    EXPECT_EQ(message.msg_flags & MSG_CTRUNC, 0);
    const ReceiveInfo info = receive_info(message);
    if (got > segment) {
      EXPECT_EQ(info.segment_bytes, segment);
    }
    const Nanoseconds stamp = ClockOffset().to_monotonic(info.realtime_ns);
    EXPECT_GE(stamp, before - 1'000'000);
    EXPECT_LE(stamp, monotonic_now() + 1'000'000);
    bytes += static_cast<std::size_t>(got);
  }
  EXPECT_EQ(bytes, train.size());
}

TEST(Receiver, DiscardedTrainsCountTheirDatagrams) {
  UdpReceiveOptions options;
  options.gro = true;
  const Fd receiver = open_udp_receiver({0x7F000001, 0}, options);
  const Fd sender = open_udp_sender(local_endpoint(receiver.get()));
  std::array<char, 250> bytes{};
  unsigned datagrams = 1;
  ASSERT_EQ(send(sender.get(), bytes.data(), bytes.size(), 0), 250);
  if (supports_segmentation(sender.get())) {
    const int segment = 100;
    ASSERT_EQ(setsockopt(sender.get(), IPPROTO_UDP, 103 /* UDP_SEGMENT */, &segment, sizeof segment), 0);
    ASSERT_EQ(send(sender.get(), bytes.data(), bytes.size(), 0), 250);
    datagrams += 3;
  }
  EXPECT_EQ(discard_received(receiver.get(), std::numeric_limits<std::int64_t>::max()), datagrams);
  EXPECT_EQ(discard_received(receiver.get(), std::numeric_limits<std::int64_t>::max()), 0U);
}

// A step of CLOCK_REALTIME shows as a stamp far from the time of reading.
TEST(ClockOffset, ArrivalIsNeverInTheFutureAndOldStampsStay) {
  ClockOffset clock;
  timespec real{};
  ASSERT_EQ(clock_gettime(CLOCK_REALTIME, &real), 0);
  const std::int64_t stamp = real.tv_sec * 1'000'000'000LL + real.tv_nsec;
  const Nanoseconds now = monotonic_now();
  constexpr Nanoseconds second = 1'000'000'000;
  EXPECT_NEAR(static_cast<double>(clock.arrival(stamp, now) - now), 0, 0.9 * second);
  EXPECT_EQ(clock.arrival(stamp + 5 * second, now), now);
  EXPECT_NEAR(static_cast<double>(clock.arrival(stamp - 5 * second, now) - now), -5.0 * second, 0.9 * second);
}

TEST(Receiver, CountsDatagramsTheKernelDropped) {
  UdpReceiveOptions options;
  options.buffer_bytes = 2048;
  const Fd receiver = open_udp_receiver({0x7F000001, 0}, options);
  const Fd sender = open_udp_sender(local_endpoint(receiver.get()));
  std::array<char, 1000> data{};
  unsigned received = 0, overflow = 0;
  for (int i = 0; i < 50; ++i) (void)send(sender.get(), data.data(), data.size(), 0);
  const auto drain = [&] {
    while (true) {
      alignas(cmsghdr) std::array<char, receive_control_bytes> control{};
      iovec vector{data.data(), data.size()};
      msghdr message{};
      message.msg_iov = &vector;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      if (recvmsg(receiver.get(), &message, 0) < 0) return;
      ++received;
      if (const ReceiveInfo info = receive_info(message); info.has_overflow) overflow = info.overflow;
    }
  };
  drain();
  (void)send(sender.get(), data.data(), data.size(), 0);  // the count travels with the next datagram
  drain();
  EXPECT_GT(overflow, 0u);
  EXPECT_EQ(received + overflow, 51u);
}

}  // namespace
}  // namespace nanet::os
