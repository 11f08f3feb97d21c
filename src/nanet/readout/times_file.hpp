// SPDX-License-Identifier: Apache-2.0
// Array of send times shared by readout and l0tp (`--times`). No header; 16 B per frame that needs an answer,
// in order over all bursts. Each entry is u64 first and u64 last send time, CLOCK_MONOTONIC ns, 0 = not sent.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::readout {

struct SendTimes {
  std::uint64_t first = 0, last = 0;
};
static_assert(sizeof(SendTimes) == 16);

// A board's packets of a frame whose send call ended late.
struct LateSend {
  std::uint64_t frame;  // counted from 0 over the run
  std::uint32_t board;
  std::uint32_t after_ns;  // end of the call after the frame's first send time; saturates
};
static_assert(sizeof(LateSend) == 16);

class TimesWriter {
 public:
  // Creates the file, or reuses an existing one, at full size and zeroed. Allocates the disk space, so that a
  // full disk fails here. Throws std::system_error with a full sentence. late_ns: see sent(); 0: no list.
  TimesWriter(const std::string& path, std::uint64_t frames, Nanoseconds late_ns = 0);
  ~TimesWriter();
  TimesWriter(const TimesWriter&) = delete;
  TimesWriter& operator=(const TimesWriter&) = delete;

  // Frames count from 0 over the run; frames beyond the file are ignored. Keeps the minimum of the first and
  // the maximum of the last times. Thread-safe.
  void first(std::uint64_t frame, Nanoseconds now) noexcept {
    if (frame < frames_)
      put(times_[frame].first, now, [](auto is, auto given) { return is == 0 || given < is; });
  }
  void last(std::uint64_t frame, Nanoseconds now) noexcept {
    if (frame < frames_) put(times_[frame].last, now, [](auto is, auto given) { return given > is; });
  }
  // Sets both times, for a single packet.
  void packet(std::uint64_t frame, Nanoseconds now) noexcept {
    first(frame, now);
    last(frame, now);
  }

  // The call that sent the board's packets of the frame has ended: lists them if that is more than late_ns
  // after the first send time. A stop inside the call delays them, although their send time is early.
  // Thread-safe; does not allocate.
  void sent(std::uint64_t frame, std::uint32_t board, Nanoseconds now) noexcept {
    if (late_ns_ == 0 || frame >= frames_) return;
    const auto first =
        static_cast<Nanoseconds>(std::atomic_ref(times_[frame].first).load(std::memory_order_relaxed));
    if (now - first <= late_ns_) return;
    const std::size_t at = listed_.fetch_add(1, std::memory_order_relaxed);
    constexpr Nanoseconds most = std::numeric_limits<std::uint32_t>::max();
    if (at < late_.size())
      late_[at] = {frame, board, static_cast<std::uint32_t>(std::min(now - first, most))};
  }
  // The first most_late_listed, in no order. Once no thread sends.
  std::span<const LateSend> late() const noexcept {
    return std::span(late_).first(std::min(listed_.load(std::memory_order_relaxed), late_.size()));
  }
  static constexpr std::size_t most_late_listed = 1 << 20;

 private:
  template <class Better>
  static void put(std::uint64_t& at, Nanoseconds now, const Better& better) noexcept {
    const auto given = static_cast<std::uint64_t>(now);
    const std::atomic_ref time(at);
    std::uint64_t is = time.load(std::memory_order_relaxed);
    while (better(is, given) &&
           !time.compare_exchange_weak(is, given, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  SendTimes* times_ = nullptr;
  std::uint64_t frames_;
  Nanoseconds late_ns_;
  std::vector<LateSend> late_;
  std::atomic<std::size_t> listed_{0};
};

// Reader of a times file, which a sender may create later.
class TimesReader {
 public:
  explicit TimesReader(std::string path) : path_(std::move(path)) {}
  ~TimesReader();
  TimesReader(const TimesReader&) = delete;
  TimesReader& operator=(const TimesReader&) = delete;

  // Maps the file, or remaps it if it was replaced or resized. Cheap if nothing changed.
  void refresh() noexcept;
  bool mapped() const noexcept { return times_ != nullptr; }
  std::uint64_t frames() const noexcept { return frames_; }  // entries of the file
  // Times of a frame, counted from 0 over the run; zeros if the frame was not sent or lies beyond the file.
  SendTimes at(std::uint64_t frame) const noexcept {
    if (frame >= frames_) return {};
    return {std::atomic_ref(times_[frame].first).load(std::memory_order_acquire),
            std::atomic_ref(times_[frame].last).load(std::memory_order_acquire)};
  }

 private:
  void unmap() noexcept;
  std::string path_;
  SendTimes* times_ = nullptr;
  std::uint64_t frames_ = 0;
  std::uint64_t device_ = 0, inode_ = 0;
};

}  // namespace nanet::readout
