// SPDX-License-Identifier: Apache-2.0
// Frame batch: built frames of an event queue whose events are reconstructed in one call, as a GPU requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/contract/layout.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/executors/executor.hpp"
#include "nanet/trigger/executors/frame_processor.hpp"
#include "nanet/trigger/executors/load_shedder.hpp"

namespace nanet::trigger {

// Gather mode `frame`. One thread. Allocates only at construction.
class FrameBatch {
 public:
  // traces outlives this.
  FrameBatch(const ExecutorOptions& options, const contract::View& view, TraceTable& traces);

  // Builds the frame of a receive event and keeps it, or skips it and returns its buffer if its answer would
  // be late. Requires !full(). Returns the time after building; 0: skipped.
  Nanoseconds add(const contract::Event& event, std::uint64_t n) noexcept;
  // Another frame may exceed the number of frames, events or hits.
  bool full() const noexcept {
    return kept_.size() == most_frames_ || events_ >= enough_events || hits_ > enough_hits;
  }
  bool empty() const noexcept { return kept_.empty(); }
  // Reconstructs the events, posts the answers in order, returns the buffers, and empties the batch.
  void answer(rich::Reconstructor& algorithm) noexcept;
  // Drops the frames, which stay unanswered.
  void clear() noexcept;

  const Physics& physics() const noexcept { return process_.physics(); }

 private:
  static constexpr std::uint32_t enough_events = 16384, enough_hits = 32 * enough_events;
  // With an eighth of the buffers at most, the card has free buffers while frames are kept.
  static constexpr std::size_t enough_frames = 512;

  struct Kept {
    contract::Event event;
    std::uint64_t n;
    BuiltFrame built;  // its pointers refer to the arrays below
    std::uint32_t at;  // index of its first event there
  };
  template <class T>
  const T* copy(std::vector<T>& to, const T* from, std::uint32_t events) noexcept;

  TraceTable& traces_;
  contract::View view_;
  FrameProcessor process_;
  LoadShedder shedder_;
  ServiceTime service_;
  std::uint64_t keep_from_ = 0;
  std::size_t most_frames_;

  std::vector<Kept> kept_;
  std::uint32_t events_ = 0, hits_ = 0;  // of the kept frames
  std::vector<std::uint32_t> first_;
  std::vector<PmId> pm_;
  std::vector<std::uint16_t> time_, opened_, order_;
  std::vector<std::uint8_t> boards_, truncated_;
  std::vector<rich::Rings> rings_;
};

}  // namespace nanet::trigger
