// SPDX-License-Identifier: Apache-2.0
// Tests of frame parsing and building: every reason for which a frame is not a UDP packet to the port.
#include "nanet/wire/ethernet.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nanet::wire {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint16_t port = 58913;
constexpr Endpoint source{0x0A000001, 40000}, destination{0x0A0000FE, port};
constexpr std::size_t ip = 14, udp = 34;

Bytes payload_of(std::size_t size) {
  Bytes payload(size);
  for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}
Bytes good_frame(std::size_t size = 101) {
  const Bytes payload = payload_of(size);
  Bytes frame(udp_frame_overhead + size);
  EXPECT_EQ(build_udp_frame(frame.data(), source, destination, payload, 0x1234), frame.size());
  return frame;
}
unsigned word(const Bytes& b, std::size_t at) {
  return static_cast<unsigned>(b.at(at)) << 8 | static_cast<unsigned>(b.at(at + 1));
}
void set(Bytes& b, std::size_t at, unsigned value) {
  b.at(at) = static_cast<std::byte>(value >> 8);
  b.at(at + 1) = static_cast<std::byte>(value);
}
// Literal RFC 1071, for the IP header.
void fix_ip_checksum(Bytes& b) {
  set(b, ip + 10, 0);
  unsigned sum = 0;
  for (std::size_t i = 0; i < (static_cast<std::size_t>(b[ip]) & 0xF) * 4; i += 2) sum += word(b, ip + i);
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  set(b, ip + 10, ~sum & 0xFFFF);
}
std::string reason(const Bytes& b, std::size_t original = 0) {
  return std::string(name(parse_udp_frame(b, original == 0 ? b.size() : original, port).reason));
}

TEST(Ethernet, BuildsStandardFrames) {
  // Checksums verified by hand (RFC 1071).
  Bytes frame(udp_frame_overhead + 3);
  const Bytes payload = {std::byte{1}, std::byte{2}, std::byte{3}};
  build_udp_frame(frame.data(), {0x7F000001, 1}, {0x7F000001, 2}, payload, 0);
  EXPECT_EQ(word(frame, 12), 0x0800u);
  EXPECT_EQ(word(frame, ip), 0x4500u);
  EXPECT_EQ(word(frame, ip + 2), 31u);
  EXPECT_EQ(word(frame, ip + 10), 0x3CCCu);  // ~(4500 + 1f + 4000 + 4011 + 7f00 + 1 + 7f00 + 1)
  EXPECT_EQ(word(frame, udp + 4), 11u);
  EXPECT_EQ(word(frame, udp + 6), 0xFDD0u);  // ~(7f00 + 1 + 7f00 + 1 + 11 + b + 1 + 2 + b + 102 + 300)
}

TEST(Ethernet, RoundTrip) {
  for (const std::size_t size : {0u, 1u, 2u, 3u, 17u, 101u, 1472u, 8972u}) {
    const Bytes frame = good_frame(size);
    const UdpFrame parsed = parse_udp_frame(frame, frame.size(), port);
    ASSERT_EQ(name(parsed.reason), "none") << size;
    EXPECT_EQ(Bytes(parsed.payload.begin(), parsed.payload.end()), payload_of(size));
    EXPECT_EQ(parsed.source, source);
    EXPECT_EQ(parsed.destination, destination);
  }
}

TEST(Ethernet, ChecksumThatSumsToZeroIsSentAsOnes) {
  // Varies two bytes through every possible sum, including a checksum of 0, which would mean "none".
  Bytes payload(2), frame(udp_frame_overhead + 2);
  int ones = 0;
  for (unsigned value = 0; value < 65536; ++value) {
    set(payload, 0, value);
    build_udp_frame(frame.data(), source, destination, payload);
    ASSERT_NE(word(frame, udp + 6), 0u);
    ones += word(frame, udp + 6) == 0xFFFF;
    ASSERT_EQ(reason(frame), "none");
  }
  EXPECT_GE(ones, 1);
}

struct Case {
  const char* expected;
  std::function<void(Bytes&)> apply;
};

TEST(Ethernet, NamesTheReason) {
  const std::vector<Case> cases = {
      {"none", [](Bytes&) {}},
      {"none", [](Bytes& b) { b.resize(b.size() + 18, std::byte{0xAA}); }},  // Ethernet padding
      {"none", [](Bytes& b) { set(b, udp + 6, 0); }},                        // no UDP checksum
      {"none",
       [](Bytes& b) {
         set(b, ip + 6, 0);
         fix_ip_checksum(b);
       }},  // fragmentation allowed, but not fragmented
      {"not_ipv4", [](Bytes& b) { set(b, 12, 0x8100); }},
      {"not_ipv4", [](Bytes& b) { set(b, 12, 0x88A8); }},
      {"not_ipv4", [](Bytes& b) { set(b, 12, 0x86DD); }},
      {"not_ipv4", [](Bytes& b) { set(b, 12, 0x0806); }},
      {"not_ipv4",
       [](Bytes& b) {
         set(b, ip, 0x6500);
         fix_ip_checksum(b);
       }},
      {"not_ipv4",
       [](Bytes& b) {
         set(b, ip, 0x4400);
         fix_ip_checksum(b);
       }},
      {"not_ipv4",
       [](Bytes& b) {
         set(b, ip + 2, 19);
         fix_ip_checksum(b);
       }},
      {"bad_checksum", [](Bytes& b) { set(b, ip + 10, word(b, ip + 10) ^ 1); }},
      {"bad_checksum", [](Bytes& b) { set(b, ip + 8, 0x3F11); }},
      {"bad_checksum", [](Bytes& b) { set(b, udp + 6, word(b, udp + 6) ^ 0x100); }},
      {"bad_checksum", [](Bytes& b) { b.back() ^= std::byte{0x80}; }},
      {"not_udp",
       [](Bytes& b) {
         set(b, ip + 8, 0x4006);
         fix_ip_checksum(b);
       }},
      {"ip_fragment",
       [](Bytes& b) {
         set(b, ip + 6, 0x2000);
         fix_ip_checksum(b);
       }},
      {"ip_fragment",
       [](Bytes& b) {
         set(b, ip + 6, 0x0001);
         fix_ip_checksum(b);
       }},
      {"other_port", [](Bytes& b) { set(b, udp + 2, port + 1); }},  // whatever the checksum
      {"udp_length", [](Bytes& b) { set(b, udp + 4, 7); }},
      {"udp_length", [](Bytes& b) { set(b, udp + 4, 0); }},
      {"udp_length", [](Bytes& b) { set(b, udp + 4, word(b, udp + 4) + 1); }},
      {"udp_length",
       [](Bytes& b) {
         set(b, ip + 2, 27);
         fix_ip_checksum(b);
       }},
      {"cut_short", [](Bytes& b) { b.pop_back(); }},
      {"cut_short", [](Bytes& b) { b.resize(udp + 7); }},
      {"cut_short", [](Bytes& b) { b.resize(ip + 19); }},
      {"cut_short", [](Bytes& b) { b.resize(13); }},
      {"cut_short", [](Bytes& b) { b.clear(); }},
      {"cut_short",
       [](Bytes& b) {
         set(b, ip + 2, word(b, ip + 2) + 1);
         fix_ip_checksum(b);
       }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Bytes bytes = good_frame();
    cases[i].apply(bytes);
    EXPECT_EQ(reason(bytes), cases[i].expected) << "case " << i;
  }
  const Bytes whole = good_frame();
  EXPECT_EQ(reason(whole, whole.size() + 1), "cut_short");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(reason(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), whole.size()),
              "cut_short")
        << size;
  }
}

TEST(Ethernet, IpOptionsAreSkipped) {
  Bytes frame = good_frame();
  frame.insert(frame.begin() + ip + 20, 8, std::byte{1});  // two words of "no operation"
  set(frame, ip, 0x4700);
  set(frame, ip + 2, word(frame, ip + 2) + 8);
  fix_ip_checksum(frame);
  const UdpFrame parsed = parse_udp_frame(frame, frame.size(), port);
  ASSERT_EQ(name(parsed.reason), "none");
  EXPECT_EQ(Bytes(parsed.payload.begin(), parsed.payload.end()), payload_of(101));
}

TEST(Ethernet, BytesAfterTheUdpLengthAreNoPayload) {
  Bytes frame = good_frame();
  set(frame, udp + 4, 8 + 50);
  set(frame, udp + 6, 0);
  const UdpFrame parsed = parse_udp_frame(frame, frame.size(), port);
  ASSERT_EQ(name(parsed.reason), "none");
  EXPECT_EQ(parsed.payload.size(), 50u);
}

TEST(Ethernet, ChecksumLeftToTheInterfaceIsFine) {
  Bytes frame = good_frame();
  unsigned sum = 17 + word(frame, udp + 4);
  for (std::size_t i = ip + 12; i < ip + 20; i += 2) sum += word(frame, i);
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  set(frame, udp + 6, sum);
  EXPECT_EQ(reason(frame), "none");
  set(frame, udp + 6, sum ^ 1);
  EXPECT_EQ(reason(frame), "bad_checksum");
}

TEST(Ethernet, EveryReasonHasAName) {
  std::map<std::string_view, int> names;
  for (std::size_t i = 0; i <= not_mgp_count; ++i) ++names[name(static_cast<NotMgp>(i))];
  EXPECT_EQ(names.size(), not_mgp_count + 1);
  EXPECT_EQ(name(NotMgp::not_udp), "not_udp");
  EXPECT_EQ(name(NotMgp::udp_length), "udp_length");
}

}  // namespace
}  // namespace nanet::wire
