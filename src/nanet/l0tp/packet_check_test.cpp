// SPDX-License-Identifier: Apache-2.0
// Tests of the packet check: refusals, late frames, ring counts, latencies, identities.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "nanet/l0tp/l0tp.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::l0tp {
namespace {

namespace mtp = wire::mtp;
using Bytes = std::vector<std::byte>;

Bytes packet(Frame frame, const std::vector<mtp::Primitive>& primitives,
             std::uint8_t sub_id = mtp::sub_id_normal) {
  Bytes bytes(mtp::max_bytes);
  bytes.resize(
      mtp::encode(bytes.data(), frame, primitives.data(), static_cast<unsigned>(primitives.size()), sub_id));
  return bytes;
}
mtp::Primitive primitive(unsigned rings, std::uint8_t timestamp, FineTime fine) {
  return {static_cast<std::uint16_t>(0x4000 | rings << 12), timestamp, fine};
}
std::uint64_t refused(const PacketCheck& check, mtp::Refusal refusal) {
  return check.counters().bad[static_cast<std::size_t>(refusal)];
}

TEST(PacketCheck, CountsReceivedPackets) {
  PacketCheck check(nullptr, nullptr, 0);
  check.packet(packet(0, {primitive(0, 1, 2), primitive(3, 9, 9)}), 10);
  check.packet(packet(1, {}), 20);
  check.packet(packet(4, {}, mtp::sub_id_late), 30);
  check.packet(packet(4, {primitive(1, 0, 0)}), 40);  // repeated: not counted again
  check.packet(packet(2, {primitive(2, 0, 0)}), 50);
  check.finish();
  const L0tpCounters& c = check.counters();
  EXPECT_EQ(c.packets, 5u);
  EXPECT_EQ(c.frames, 4u);
  EXPECT_EQ(c.frames_missing, 1u);
  EXPECT_EQ(c.frames_late, 1u);
  EXPECT_EQ(check.late_frames(), std::vector<std::uint64_t>{4});
  EXPECT_EQ(c.duplicates, 1u);
  EXPECT_EQ(c.out_of_order, 1u);
  EXPECT_EQ(c.primitives, 3u);
  EXPECT_EQ(c.rings[0], 1u);
  EXPECT_EQ(c.rings[1], 0u);
  EXPECT_EQ(c.rings[2], 1u);
  EXPECT_EQ(c.rings[3], 1u);
  EXPECT_EQ(c.first_packet_ns, 10u);
  EXPECT_EQ(c.last_packet_ns, 50u);
}

TEST(PacketCheck, RefusalsByNameChangeNothingElse) {
  PacketCheck check(nullptr, nullptr, 0);
  check.packet(packet(0, {}), 1);
  Bytes bad = packet(1, {primitive(1, 1, 1)});
  bad.pop_back();
  check.packet(bad, 2);
  check.packet(Bytes(3), 3);
  bad = packet(1, {});
  bad[3] = std::byte{0x24};
  check.packet(bad, 4);
  check.packet(packet(1, {primitive(1, 9, 9), primitive(1, 1, 1)}), 5);
  check.packet({}, 6);
  check.finish();
  EXPECT_EQ(refused(check, mtp::Refusal::length_mismatch), 1u);
  EXPECT_EQ(refused(check, mtp::Refusal::short_header), 2u);
  EXPECT_EQ(refused(check, mtp::Refusal::bad_source), 1u);
  EXPECT_EQ(refused(check, mtp::Refusal::not_in_order), 1u);
  EXPECT_EQ(check.counters().frames, 1u);
  EXPECT_EQ(check.counters().primitives, 0u);
}

TEST(PacketCheck, ComparesWithTheTruthOverBursts) {
  const std::vector<std::uint16_t> burst = {0, 0, 1};
  const std::vector<Timestamp> timestamp = {0x000001, 0x07D005, 0x000002};  // frames 0 and 2000; frame 0
  const std::vector<FineTime> fine = {10, 20, 30};
  const TruthTable truth(burst, timestamp, fine, 0);
  PacketCheck check(&truth, nullptr, 0);
  check.packet(packet(0, {primitive(1, 1, 12)}), 1);
  check.packet(packet(2000, {primitive(1, 5, 20), primitive(1, 200, 0)}), 2);
  check.packet(packet(0, {primitive(1, 2, 30)}), 3);  // the next burst
  check.finish();
  EXPECT_EQ(check.counters().bursts, 2u);
  EXPECT_EQ(check.counters().expected, 3u);
  EXPECT_EQ(check.counters().paired, 3u);
  EXPECT_EQ(check.counters().unexpected[static_cast<std::size_t>(Unexpected::other)], 1u);
  EXPECT_EQ(check.counters().frames_missing, 1999u);
}

TEST(PacketCheck, LatencyFromTheSendTimes) {
  const std::string path = testing::TempDir() + "nanet-l0tp-times-" + std::to_string(getpid());
  readout::TimesWriter times(path, 4);
  readout::TimesReader reader(path);
  reader.refresh();
  PacketCheck check(nullptr, &reader, 0);
  times.first(0, 1'000'000);
  times.last(0, 1'020'000);
  times.packet(1, 2'000'000);
  times.packet(3, 9'000'000);
  check.packet(packet(0, {}), 1'050'000);
  check.packet(packet(1, {}), 2'010'000);
  check.packet(packet(2, {}), 3'000'000);  // never sent
  check.packet(packet(3, {}), 4'000'000);  // sent after its answer
  check.packet(packet(4, {}), 5'000'000);  // beyond the file
  check.finish();
  EXPECT_EQ(check.from_first().count(), 2u);
  EXPECT_EQ(check.from_first().max(), 50'000);
  EXPECT_EQ(check.from_last().max(), 30'000);
  EXPECT_EQ(check.counters().latency_unknown, 3u);
  std::filesystem::remove(path);
}

TEST(L0tp, ReceivesUntilIdle) {
  L0tpOptions options;
  options.listen = {0x7F000001, 0};
  options.idle_s = 0.5;
  for (const bool stamps : {true, false}) {
    options.kernel_stamps = stamps;
    L0tp l0tp(options);
    l0tp.start();
    const Nanoseconds before = os::monotonic_now();
    const os::Fd sender = os::open_udp_sender(l0tp.endpoint());
    for (Frame f = 0; f < 1000; ++f) {
      const Bytes bytes = packet(f, {primitive(1, 7, 7)});
      ASSERT_EQ(send(sender.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    l0tp.join();
    EXPECT_EQ(l0tp.check().counters().frames, 1000u);
    EXPECT_EQ(l0tp.check().counters().frames_missing, 0u);
    EXPECT_EQ(l0tp.check().counters().primitives, 1000u);
    EXPECT_EQ(l0tp.check().counters().socket_overflow, 0u);
    const auto first = static_cast<Nanoseconds>(l0tp.check().counters().first_packet_ns);
    EXPECT_GE(first, before - 1'000'000);  // on the same clock
    EXPECT_LE(first, os::monotonic_now());
  }
}

TEST(L0tp, PortInUseIsSaid) {
  L0tpOptions options;
  options.listen = {0x7F000001, 0};
  const L0tp first(options);
  options.listen = first.endpoint();
  EXPECT_THROW(L0tp second(options), std::system_error);
}

}  // namespace
}  // namespace nanet::l0tp
