// SPDX-License-Identifier: Apache-2.0
// Counts primitive packets per frame, as the L0 trigger processor does to align its detectors: one packet per
// frame, frames strictly increasing, a fall by more than 1024 is a new burst.
#pragma once

#include <bitset>
#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::l0tp {

// What a packet's frame number means for the order of the stream.
enum class Arrival : std::uint8_t {
  first,         // of all
  in_order,      // ahead of all before it; the frames between are missing, unless they still come
  new_burst,     // a fall by more than 1024 frames
  out_of_order,  // behind the newest; fills a gap
  duplicate,     // that frame is there already
};

class Aligner {
 public:
  static constexpr Frame largest_fall = 1024;

  // `burst_frames`: frames of every burst if known, for run_frame(); 0: as many as the last frame seen says.
  explicit Aligner(Frame burst_frames = 0) : burst_frames_(burst_frames) {}

  Arrival see(Frame frame) noexcept {
    if (bursts_ == 0) {
      bursts_ = 1;
      skip_to(frame);
      first_ = newest_ = frame;  // joined late: nothing is owed before it
      came_.set(frame % window);
      ++frames_;
      return Arrival::first;
    }
    if (frame > newest_) {
      gap_ = frame - newest_ - 1;
      missing_ += gap_;
      skip_to(frame);
      newest_ = frame;
      came_.set(frame % window);
      ++frames_;
      return Arrival::in_order;
    }
    if (newest_ - frame > largest_fall) {
      base_ = burst_frames_ != 0 ? bursts_ * burst_frames_ : base_ + newest_ + 1;
      ++bursts_;
      came_.reset();
      gap_ = frame;
      missing_ += gap_;  // this time it was listening from frame 0
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

  std::uint64_t frames() const noexcept { return frames_; }    // different ones that came
  std::uint64_t missing() const noexcept { return missing_; }  // a running balance
  std::uint64_t bursts() const noexcept { return bursts_; }
  Frame newest() const noexcept { return newest_; }
  Frame gap() const noexcept { return gap_; }  // missing right before the newest
  // Number of a frame of the present burst, counted from 0 over all bursts.
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
