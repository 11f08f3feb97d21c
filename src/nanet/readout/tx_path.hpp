// SPDX-License-Identifier: Apache-2.0
// Transmit path of one thread: faults, send times and sockets of its streams.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "nanet/readout/faults.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/readout/times_file.hpp"

namespace nanet::readout {

using Senders = std::span<const std::unique_ptr<PacketSender>>;

class TxPath {
 public:
  // This thread uses streams first, first + step, ... of `senders`. `times` may be null; both outlive it.
  // faults: decided by seed, stream and packet, so threads share no state.
  TxPath(Senders senders, std::size_t first, std::size_t step, const FaultOptions& faults, TimesWriter* times)
      : senders_(senders),
        first_(first),
        step_(step),
        faults_(faults, static_cast<unsigned>(senders.size())),
        times_(times) {}

  void take(const OutPacket& packet) { faults_.take(packet, out_); }
  void release(std::uint64_t frame) { faults_.release(frame, out_); }
  void flush() { faults_.flush(out_); }
  // Sends the taken packets, stream by stream.
  void deliver();
  std::uint64_t count(Fault fault) const { return faults_.count(fault); }

 private:
  Senders senders_;
  std::size_t first_, step_;
  FaultLine faults_;
  TimesWriter* times_;
  std::vector<OutPacket> out_;
};

}  // namespace nanet::readout
