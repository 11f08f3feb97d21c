// SPDX-License-Identifier: Apache-2.0
// Transmit path of one thread: delivery per stream.
#include "nanet/readout/tx_path.hpp"

#include "nanet/os/clock.hpp"

namespace nanet::readout {

void TxPath::deliver() {
  for (const std::size_t s : mine_) {
    const Nanoseconds now = os::monotonic_now();
    for (const OutPacket& packet : out_) {
      if (packet.stream != s) continue;
      if (times_ && !packet.marker) times_->packet(packet.frame, now);
      senders_[s]->push(packet.data, packet.size);
    }
    senders_[s]->flush();
  }
  out_.clear();
  faults_.recycle();
}

}  // namespace nanet::readout
