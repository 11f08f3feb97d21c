// SPDX-License-Identifier: Apache-2.0
// Frame aligner: counts primitive packets per frame, as the L0 trigger processor does to align its detectors.
// One packet per frame, frames strictly increasing; a fall by more than 1024 starts a new burst.
#pragma once

#include <bitset>
#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::l0tp {

// Position of a packet's frame in the stream.
enum class Arrival : std::uint8_t {
  first,         // first packet of the run
  in_order,      // ahead of all previous; skipped frames count as missing until they arrive
  new_burst,     // a fall by more than 1024 frames
  out_of_order,  // behind the newest frame; fills a gap
  duplicate,     // frame already received
};

class Aligner {
 public:
  static constexpr Frame largest_fall = 1024;

  // burst_frames: frames per burst if known, for run_frame(); 0: derived from the last frame seen.
  explicit Aligner(Frame burst_frames = 0) : burst_frames_(burst_frames) {}

  Arrival see(Frame frame) noexcept { return see(frame, falls(frame) ? 1 : 0); }
  // True if `frame` starts a new burst, by its number alone.
  bool falls(Frame frame) const noexcept {
    return bursts_ != 0 && newest_ > frame && newest_ - frame > largest_fall;
  }
  // The same for a packet `by` bursts after the newest burst. by = 0: at most largest_fall behind the newest.
  Arrival see(Frame frame, std::uint64_t by) noexcept {
    if (bursts_ == 0) {
      bursts_ = 1;
      skip_to(frame);
      first_ = newest_ = frame;  // joined late: earlier frames do not count as missing
      came_.set(frame % window);
      ++frames_;
      return Arrival::first;
    }
    if (by == 0 && frame > newest_) {
      gap_ = frame - newest_ - 1;
      missing_ += gap_;
      skip_to(frame);
      newest_ = frame;
      came_.set(frame % window);
      ++frames_;
      return Arrival::in_order;
    }
    if (by > 0) {
      base_ = burst_frames_ != 0 ? (bursts_ - 1 + by) * burst_frames_ : base_ + newest_ + 1;
      bursts_ += by;
      came_.reset();
      gap_ = frame;
      missing_ += gap_;  // not joined late: the count starts at frame 0
      first_ = 0;
      newest_ = frame;
      came_.set(frame % window);
      ++frames_;
      return Arrival::new_burst;
    }
    if (came_.test(frame % window)) return Arrival::duplicate;
    came_.set(frame % window);
    ++frames_;
    if (frame > first_) --missing_;
    return Arrival::out_of_order;
  }

  std::uint64_t frames() const noexcept { return frames_; }    // distinct frames received
  std::uint64_t missing() const noexcept { return missing_; }  // running balance
  std::uint64_t bursts() const noexcept { return bursts_; }
  Frame newest() const noexcept { return newest_; }
  Frame first() const noexcept { return first_; }  // of the current burst
  Frame gap() const noexcept { return gap_; }      // missing directly before the newest frame
  // Number of a frame of the current burst, counted from 0 over all bursts.
  std::uint64_t run_frame(Frame frame) const noexcept { return base_ + frame; }

 private:
  static constexpr Frame window = 2048;  // more than the largest fall
  void skip_to(Frame frame) noexcept {
    if (frame - newest_ >= window) {
      came_.reset();
    } else {
      for (Frame f = newest_ + 1; f <= frame; ++f) came_.reset(f % window);
    }
  }

  Frame burst_frames_;
  std::bitset<window> came_;
  std::uint64_t bursts_ = 0, base_ = 0, frames_ = 0, missing_ = 0;
  Frame first_ = 0, newest_ = 0, gap_ = 0;
};

}  // namespace nanet::l0tp
