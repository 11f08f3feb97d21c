// SPDX-License-Identifier: Apache-2.0
// Sequence tracker of one board: seen, missing and replayed numbers, and large jumps that need confirmation.
#pragma once

#include <array>
#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::card {

inline constexpr std::int32_t sequence_window = 4096;
inline constexpr std::int32_t frame_window = 1024;

class SequenceTracker {
 public:
  enum class Look : std::uint8_t { fresh, replayed, jump };

  bool started() const noexcept { return started_; }
  Sequence newest() const noexcept { return newest_; }

  // Numbers below the window cannot be distinguished from replayed ones and count as replayed.
  Look look(Sequence s) const noexcept {
    if (!started_) return Look::fresh;
    const std::int64_t ahead = distance(s);
    if (ahead > sequence_window) return Look::jump;
    if (ahead > 0) return Look::fresh;
    if (ahead <= -sequence_window) return Look::replayed;
    return test(s) ? Look::replayed : Look::fresh;
  }
  // Marks a number as seen; look() must not have returned `replayed`. A number beyond the window is a
  // confirmed jump: the numbers in between count as missing.
  void accept(Sequence s) noexcept {
    ++received_;
    if (!started_) {
      started_ = true;
      newest_ = s;
      span_ = 1;
      seen_.fill(0);
      set(s);
      return;
    }
    const std::int64_t ahead = distance(s);
    if (ahead > 0) {
      if (ahead >= sequence_window)
        seen_.fill(0);
      else
        for (Sequence q = newest_ + 1; q != s; ++q) clear(q);
      newest_ = s;
      span_ += static_cast<std::uint64_t>(ahead);
    } else if (static_cast<std::uint64_t>(-ahead) >= span_) {  // from before the first seen number
      span_ = static_cast<std::uint64_t>(-ahead) + 1;
    }
    set(s);
  }
  // Accepts a confirmed jump: both packets arrived, though the first was dropped.
  void jump(Sequence dropped, Sequence confirming) noexcept {
    const bool behind = confirming < dropped;
    for (const Sequence s : {behind ? confirming : dropped, behind ? dropped : confirming})
      if (look(s) != Look::replayed) accept(s);
  }
  // The board restarted at sequence 0 (SOB); earlier gaps stay counted.
  void restart() noexcept {
    frozen_ = missing();
    started_ = false;
    received_ = 0;
  }
  // Current balance: a packet that arrives out of order is not missing.
  std::int64_t missing() const noexcept {
    if (!started_) return frozen_;
    return frozen_ + static_cast<std::int64_t>(span_ - received_);
  }

 private:
  // Numbers start at 0 with each burst and never wrap (16 packets in each of 2^24 frames are 2^28).
  std::int64_t distance(Sequence s) const noexcept { return std::int64_t{s} - std::int64_t{newest_}; }
  bool test(Sequence s) const noexcept { return (seen_[(s >> 6) & 63] >> (s & 63)) & 1; }
  void set(Sequence s) noexcept { seen_[(s >> 6) & 63] |= std::uint64_t{1} << (s & 63); }
  void clear(Sequence s) noexcept { seen_[(s >> 6) & 63] &= ~(std::uint64_t{1} << (s & 63)); }

  std::array<std::uint64_t, 64> seen_{};
  Sequence newest_ = 0;
  bool started_ = false;
  std::uint64_t span_ = 0,
                received_ = 0;  // numbers from the first seen to the newest; how many of them arrived
  std::int64_t frozen_ = 0;
};

}  // namespace nanet::card
