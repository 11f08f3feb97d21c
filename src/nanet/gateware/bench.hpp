// SPDX-License-Identifier: Apache-2.0
// Measurements of the simulated card, in cycles of its clock: what becomes of packets that come one at a
// time, and of packets that come as fast as the wire brings them.
#pragma once

#include <cstdint>
#include <vector>

namespace nanet::gateware {

struct CardBenchOptions {
  std::uint32_t frame_bytes = 1518;  // on the wire, FCS included; 64 to 9018
  std::uint32_t packets = 100;
  unsigned channels = 1;
  unsigned cycles_per_word = 1;  // of 8 bytes; 1: 10 Gb/s, 10: 1 Gb/s
  bool by_firmware = false;      // no translation is known when a packet comes: the firmware is asked
  unsigned wake_cycles_min = 0, wake_cycles_max = 0, work_cycles = 0;  // of the firmware
  std::uint64_t seed = 1;
};

// Of packets that come to an idle card, each the only one of its frame.
struct PacketTimes {
  std::vector<std::uint32_t> event;                        // last word of the frame in to its event written
  std::vector<std::uint32_t> controller, placed, written;  // from its first word
};
PacketTimes packet_times(const CardBenchOptions& options);

// Of packets without a gap between them.
struct LineRate {
  std::uint64_t packets = 0, used = 0, lost = 0, bytes = 0;  // lost: for want of room; bytes: of UDP payload
  std::uint64_t cycles = 0;     // from the first word to where a next frame begins
  std::uint64_t simulated = 0;  // cycles in all,
  double cpu_s = 0;             // and the CPU time that they took
};
LineRate line_rate(const CardBenchOptions& options);

}  // namespace nanet::gateware
