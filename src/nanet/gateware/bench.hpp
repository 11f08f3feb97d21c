// SPDX-License-Identifier: Apache-2.0
// Benchmark of the simulated card, in cycles of its clock: latency of single packets, and throughput at line
// rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nanet::gateware {

struct CardBenchOptions {
  std::uint32_t frame_bytes = 1518;  // on the wire, FCS included; 64 to 9018
  std::uint32_t packets = 100;
  unsigned channels = 1;
  unsigned cycles_per_word = 1;  // of 8 bytes; 1: 10 Gb/s, 10: 1 Gb/s
  bool merge = false;            // merge_times()
  bool by_firmware = false;      // translation cache flushed before each packet
  unsigned wake_cycles_min = 0, wake_cycles_max = 0, work_cycles = 0;  // of the firmware
  std::uint64_t seed = 1;
};

// Latencies of packets at an idle card, one packet per frame.
struct PacketTimes {
  std::vector<std::uint32_t> event;                        // from the last word of the frame to its event
  std::vector<std::uint32_t> controller, placed, written;  // from its first word
};
PacketTimes packet_times(const CardBenchOptions& options);

// Packets without gaps.
struct LineRate {
  std::uint64_t packets = 0, used = 0, lost = 0, bytes = 0;  // lost: for lack of space; bytes: of UDP payload
  std::uint64_t cycles = 0;     // from the first word to the start of the next frame
  std::uint64_t simulated = 0;  // all cycles
  double cpu_s = 0;             // CPU time of the simulation
};
LineRate line_rate(const CardBenchOptions& options);

// Frames of a capture through a merging card, one in each frame time, boards on two channels.
struct MergeTimes {
  std::vector<std::uint32_t> event;                               // from a frame's last word to its event
  std::uint64_t frames = 0, unmerged = 0, packets = 0, used = 0;  // packets: with events
};
MergeTimes merge_times(const std::string& pcap);

}  // namespace nanet::gateware
