// SPDX-License-Identifier: Apache-2.0
// Recorded capture as a packet source: its UDP packets to the MGP port, in order, with times and frames of
// the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::readout {

struct RecordedPacket {
  std::int64_t time_ns = 0;  // since the first packet of the recording
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint16_t fragments = 0;
  BoardId board = 0;        // from the header; 0 without a header
  bool marker = false;      // SOB, EOB or an invalid MGP packet: outside any frame
  std::uint64_t frame = 0;  // of the run, counted from 0 over all bursts
};

class Recording {
 public:
  // Reads the headers of the whole capture. Throws like wire::PcapReader, and std::runtime_error if it has no
  // packet to `port`.
  Recording(const std::string& path, std::uint16_t port);

  const std::vector<RecordedPacket>& packets() const { return packets_; }
  std::uint64_t frames() const { return frames_; }  // frames that need an answer, over all bursts
  std::uint64_t bursts() const { return bursts_; }
  std::uint64_t skipped() const { return skipped_; }  // records that are not UDP packets to the port
  // Physics events per frame of the run: fragments merged by the rule of docs/formats.md.
  const std::vector<std::uint32_t>& events() const { return events_; }

 private:
  void count_events(std::vector<std::uint64_t>& fragments);
  wire::PcapReader reader_;  // owns the memory of the packets
  std::vector<RecordedPacket> packets_;
  std::vector<std::uint32_t> events_;
  std::uint64_t frames_ = 0, bursts_ = 0, skipped_ = 0;
};

}  // namespace nanet::readout
