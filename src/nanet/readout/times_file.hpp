// SPDX-License-Identifier: Apache-2.0
// Array of send times shared by readout and l0tp (`--times`). No header; 16 B per frame that needs an answer,
// in order over all bursts. Each entry is u64 first and u64 last send time, CLOCK_MONOTONIC ns, 0 = not sent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nanet/units.hpp"

namespace nanet::readout {

struct SendTimes {
  std::uint64_t first = 0, last = 0;
};
static_assert(sizeof(SendTimes) == 16);

class TimesWriter {
 public:
  // Creates the file, or reuses an existing one, at full size and zeroed. Allocates the disk space, so that a
  // full disk fails here. Throws std::system_error with a full sentence.
  TimesWriter(const std::string& path, std::uint64_t frames);
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
