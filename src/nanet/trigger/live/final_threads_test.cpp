// SPDX-License-Identifier: Apache-2.0
// Tests of the final trigger's threads: every board and the farm take the datagrams of one thread alone.
#include "nanet/trigger/live/final_threads.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <vector>

#include "nanet/trigger/live/final_trigger_test.hpp"

namespace nanet::trigger {
namespace {

using Packet = std::vector<std::byte>;

struct Receivers : TriggerReceivers<3> {
  static std::vector<Packet> all(int fd) {
    std::vector<Packet> found;
    Packet bytes(2048);
    for (ssize_t n; (n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT)) >= 0;)
      found.emplace_back(bytes.begin(), bytes.begin() + n);
    return found;
  }
};

Packet answer(Frame frame, std::mt19937& random) {
  std::vector<wire::mtp::Primitive> primitives;
  for (auto t = static_cast<unsigned>(random() % 64); t < 256; t += 1 + static_cast<unsigned>(random() % 64))
    primitives.push_back(
        {static_cast<std::uint16_t>(random() % 2 ? 0x6000 : 0x4000), static_cast<std::uint8_t>(t), 0});
  Packet packet(wire::mtp::max_bytes);
  packet.resize(
      wire::mtp::encode(packet.data(), frame, primitives.data(), static_cast<unsigned>(primitives.size())));
  return packet;
}

template <class Final>
void two_bursts(Final& final) {
  std::mt19937 random{1};
  for (std::uint32_t burst = 0; burst < 2; ++burst) {
    final.burst_began(burst, burst * 200);
    for (Frame frame = 0; frame < 200; ++frame) {
      if (frame % 16 == 7) {
        card::FramePeriods periods;
        for (unsigned i = 0; i < 20; ++i) periods.set(static_cast<unsigned>(random() % 256));
        final.passed_late(burst * 200 + frame, frame, periods);
      } else {
        final.sent(burst * 200 + frame, answer(frame, random));
      }
      final.flush();
    }
  }
}

TEST(FinalThreads, SendTheDatagramsOfOneThread) {
  Receivers alone, apart;
  alone.options.late = apart.options.late = {5, 2};
  FinalTrigger reference(alone.options);
  two_bursts(reference);
  FinalThreads final(apart.options, {});
  two_bursts(final);
  final.stop();
  const auto expected = Receivers::all(alone.farm.get());
  EXPECT_GT(expected.size(), 300U);
  EXPECT_EQ(Receivers::all(apart.farm.get()), expected);
  for (unsigned b = 0; b < 3; ++b) EXPECT_EQ(Receivers::all(apart.boards[b].get()), expected) << b;
  EXPECT_EQ(final.datagrams(), reference.counters().datagrams);
  EXPECT_EQ(final.send_errors(), 0U);
  EXPECT_GT(reference.counters().passed, 200U);
  EXPECT_EQ(final.first().counters().passed, reference.counters().passed);
  EXPECT_EQ(final.first().counters().triggers, reference.counters().triggers);
}

TEST(FinalThreads, AFullQueueIsCounted) {
  Receivers receivers;
  receivers.options.masks[0] = {0, 0, 1, 1};
  FinalThreads final(receivers.options, {});
  std::mt19937 random{1};
  const Packet packet = answer(0, random);
  std::uint64_t n = 0;
  while (final.send_errors() == 0 && n < 50'000'000) final.sent(n++, packet);
  EXPECT_GT(final.send_errors(), 0U);
}

}  // namespace
}  // namespace nanet::trigger
