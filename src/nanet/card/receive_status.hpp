// SPDX-License-Identifier: Apache-2.0
// Receive-side statistics and observers, for software and hardware receivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

  struct LatePacket {
    std::uint64_t n, board;  // frame number, from 0 over the run
  };
  // Packets of closed frames (lost.late), in order; at most most_late. Read after the run. Gather mode
  // `frame` of software datapaths only.
  const std::vector<LatePacket>& late_packets() const noexcept { return late_; }

 protected:
  // Does not allocate: packets beyond the vector's capacity are not recorded.
  void note_late(const LatePacket& packet) noexcept {
    if (late_.size() < late_.capacity()) late_.push_back(packet);
  }
  // Does not allocate: bursts beyond the vector's capacity are not recorded.
  void note_burst(const BurstBase& burst) noexcept {
    if (bases_.size() < bases_.capacity()) bases_.push_back(burst);
  }
  static constexpr std::size_t most_bursts = 1 << 16;
  static constexpr std::size_t most_late = 1 << 18;
  std::vector<BurstBase> bases_;
  std::vector<LatePacket> late_;
  FrameObserver* observer_ = nullptr;
  BurstObserver* burst_observer_ = nullptr;
};

}  // namespace nanet::card
