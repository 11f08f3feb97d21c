// SPDX-License-Identifier: Apache-2.0
// Tests of the packet sender: datagrams arrive as pushed, as trains or one by one.
#include "nanet/readout/packet_sender.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

namespace nanet::readout {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> receive(int fd, std::size_t count) {
  std::vector<Bytes> received;
  while (received.size() < count) {
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, 5000) != 1) break;
    Bytes bytes(65536);
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), 0);
    if (n < 0) break;
    bytes.resize(static_cast<std::size_t>(n));
    received.push_back(std::move(bytes));
  }
  return received;
}

// Datagrams of the given sizes, contiguous in one array as in a pool.
void check(const std::vector<std::uint32_t>& sizes, bool segmentation) {
  const os::Fd receiver = os::open_udp_receiver({0x7F000001, 0});
  PacketSender sender(os::local_endpoint(receiver.get()), segmentation);
  std::size_t total = 0;
  for (const auto size : sizes) total += size;
  Bytes pool(total);
  for (std::size_t i = 0; i < total; ++i) pool[i] = static_cast<std::byte>(i * 37 + (i >> 8));
  std::vector<Bytes> pushed;
  std::size_t at = 0;
  for (const auto size : sizes) {
    sender.push(pool.data() + at, size);
    pushed.emplace_back(pool.begin() + static_cast<std::ptrdiff_t>(at),
                        pool.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  sender.flush();
  EXPECT_EQ(receive(receiver.get(), sizes.size()), pushed);
  EXPECT_EQ(sender.packets(), sizes.size());
  EXPECT_EQ(sender.bytes(), total);
  if (!segmentation) {
    EXPECT_EQ(sender.messages(), sizes.size());
  }
}

TEST(PacketSender, EqualSizes) {
  check(std::vector<std::uint32_t>(100, 1472), false);
  check(std::vector<std::uint32_t>(100, 1472), true);
}

TEST(PacketSender, VariedSizesWithShortOnesAndEmptyOnes) {
  const std::vector<std::uint32_t> sizes = {16, 1000, 1000, 400, 1200, 0,  0, 5, 5,
                                            5,  6,    1472, 16,  16,   17, 1, 0};
  check(sizes, false);
  check(sizes, true);
}

TEST(PacketSender, TrainsOfManySmallOnesKeepToTheKernelsLimit) {
  check(std::vector<std::uint32_t>(300, 16), true);
}

TEST(PacketSender, TrainsTakeFewerMessages) {
  const os::Fd receiver = os::open_udp_receiver({0x7F000001, 0});
  PacketSender sender(os::local_endpoint(receiver.get()), true);
  if (!sender.segmenting()) GTEST_SKIP() << "kernel without UDP_SEGMENT";
  const Bytes pool(88 * 1472);
  for (unsigned i = 0; i < 88; ++i) sender.push(pool.data() + i * 1472, 1472);
  sender.flush();
  EXPECT_EQ(sender.messages(), 2u);  // 44 of them fit in an IPv4 datagram
  EXPECT_EQ(sender.packets(), 88u);
}

TEST(PacketSender, RefusedDatagramsAreCountedAndSendingContinues) {
  os::Fd receiver = os::open_udp_receiver({0x7F000001, 0});
  PacketSender sender(os::local_endpoint(receiver.get()), true);
  receiver.reset();
  const Bytes pool(100);
  for (unsigned i = 0; i < 50; ++i) {
    sender.push(pool.data(), 100);
    sender.flush();
  }
  EXPECT_GT(sender.errors(SendError::refused), 0u);
  EXPECT_EQ(sender.packets(), 50u);
}

TEST(PacketSender, TooLongADatagramIsGivenUpAlone) {
  const os::Fd receiver = os::open_udp_receiver({0x7F000001, 0});
  PacketSender sender(os::local_endpoint(receiver.get()), true);
  const Bytes pool(70'000);
  sender.push(pool.data(), 10);
  sender.push(pool.data(), 66'000);
  sender.push(pool.data(), 20);
  sender.flush();
  EXPECT_EQ(sender.errors(SendError::too_long), 1u);
  EXPECT_EQ(receive(receiver.get(), 2).size(), 2u);
}

}  // namespace
}  // namespace nanet::readout
