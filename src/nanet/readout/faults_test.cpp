// SPDX-License-Identifier: Apache-2.0
// Tests of fault injection: effect of each fault, accounting of lost packets, repeatability by seed.
#include "nanet/readout/faults.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

namespace nanet::readout {
namespace {

constexpr unsigned packets = 2000;
using Bytes = std::vector<std::byte>;

struct Sent {
  unsigned number;  // number of the packet in its stream, before faults
  std::uint64_t frame;
  Bytes bytes;
  bool operator==(const Sent&) const = default;
};

// Packet n of the stream holds n in its first four bytes, then a pattern; one packet per frame.
Bytes make(unsigned n) {
  Bytes bytes(100, static_cast<std::byte>(n * 7));
  std::memcpy(bytes.data(), &n, sizeof n);
  return bytes;
}

std::vector<Sent> run(FaultLine& line, unsigned count = packets) {
  std::vector<Sent> sent;
  std::vector<OutPacket> out;
  const auto collect = [&] {
    for (const OutPacket& packet : out) {
      unsigned n = 0;
      if (packet.size >= sizeof n) std::memcpy(&n, packet.data, sizeof n);
      sent.push_back({n, packet.frame, Bytes(packet.data, packet.data + packet.size)});
    }
    out.clear();
    line.recycle();
  };
  for (unsigned n = 0; n < count; ++n) {
    Bytes bytes = make(n);
    line.release(n, out);
    line.take({n, bytes.data(), static_cast<std::uint32_t>(bytes.size()), 0, false}, out);
    collect();
    std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});  // delayed packets must be copies
  }
  line.flush(out);
  collect();
  return sent;
}

FaultOptions only(Fault fault, double p, std::uint64_t seed = 1) {
  FaultOptions options;
  options.probability[static_cast<std::size_t>(fault)] = p;
  options.seed = seed;
  return options;
}

TEST(Faults, ParsesProbabilitiesByName) {
  FaultOptions options;
  EXPECT_FALSE(options.any());
  parse_faults("drop=0.25,delay=1e-3", options);
  EXPECT_EQ(options.probability[static_cast<std::size_t>(Fault::drop)], 0.25);
  EXPECT_EQ(options.probability[static_cast<std::size_t>(Fault::delay)], 1e-3);
  EXPECT_EQ(options.probability[static_cast<std::size_t>(Fault::dup)], 0.0);
  EXPECT_TRUE(options.any());
  for (const char* wrong : {"drop", "drop=", "drop=2", "drop=-0.1", "lose=0.1", "drop=0.1x", "drop=nan"}) {
    try {
      parse_faults(wrong, options);
      FAIL() << wrong;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("drop=P"), std::string::npos);
    }
  }
}

TEST(Faults, NoneLeaveTheStreamAlone) {
  FaultLine line(FaultOptions{}, 1);
  const auto sent = run(line);
  ASSERT_EQ(sent.size(), packets);
  for (unsigned n = 0; n < packets; ++n) EXPECT_EQ(sent[n].bytes, make(n));
}

TEST(Faults, DropLosesWhatItCounts) {
  FaultLine line(only(Fault::drop, 0.1), 1);
  const auto sent = run(line);
  EXPECT_EQ(sent.size() + line.count(Fault::drop), packets);
  EXPECT_GT(line.count(Fault::drop), packets / 20);
  EXPECT_LT(line.count(Fault::drop), packets / 5);
}

TEST(Faults, DupSendsTwiceInARow) {
  FaultLine line(only(Fault::dup, 0.1), 1);
  const auto sent = run(line);
  EXPECT_GT(line.count(Fault::dup), 0u);
  EXPECT_EQ(sent.size(), packets + line.count(Fault::dup));
  std::uint64_t doubles = 0;
  for (std::size_t i = 1; i < sent.size(); ++i) doubles += sent[i] == sent[i - 1];
  EXPECT_EQ(doubles, line.count(Fault::dup));
}

TEST(Faults, ReorderMovesAPacketBehindOneToFourOthers) {
  FaultLine line(only(Fault::reorder, 0.05), 1);
  const auto sent = run(line);
  ASSERT_EQ(sent.size(), packets);
  EXPECT_GT(line.count(Fault::reorder), 0u);
  std::array<unsigned, packets> place{};
  for (unsigned i = 0; i < sent.size(); ++i) place[sent[i].number] = i;
  std::uint64_t moved = 0;
  for (unsigned n = 0; n < packets; ++n) {
    EXPECT_EQ(sent[place[n]].bytes, make(n));
    unsigned overtaken = 0;  // later packets sent first
    for (unsigned later = n + 1; later < std::min(packets, n + 20); ++later)
      overtaken += place[later] < place[n];
    EXPECT_LE(overtaken, 4u);
    moved += overtaken > 0;
  }
  // Two neighbours that both move may keep their relative order.
  EXPECT_LE(moved, line.count(Fault::reorder));
  EXPECT_GE(moved, line.count(Fault::reorder) * 8 / 10);
}

TEST(Faults, CorruptFlipsBitsOrCutsShort) {
  FaultLine line(only(Fault::corrupt, 1.0), 1);
  std::vector<OutPacket> out;
  unsigned cut = 0, flipped = 0;
  for (unsigned n = 0; n < packets; ++n) {
    const Bytes bytes = make(n);
    line.take({n, bytes.data(), static_cast<std::uint32_t>(bytes.size()), 0, false}, out);
    ASSERT_EQ(out.size(), 1u);
    if (out[0].size < bytes.size()) {
      ++cut;
      EXPECT_TRUE(std::equal(out[0].data, out[0].data + out[0].size, bytes.data()));
    } else {
      ++flipped;
      ASSERT_EQ(out[0].size, bytes.size());
    }
    out.clear();
    line.recycle();
  }
  EXPECT_EQ(line.count(Fault::corrupt), packets);
  EXPECT_GT(cut, packets / 5);
  EXPECT_GT(flipped, packets / 2);
}

TEST(Faults, DelayHoldsForTheFramesSet) {
  FaultOptions options = only(Fault::delay, 0.1);
  options.delay_frames = 7;
  FaultLine line(options, 1);
  const auto sent = run(line);
  ASSERT_EQ(sent.size(), packets);
  std::uint64_t late = 0;
  unsigned newest = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i].number < newest) {
      ++late;
      EXPECT_LE(newest, sent[i].number + 6);  // sent just before frame + 7
      for (std::size_t next = i + 1; next < sent.size(); ++next) {
        if (sent[next].number > newest) {
          EXPECT_GE(sent[next].number, sent[i].number + 7);
          break;
        }
      }
    }
    newest = std::max(newest, sent[i].number);
  }
  EXPECT_GT(late, 0u);
  EXPECT_LE(late, line.count(Fault::delay));
  EXPECT_GE(late + 8, line.count(Fault::delay));
}

TEST(Faults, SeedRepeatsAndAnotherDiffers) {
  FaultOptions options;
  parse_faults("drop=0.05,dup=0.05,reorder=0.05,corrupt=0.05,delay=0.05", options);
  options.seed = 42;
  FaultLine a(options, 1), b(options, 1);
  options.seed = 43;
  FaultLine c(options, 1);
  const auto first = run(a), second = run(b), third = run(c);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
  EXPECT_EQ(first.size() + a.count(Fault::drop), packets + a.count(Fault::dup));
}

TEST(Faults, MarkersAreSparedByDefault) {
  FaultOptions options = only(Fault::drop, 1.0);
  const Bytes sob = make(0);
  std::vector<OutPacket> out;
  FaultLine spared(options, 1);
  spared.take({0, sob.data(), 100, 0, true}, out);
  EXPECT_EQ(out.size(), 1u);
  options.markers = true;
  FaultLine struck(options, 1);
  out.clear();
  struck.take({0, sob.data(), 100, 0, true}, out);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(struck.count(Fault::drop), 1u);
}

}  // namespace
}  // namespace nanet::readout
