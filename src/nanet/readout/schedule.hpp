// SPDX-License-Identifier: Apache-2.0
// Schedule of a run: due time and burst of each frame. Arithmetic only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "nanet/units.hpp"

namespace nanet::readout {

class Schedule {
 public:
  // speed: detector seconds per wall-clock second. 0: no pacing, all frames are due at once. burst_frames >=
  // 1. gap_ns: wall-clock time between the end of a burst and the start of the next.
  Schedule(double speed, Frame burst_frames, double gap_ns)
      : frame_wall_ns_(speed > 0 ? frame_ns / speed : 0), burst_frames_(burst_frames), gap_ns_(gap_ns) {}

  // Frames of the run are counted from 0 over all bursts.
  std::uint64_t burst(std::uint64_t index) const { return index / burst_frames_; }
  Frame frame(std::uint64_t index) const { return static_cast<Frame>(index % burst_frames_); }
  bool first_of_burst(std::uint64_t index) const { return frame(index) == 0; }
  std::uint64_t burst_end(std::uint64_t index) const { return (burst(index) + 1) * burst_frames_; }

  // Start of a frame, ns after the start of the run; rounded up, so that nothing leaves early.
  Nanoseconds due(std::uint64_t index) const {
    return round_up(static_cast<double>(index) * frame_wall_ns_ +
                    static_cast<double>(burst(index)) * gap_ns_);
  }
  // End of a frame; if it is the last of a burst, the time at which the EOB is due.
  Nanoseconds end(std::uint64_t index) const {
    return round_up(static_cast<double>(index + 1) * frame_wall_ns_ +
                    static_cast<double>(burst(index)) * gap_ns_);
  }
  // Frames due before `duration` ns, the maximum of a run of this length. Without pacing: unlimited.
  std::uint64_t frames_within(Nanoseconds duration) const {
    if (duration <= 0) return 0;
    if (frame_wall_ns_ == 0) return std::numeric_limits<std::uint64_t>::max();
    const double burst_ns = burst_frames_ * frame_wall_ns_ + gap_ns_;
    const double bursts = std::floor(static_cast<double>(duration) / burst_ns);
    std::uint64_t index = static_cast<std::uint64_t>(bursts) * burst_frames_;
    const double rest = static_cast<double>(duration) - bursts * burst_ns;
    index += static_cast<std::uint64_t>(
        std::min(std::ceil(rest / frame_wall_ns_), static_cast<double>(burst_frames_)));
    while (index > 0 && due(index - 1) >= duration) --index;  // corrects rounding up
    while (due(index) < duration) ++index;                    // corrects rounding down
    return index;
  }
  // Frames to gather per batch: those due within `batch_ns` of wall-clock time, between one and `limit`.
  unsigned batch(Nanoseconds batch_ns, unsigned limit) const {
    if (frame_wall_ns_ == 0) return std::max(limit, 1u);
    const double frames = static_cast<double>(batch_ns) / frame_wall_ns_;
    return static_cast<unsigned>(std::clamp(frames, 1.0, static_cast<double>(std::max(limit, 1u))));
  }
  double frame_wall_ns() const { return frame_wall_ns_; }

 private:
  static Nanoseconds round_up(double ns) { return static_cast<Nanoseconds>(std::ceil(ns)); }
  double frame_wall_ns_;
  Frame burst_frames_;
  double gap_ns_;
};

}  // namespace nanet::readout
