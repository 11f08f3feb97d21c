// SPDX-License-Identifier: Apache-2.0
// Receive-side statistics and observers, for software and hardware receivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/card/observers.hpp"

namespace nanet::card {

class ReceiveStatus {
 public:
  virtual ~ReceiveStatus() = default;
  // Current sum of sequence gaps, over all boards and bursts.
  virtual std::int64_t missing() const noexcept = 0;
  // Notified when the buffer of a late frame is returned.
  void observe(FrameObserver* observer) noexcept { observer_ = observer; }
  // Gather mode `frame` only.
  void observe_bursts(BurstObserver* observer) noexcept { burst_observer_ = observer; }

  struct BurstBase {
    std::uint64_t base;    // n of frame 0
    std::uint32_t number;  // wraps counted
  };
  // All bursts begun, in order; at most most_bursts.
  const std::vector<BurstBase>& bursts() const noexcept { return bases_; }

  struct LostPacket {
    std::uint64_t n;  // frame number, from 0 over the run
    Nanoseconds arrival;
    std::uint8_t board;
    Lost reason;  // late: the frame was closed; overrun: it has no buffer
  };
  // Packets lost for these two reasons, in order; at most most_lost, both together. Read after the run.
  // Gather mode `frame` of software datapaths only.
  const std::vector<LostPacket>& lost_packets() const noexcept { return lost_; }

 protected:
  // Does not allocate: packets beyond the vector's capacity are not recorded.
  void note_lost(const LostPacket& packet) noexcept {
    if (lost_.size() < lost_.capacity()) lost_.push_back(packet);
  }
  // Does not allocate: bursts beyond the vector's capacity are not recorded.
  void note_burst(const BurstBase& burst) noexcept {
    if (bases_.size() < bases_.capacity()) bases_.push_back(burst);
  }
  static constexpr std::size_t most_bursts = 1 << 16;
  static constexpr std::size_t most_lost = 1 << 18;
  std::vector<BurstBase> bases_;
  std::vector<LostPacket> lost_;
  FrameObserver* observer_ = nullptr;
  BurstObserver* burst_observer_ = nullptr;
};

}  // namespace nanet::card
