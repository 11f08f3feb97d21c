// SPDX-License-Identifier: Apache-2.0
// Frame of the resident kernel in the mailbox: units of its segments and indices, some of them copied before
// the event line arrives, and the place of its answer.
#pragma once

#include "nanet/contract/device_access.cuh"
#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/claimed_event.cuh"
#include "nanet/gpu/resident/serving.cuh"

namespace nanet::gpu {

struct Unit {
  std::uint32_t word[4];
};
__device__ inline Unit load_unit(const std::byte* at) {
  const Sixteen unit = load_relaxed_system(reinterpret_cast<const Sixteen*>(at));
  return {{static_cast<std::uint32_t>(unit.low), static_cast<std::uint32_t>(unit.low >> 32),
           static_cast<std::uint32_t>(unit.high), static_cast<std::uint32_t>(unit.high >> 32)}};
}
// A board's part of the mailbox: segment and index of a number.
struct BoardUnits {
  using Unit = gpu::Unit;
  const std::byte* at;
  std::uint32_t mark;
  __device__ Unit unit(std::uint32_t offset) const { return load_unit(at + offset); }
};
// Units of number n in the mailbox.
struct FrameUnits {
  using Unit = gpu::Unit;
  const Resident& r;
  std::uint64_t n;

  __device__ BoardUnits board(unsigned b) const {
    return {r.mailbox.input + r.mailbox.shape.segment(buffer(), b), mark()};
  }
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
  __device__ Unit load(std::size_t at) const { return load_unit(r.mailbox.input + at); }
};

// Units that a thread has copied before the event line came, of the frame that was expected.
struct EarlyUnits {
  std::uint64_t n = 0;
  std::uint32_t had = 0;  // mask, see ThreadUnits
};
// Segments of a claimed frame in the mailbox, and their index.
struct SegmentLines : FrameUnits {
  static constexpr bool prepared = true;  // FrameWork::begin() has run
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
  __device__ std::uint32_t bytes(unsigned b) const { return claimed.bytes(b); }
  __device__ std::uint32_t fragments(unsigned b) const { return claimed.fragments(b); }
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

// Whether results per event are kept: of packets, and of sampled frames.
__device__ inline bool keeps_rings(const Resident& r, std::uint32_t frame) {
  return !r.sizes.frame || frame % sample_every == 0;
}
// Answer's place in the mailbox.
__device__ inline AnswerLines answer_lines(const Resident& r, std::uint64_t n, std::uint32_t buffer) {
  if (!r.mailbox.answers) return {};
  return {reinterpret_cast<Sixteen*>(r.mailbox.answers + contract::answer_line_bytes * std::size_t{buffer}),
          contract::mailbox_mark(n)};
}

}  // namespace nanet::gpu
