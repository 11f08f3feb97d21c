// SPDX-License-Identifier: Apache-2.0
// Frame of the resident kernel in the mailbox: units of its segments and indices, some of them copied before
// the event line arrives, and the place of its answer.
#pragma once

#include "nanet/contract/device_access.cuh"
#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/serving.cuh"

namespace nanet::gpu {

// Units of number n in the mailbox.
struct FrameUnits {
  const Resident& r;
  std::uint64_t n;

  struct Unit {
    std::uint32_t word[4];
  };
  __device__ std::uint32_t mark() const { return contract::mailbox_mark(n); }
  __device__ std::uint32_t buffer() const {
    return static_cast<std::uint32_t>(n >> contract::exponent(r.shape.devices)) & (r.shape.buffers - 1);
  }
  __device__ Unit segment(unsigned b, std::uint32_t u) const {
    return load(r.mailbox.shape.segment(buffer(), b) + contract::unit_bytes * u);
  }
  __device__ Unit index(unsigned b, std::uint32_t u) const {
    return load(r.mailbox.shape.index(buffer(), b) + contract::unit_bytes * u);
  }
  __device__ Unit merged_unit(std::uint32_t u) const {
    return load(r.mailbox.shape.segment(buffer(), 0) + contract::unit_bytes * u);
  }

 private:
  __device__ Unit load(std::size_t at) const {
    const Sixteen unit = load_relaxed_system(reinterpret_cast<const Sixteen*>(r.mailbox.input + at));
    return {{static_cast<std::uint32_t>(unit.low), static_cast<std::uint32_t>(unit.low >> 32),
             static_cast<std::uint32_t>(unit.high), static_cast<std::uint32_t>(unit.high >> 32)}};
  }
};

// Units that a thread has copied before the event line came, of the frame that was expected.
struct EarlyUnits {
  std::uint64_t n = 0;
  std::uint32_t had = 0;  // mask, see ThreadUnits
};
// Lines of a frame that takes no index.
template <class Lines>
struct WithoutIndex : Lines {
  static constexpr bool indexes = false;
};
// Copies units of the next frame to shared memory as they arrive, until the first warp has the entry of the
// claimed event. A unit's own mark says that it is valid; if another frame comes, its units replace them.
// likely: mask of units that are worth a look; each look delays the first warp's. All threads but the first
// warp.
template <class A>
__device__ __forceinline__ EarlyUnits take_early(const Resident& r, BufferWork<A, Block>& work,
                                                 const ClaimedEvent& claimed, std::uint32_t likely) {
  EarlyUnits early;
  if (!r.mailbox.input) return early;
  const ThreadUnits<Block> units = work.of(threadIdx.x);
  const std::uint32_t mine = likely & work.possible(units, r.mailbox.shape.segment_bytes);
  const std::uint64_t k = claimed.k;
  std::uint32_t missing = mine;
  const volatile std::uint32_t& waiting = claimed.waiting;
  // The next frame's number and the queue's head are loaded together with the units of the last number.
  std::uint64_t next = load_relaxed_device(&r.state->next);
  std::uint64_t frontier = load_relaxed_device(&r.state->frontier);
  do {
    if (next != early.n) {
      early.n = next;
      if (missing != mine) work.clear_index(units, ~missing);
      missing = mine;
    }
    const FrameUnits lines{r, early.n};
    const bool near = k < frontier + r.early_distance && lines.mark();
    next = load_relaxed_device(&r.state->next);
    frontier = load_relaxed_device(&r.state->frontier);
    if (near && missing) {
      work.take_some(lines, units, missing);
      if (r.early_pause) __nanosleep(r.early_pause);
    } else {
      __nanosleep(near ? 20 : 100);
    }
  } while (waiting);
  early.had = mine & ~missing;
  return early;
}

// Segments of a claimed frame in the mailbox, and their index.
struct SegmentLines : FrameUnits {
  static constexpr bool prepared = true;  // FrameWork::begin() has run
  static constexpr bool indexes = true;
  const ClaimedEvent& claimed;
  std::uint32_t lap, had, old;

  __device__ SegmentLines(const Resident& resident, const ClaimedEvent& event, std::uint32_t entry_lap,
                          const EarlyUnits& units)
      : FrameUnits{resident, event.n()},
        claimed(event),
        lap(entry_lap),
        had(is_of(event, units) ? units.had : 0),
        old(is_of(event, units) ? 0 : units.had) {}
  // Both numbers lie within 2^31.
  __device__ static bool is_of(const ClaimedEvent& event, const EarlyUnits& units) {
    return static_cast<std::uint32_t>(units.n) == event.low_number();
  }
  __device__ bool used() const {
    return r.mailbox.input && (claimed.line.flags() & contract::EventLine::segments);
  }
  __device__ std::uint32_t bytes(unsigned b) const { return claimed.line.bytes(b); }
  __device__ bool indexed() const { return claimed.line.flags() & contract::EventLine::indexed; }
  __device__ std::uint32_t fragments(unsigned b) const {
    return claimed.line.bytes(contract::index_boards + b);
  }
  __device__ std::uint32_t early() const { return had; }
  __device__ std::uint32_t stale() const { return old; }  // of another frame
  // A merged frame in their place.
  __device__ bool merged() const {
    return r.mailbox.input && (claimed.line.flags() & contract::EventLine::merged);
  }
  __device__ std::uint32_t rows() const { return claimed.line.bytes(0); }
  __device__ std::uint32_t hits() const { return claimed.line.bytes(1); }
  __device__ std::uint32_t most_merged_bytes() const { return r.mailbox.shape.merged_bytes(); }
  // Waits until the queue entry is valid: the CLOP is then readable too. The card writes the entry right
  // after the event line.
  __device__ void await_entry() const {
    if (!r.mailbox.input) return;
    const contract::Event& entry = r.queue[contract::entry_index(r.shape, claimed.k)];
    while (contract::compare_lap(load_acquire_system(&entry.lap), lap) == contract::Poll::nothing)
      __nanosleep(100);
  }
};

// Answer's place in the mailbox.
__device__ inline AnswerLines answer_lines(const Resident& r, std::uint64_t n, std::uint32_t buffer) {
  if (!r.mailbox.answers) return {};
  return {reinterpret_cast<Sixteen*>(r.mailbox.answers + contract::answer_line_bytes * std::size_t{buffer}),
          contract::mailbox_mark(n)};
}

}  // namespace nanet::gpu
