// SPDX-License-Identifier: Apache-2.0
// Transmit path of one thread: faults, send times and sockets of its streams.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nanet/readout/faults.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/readout/times_file.hpp"

namespace nanet::readout {

using Senders = std::span<const std::unique_ptr<PacketSender>>;

class TxPath {
 public:
  // `mine`: senders of this thread, by number. `times` may be null; both outlive it.
  // faults: decided by seed, sender and packet, so threads share no state.
  TxPath(Senders senders, std::vector<std::size_t> mine, const FaultOptions& faults, TimesWriter* times)
      : senders_(senders),
        mine_(std::move(mine)),
        faults_(faults, static_cast<unsigned>(senders.size())),
        times_(times) {}

  void take(const OutPacket& packet) { faults_.take(packet, out_); }
  void release(std::uint64_t frame) { faults_.release(frame, out_); }
  void flush() { faults_.flush(out_); }
  // Sends the taken packets, sender by sender.
  void deliver();
  std::uint64_t count(Fault fault) const { return faults_.count(fault); }

 private:
  Senders senders_;
  std::vector<std::size_t> mine_;
  FaultLine faults_;
  TimesWriter* times_;
  std::vector<OutPacket> out_;
};

}  // namespace nanet::readout
