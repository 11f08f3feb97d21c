// SPDX-License-Identifier: Apache-2.0
// Trace of each number n: results and time stamps of an executor, for accounting and histograms. Written
// before the descriptor is posted; read by the card's thread after the descriptor or the returned buffer.
// Beside it: progress of the card, in the other direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "nanet/contract/atomic.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

struct Trace {
  std::uint64_t n = ~std::uint64_t{0};
  Frame frame = 0;
  Nanoseconds seen = 0, built = 0, reconstructed = 0, posted = 0;
  std::uint32_t events = 0, primitives = 0, below_min_hits = 0, mtp_overflow = 0, rings = 0,
                duplicate_hits = 0, masked_hits = 0;
  std::uint32_t downscaled[4] = {};  // primitives by kind (downscale.hpp)
  // Events close enough to a frame edge that the adjacent frame may hold the rest of their fragments.
  struct Edge {
    std::uint16_t opened;
    std::uint8_t boards;
  };
  static constexpr unsigned edges = 8;
  Edge low[edges] = {}, high[edges] = {};
  std::uint8_t lows = 0, highs = 0;
};

// Progress of the card, for executors. Written by the card's thread: relaxed stores, each word alone.
struct alignas(64) FrameProgress {
  std::uint64_t passed = 0;  // numbers below have been answered
  std::uint64_t newest = 0;  // numbers below have been received
  // Part of the deadline that had passed at a recent frame's receive event: the time from its first packet
  // on, or more if the experiment's time sets an earlier deadline. Negative: unknown, the card's clock is not
  // the host's.
  Nanoseconds lag = -1;
};

// One entry per CLOP buffer of all devices, indexed by n. Page-aligned, so that a GPU can map it.
class TraceTable {
 public:
  // slots: a power of two. allocator outlives it.
  explicit TraceTable(std::size_t slots, os::RegionAllocator& allocator = os::host_allocator())
      : allocator_(&allocator),
        bytes_(bytes_for(slots)),
        trace_(reinterpret_cast<Trace*>(allocator.allocate(bytes_))),
        mask_(slots - 1) {
    std::uninitialized_default_construct_n(trace_, slots);
    new (progress_at(trace_, slots)) FrameProgress;
  }
  // Uses a table made by another process, mapped at the same address.
  TraceTable(Trace* made, std::size_t slots) noexcept
      : bytes_(bytes_for(slots)), trace_(made), mask_(slots - 1) {}
  ~TraceTable() {
    if (allocator_) allocator_->free(reinterpret_cast<std::byte*>(trace_), bytes_);
  }
  TraceTable(const TraceTable&) = delete;
  TraceTable& operator=(const TraceTable&) = delete;
  Trace& operator[](std::uint64_t n) noexcept { return trace_[n & mask_]; }
  Trace* data() noexcept { return trace_; }
  FrameProgress& progress() noexcept { return *progress_at(trace_, mask_ + 1); }
  // Address of the progress of a table; the GPU maps both.
  static FrameProgress* progress_at(Trace* table, std::size_t slots) noexcept {
    return reinterpret_cast<FrameProgress*>(reinterpret_cast<std::byte*>(table) + progress_offset(slots));
  }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t mask() const noexcept { return mask_; }

 private:
  static std::size_t progress_offset(std::size_t slots) noexcept {
    return (slots * sizeof(Trace) + alignof(FrameProgress) - 1) / alignof(FrameProgress) *
           alignof(FrameProgress);
  }
  static std::size_t bytes_for(std::size_t slots) noexcept {
    return (progress_offset(slots) + sizeof(FrameProgress) + page - 1) / page * page;
  }
  static constexpr std::size_t page = 4096;
  os::RegionAllocator* allocator_ = nullptr;
  std::size_t bytes_;
  Trace* trace_;
  std::uint64_t mask_;
};

inline FrameProgress read_progress(TraceTable& traces) noexcept {
  const FrameProgress& card = traces.progress();
  return {contract::relaxed(card.passed), contract::relaxed(card.newest), contract::relaxed(card.lag)};
}

}  // namespace nanet::trigger
