// SPDX-License-Identifier: Apache-2.0
// Options of the emulated boards, and counters of each of their threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/readout/faults.hpp"
#include "nanet/readout/final_boards.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/wire/dealing.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {

// Maximum frames per batch: a train of full packets holds 44.
inline constexpr unsigned max_batch = 44;

struct ReadoutOptions {
  // One entry per trigger node: frame f of a burst goes to node f mod K (wire::node_of). Board b sends to
  // endpoint b mod count of the node.
  std::vector<std::vector<wire::Endpoint>> nodes;
  rich::GeneratorOptions generator;
  PackOptions pack;
  std::uint32_t pool_frames = 4096;  // generated frames; burst frame f is pool frame f mod pool_frames
  bool keep_truth = false;
  std::string pcap;                                   // capture to send instead
  std::uint16_t pcap_port = wire::mgp::default_port;  // UDP port of the capture's packets
  double speed = 1.0;                                 // detector seconds per wall-clock second; 0: no pacing
  double duration_s = 0;                              // wall clock; 0: no limit
  std::uint64_t events = 0;  // stop after the frame that reaches this number of physics events; 0: no limit
  std::uint64_t bursts = 0;  // 0: no limit
  Frame burst_frames = default_max_frames;
  double burst_gap_s = 0;
  std::uint8_t first_burst = 0;
  FaultOptions faults;
  FinalOptions final;                 // final mode: generated events to one node, at a speed
  std::string times;                  // --times file; needs duration, events or pcap
  double late_us = 0;                 // list packets sent so long after their frame's first; needs times
  bool segmentation = true;           // trains, if the kernel supports UDP_SEGMENT
  bool spin = false;                  // never sleep
  double batch_us = 100;              // gathering time of a batch, in wall-clock time
  unsigned batch_frames = max_batch;  // maximum frames per batch, even when behind
  unsigned threads = 1;               // board b is sent by thread b mod threads
  std::vector<int> pin;               // their CPUs, in order; threads without an entry are not pinned
};

// One writer, any number of readers.
struct alignas(64) Tally {
  stats::Counter frames, bursts, events, fragments, behind_max_ns, elapsed_ns;
  std::array<stats::Counter, fault_count> faults;
  std::array<stats::Counter, wire::max_nodes> dealt;  // frames per node
};

}  // namespace nanet::readout
