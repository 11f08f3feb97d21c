// SPDX-License-Identifier: Apache-2.0
// Frame reader: batch reader of queues of Ethernet frames. Frames stay in the memory of their queue until the
// card's thread has placed them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nanet/card/raw/frame_source.hpp"
#include "nanet/card/software/batch_reader.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

class alignas(64) FrameBatch {
 public:
  using Source = FrameSource*;
  static constexpr std::size_t most = 64;  // frames
  static constexpr std::size_t handed_at_once = 8, first_request = handed_at_once;

  // room: frames, at most `most`.
  explicit FrameBatch(std::size_t room = most);
  bool read(FrameSource* source, std::size_t index, std::size_t requested) noexcept;
  void release() noexcept { queue_->give_back(got_); }
  std::size_t next_request(bool handed) const noexcept { return handed ? handed_at_once : most; }

  std::size_t source() const noexcept { return index_; }
  std::size_t frames() const noexcept { return got_; }
  std::size_t packets() const noexcept { return got_; }
  Nanoseconds before() const noexcept { return before_; }
  bool emptied() const noexcept { return got_ < requested_; }
  // Time stamp of frame i; 0: not stamped.
  Nanoseconds stamp(std::size_t i) const noexcept { return arrivals_[i].stamp; }

  // Parses all frames and validates their payloads. Call make_room_to_validate() once before.
  void make_room_to_validate() {
    parsed_ = std::make_unique<Parsed[]>(room_);
    listed_.resize(room_ * wire::mgp::max_fragments);
  }
  // The card's thread alone writes mailboxes: a frame may end where its memory ends.
  void validate(const wire::mgp::Rules& rules, SegmentsAhead*, SegmentsAhead::Lane&) noexcept;
  // Headers of frame i, from validate() or parsed now.
  wire::UdpFrame udp(std::size_t i) const noexcept;
  // Validation of frame i; nullptr: not validated.
  const wire::mgp::Checked* checked(std::size_t i) const noexcept {
    return validated_ ? &parsed_[i].checked : nullptr;
  }

  // Prefetches the cache lines that the reading thread has written.
  void fetch(bool /*payloads*/) const noexcept {
    __builtin_prefetch(&got_);
    for (std::size_t i = 0; i < room_; i += 2) __builtin_prefetch(&arrivals_[i]);
    for (std::size_t i = 0; parsed_ && i < room_; ++i) __builtin_prefetch(&parsed_[i]);
  }
  bool copied() const noexcept { return false; }
  void fetch_to_write() noexcept { __builtin_prefetch(arrivals_.data(), 1); }
  // Prefetches the begin of frame i, if there is one.
  void fetch_frame(std::size_t i) const noexcept {
    if (i < got_) __builtin_prefetch(arrivals_[i].frame.data());
  }

 private:
  struct Parsed {
    wire::UdpFrame udp;
    wire::mgp::Checked checked;
  };

  std::size_t room_;
  std::unique_ptr<Parsed[]> parsed_;
  std::vector<std::uint32_t> listed_;  // fragments, by validation
  std::vector<std::byte> joined_;      // contiguous copies of frames in several slots
  alignas(64) FrameSource* queue_ = nullptr;
  std::size_t index_ = 0, requested_ = 0, got_ = 0;
  Nanoseconds before_ = 0;
  bool validated_ = false;
  alignas(64) std::array<Arrival, most> arrivals_{};
};

using FrameReader = BatchReader<FrameBatch>;

}  // namespace nanet::card
