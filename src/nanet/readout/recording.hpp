// SPDX-License-Identifier: Apache-2.0
// A capture as something to send: its UDP packets to the MGP port, in order, with their times and the frame
// of the run that each belongs to.
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
  BoardId board = 0;        // as its header says; 0 if it has none
  bool marker = false;      // SOB, EOB, or no sound MGP packet: belongs to no frame
  std::uint64_t frame = 0;  // of the run, counted from 0 over all bursts
};

class Recording {
 public:
  // Reads the whole capture's headers. Throws like wire::PcapReader, and std::runtime_error when it has no
  // packet to `port`.
  Recording(const std::string& path, std::uint16_t port);

  const std::vector<RecordedPacket>& packets() const { return packets_; }
  std::uint64_t frames() const { return frames_; }  // owed, over all bursts
  std::uint64_t bursts() const { return bursts_; }
  std::uint64_t skipped() const { return skipped_; }  // records that are no UDP packet to the port
  // Physics events: fragments merged by the rule of docs/formats.md. Per frame of the run.
  const std::vector<std::uint32_t>& events() const { return events_; }

 private:
  void count_events(std::vector<std::uint64_t>& fragments);
  wire::PcapReader reader_;  // the packets lie in its memory
  std::vector<RecordedPacket> packets_;
  std::vector<std::uint32_t> events_;
  std::uint64_t frames_ = 0, bursts_ = 0, skipped_ = 0;
};

}  // namespace nanet::readout
