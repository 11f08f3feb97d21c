// SPDX-License-Identifier: Apache-2.0
// Tests of the admission of frames to the simulated card.
#include "nanet/gateware/admission.hpp"

#include <gtest/gtest.h>

#include <array>

namespace nanet::gateware {
namespace {

using Packet = std::array<std::byte, wire::mgp::header_bytes>;

Packet packet(Frame frame, BoardId board, std::uint8_t burst = 0, std::uint8_t flags = 0) {
  wire::mgp::Header header;
  header.frame = frame;
  header.board = board;
  header.burst = burst;
  header.flags = flags;
  Packet bytes;
  wire::mgp::encode_header(bytes.data(), header);
  return bytes;
}

TEST(FrameAdmission, LeavesOldFramesOut) {
  FrameAdmission admission(100);
  EXPECT_TRUE(admission.admits(packet(0, 0), 100));
  EXPECT_FALSE(admission.admits(packet(1, 0), 101));
  EXPECT_FALSE(admission.admits(packet(2, 0), 26));  // until the simulation has caught up
  EXPECT_TRUE(admission.admits(packet(3, 0), 25));
  EXPECT_TRUE(admission.admits(packet(4, 0), 100));
}

TEST(FrameAdmission, DecidesOnceForAllPacketsOfAFrame) {
  FrameAdmission admission(100);
  EXPECT_TRUE(admission.admits(packet(5, 0), 0));
  EXPECT_FALSE(admission.admits(packet(6, 0), 1000));
  for (BoardId board = 1; board < 4; ++board) {
    EXPECT_TRUE(admission.admits(packet(5, board), 1000));
    EXPECT_FALSE(admission.admits(packet(6, board), 0));
  }
  EXPECT_TRUE(admission.admits(packet(6, 0, 1), 0));  // of the next burst
  EXPECT_TRUE(admission.admits(packet(5 + 1024, 0), 0));
  EXPECT_FALSE(admission.admits(packet(6 + 1024, 0), 1000));
}

TEST(FrameAdmission, MarkersAndPacketsThatTheCardRefusesAlwaysEnter) {
  FrameAdmission admission(100);
  EXPECT_TRUE(admission.admits(packet(0, 0, 0, wire::mgp::flag::sob), 1000));
  EXPECT_TRUE(admission.admits(packet(9, 0, 0, wire::mgp::flag::eob), 1000));
  EXPECT_TRUE(admission.admits({}, 1000));
  EXPECT_FALSE(admission.admits(packet(0, 0), 1000));  // the marker decided nothing
}

}  // namespace
}  // namespace nanet::gateware
