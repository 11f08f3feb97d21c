// SPDX-License-Identifier: Apache-2.0
// Options of the emulated boards, and counters of each of their threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/readout/faults.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {

// Frames of a batch at most: a train of full packets holds 44.
inline constexpr unsigned max_batch = 44;

struct ReadoutOptions {
  std::vector<wire::Endpoint> destinations;  // board b -> destination b mod count
  rich::GeneratorOptions generator;
  PackOptions pack;
  std::uint32_t pool_frames = 4096;  // generated; burst frame f is pool frame f mod this
  bool keep_truth = false;
  std::string pcap;                                   // send this capture instead
  std::uint16_t pcap_port = wire::mgp::default_port;  // of the capture's packets
  double speed = 1.0;        // detector seconds per wall-clock second; 0: as fast as it goes
  double duration_s = 0;     // wall clock; 0: no limit
  std::uint64_t events = 0;  // physics events after whose frame to stop; 0: no limit
  std::uint64_t bursts = 0;  // 0: no limit
  Frame burst_frames = default_max_frames;
  double burst_gap_s = 0;
  std::uint8_t first_burst = 0;
  FaultOptions faults;
  std::string times;                  // --times file; needs duration, events or pcap
  bool segmentation = true;           // trains, where the kernel has UDP_SEGMENT
  bool spin = false;                  // never sleep
  double batch_us = 100;              // frames gathered before they are sent, in wall-clock time
  unsigned batch_frames = max_batch;  // frames that leave together at most, even when behind
  unsigned threads = 1;               // board b is sent by thread b mod threads
  std::vector<int> pin;               // their CPUs, in order; threads without an entry are not pinned
};

// Counted by one thread, read by anybody.
struct alignas(64) Tally {
  stats::Counter frames, bursts, events, fragments, behind_max_ns, elapsed_ns;
  std::array<stats::Counter, fault_count> faults;
};

}  // namespace nanet::readout
