// SPDX-License-Identifier: Apache-2.0
// Queue entry claimed by a block of the resident kernel: wait for it, in the event queue or by its event line
// in the mailbox, and second read.
#pragma once

#include "nanet/contract/consumer.hpp"
#include "nanet/contract/device_access.cuh"
#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/resident/resident.hpp"
#include "nanet/gpu/resident/serving.cuh"

namespace nanet::gpu {

// Queue entry claimed by a block.
struct ClaimedEvent {
  std::uint64_t k, reference;  // reference: an n within 2^31
  std::int64_t seen, offset;
  std::uint64_t passed, newest, lag, keep_from;  // of QueueState, read with the entry
  contract::LineWords line;                      // without a mailbox the words of the event alone
  std::uint32_t skipped;
  std::uint32_t usual;           // a frame that FrameAhead takes
  std::uint32_t worked;          // a usual frame, whose events are built
  trigger::ServiceTime service;  // of this block's frames
  std::uint32_t waiting;         // the first warp waits for the entry
  std::uint64_t frontier, next;  // of QueueState, as the first warp has read them while it waits
  enum Found : std::uint32_t { event, again, over } found, confirmed;  // confirmed: result of the second read

  __device__ std::uint32_t type() const { return line.word[0] & 0xFF; }
  __device__ std::uint16_t flags() const { return static_cast<std::uint16_t>(line.word[0] >> 16); }
  __device__ std::uint32_t buffer() const { return line.word[1]; }
  __device__ std::uint32_t bytes() const { return line.word[2]; }
  __device__ std::uint32_t frame() const { return line.word[3]; }
  __device__ std::int64_t closed() const {
    return static_cast<std::int64_t>(std::uint64_t{line.word[5]} << 32 | line.word[4]);
  }
  __device__ bool has_buffer(const Resident& r) const {
    return type() == static_cast<std::uint32_t>(contract::EventType::receive_done) &&
           buffer() < r.shape.buffers;
  }
  __device__ std::uint32_t low_number() const { return line.word[6]; }
  __device__ std::uint32_t mark() const { return contract::mailbox_mark(low_number()); }
  // Of a board, in the event line.
  __device__ std::uint32_t bytes(unsigned board) const { return line.bytes(board); }
  __device__ std::uint32_t fragments(unsigned board) const {
    return line.bytes(contract::index_boards + board);
  }
  __device__ std::uint64_t n() const { return contract::unwrap_counter(low_number(), reference); }
};

// Part of a queue entry by lane. Without a mailbox: 0 type, flags, buffer, bytes, frame; 1 time, n, lap; one
// instruction reads both halves in one PCIe round trip. With one: the four units of its event line.
__device__ inline Sixteen part_of(const Resident& r, std::uint64_t k) {
  const std::uint32_t index = contract::entry_index(r.shape, k);
  if (r.mailbox.input) {
    const std::byte* const line = r.mailbox.input + contract::line_bytes * index;
    return load_relaxed_system(reinterpret_cast<const Sixteen*>(line) +
                               (threadIdx.x & (contract::units_per_line - 1)));
  }
  return load_acquire_system(reinterpret_cast<const Sixteen*>(r.queue + index) + (threadIdx.x & 1));
}
// Validity of the parts that a warp has read.
__device__ inline contract::Poll validity(const Resident& r, const Sixteen& part, std::uint32_t lap) {
  const auto mark = static_cast<std::uint32_t>(part.high >> 32);
  if (!r.mailbox.input) return contract::compare_lap(__shfl_sync(0xFFFFFFFFu, mark, 1), lap);
  const auto ahead = static_cast<std::int32_t>(mark - lap);
  if (__any_sync(0xFFFFFFFFu, ahead > 0)) return contract::Poll::overrun;
  return __all_sync(0xFFFFFFFFu, ahead == 0) ? contract::Poll::event : contract::Poll::nothing;
}
// Words of the parts that a warp has read. The first lanes; visible to the warp afterwards.
__device__ inline void fill(const Resident& r, ClaimedEvent& out, const Sixteen& part) {
  const unsigned lane = threadIdx.x;
  const bool units = r.mailbox.input != nullptr;
  if (lane < (units ? contract::units_per_line : 2u)) {
    std::uint32_t* const to = out.line.word + (units ? 3 : 4) * lane;
    to[0] = static_cast<std::uint32_t>(part.low);
    to[1] = static_cast<std::uint32_t>(part.low >> 32);
    to[2] = static_cast<std::uint32_t>(part.high);
    if (!units) to[3] = static_cast<std::uint32_t>(part.high >> 32);
  }
  __syncwarp();
}

// Whether all segments and their indices are in the mailbox.
__device__ inline bool says_index(const Resident& r, const ClaimedEvent& claimed) {
  constexpr std::uint32_t wanted = contract::EventLine::segments | contract::EventLine::indexed;
  return r.mailbox.input && (claimed.line.flags() & wanted) == wanted;
}
// BufferWork::is_usual() by the words of an event line, a lane for each. longest: bytes of a segment. One
// warp.
__device__ inline bool has_index(const Resident& r, const ClaimedEvent& claimed, std::uint32_t longest) {
  constexpr unsigned first = offsetof(contract::EventLine, bytes) / 4, words = 4;
  static_assert(contract::index_boards == 4);  // two words of bytes, two of fragments
  if (r.sizes.boards > contract::index_boards || !says_index(r, claimed)) return false;
  const unsigned of = threadIdx.x % words;
  const std::uint32_t two = claimed.line.word[first + of], most = of < 2 ? longest : contract::index_entries;
  return __all_sync(0xFFFFFFFFu, (two & 0xFFFF) <= most && two >> 16 <= most) != 0;
}

// Queue entry as the first warp has read it.
struct TakenEntry {
  Sixteen part;
  std::int64_t offset;
  bool found;

  // Word i of its event line. One warp.
  __device__ std::uint32_t word(unsigned i) const {
    const unsigned of = i % 3;
    const std::uint64_t two = of == 2 ? part.high : part.low;
    return __shfl_sync(0xFFFFFFFFu, static_cast<std::uint32_t>(of == 1 ? two >> 32 : two), i / 3);
  }
};

// Waits for a claimed queue entry. The first half is read together with the lap, not after it,
// which saves one PCIe round trip before the frame is fetched; look_again() must confirm it. First warp; the
// entry is out.k. The caller notes its words with fill().
__device__ inline TakenEntry take(const Resident& r, ClaimedEvent& out) {
  QueueState& state = *r.state;
  const std::uint64_t k = out.k;
  const std::uint32_t lap = contract::entry_lap(r.shape, k);
  // Blocks far from the queue head sleep instead of polling over PCIe.
  constexpr std::uint64_t polling_distance = 4;
  Sixteen part;
  std::int64_t offset;
  std::uint64_t reference, passed, newest, lag, keep_from, frontier = 0, next = 0;
  std::uint32_t ending;
  bool polling = false, stop = false;
  const contract::Poll poll = contract::wait_for_entry(
      [&] {
        const auto tell = [&] {
          if (threadIdx.x != 0) return;
          *const_cast<volatile std::uint64_t*>(&out.next) = next;
          *const_cast<volatile std::uint64_t*>(&out.frontier) = frontier;
        };
        for (; !polling; __nanosleep(100)) {
          ending = load_relaxed_device(&state.ending);
          if (ending) break;
          // First the frontier, so that the number is at least as new.
          frontier = load_relaxed_device(&state.frontier);
          next = load_relaxed_device(&state.next);
          polling = k < frontier + polling_distance;
          tell();
          if (polling) break;
        }
        tell();  // of the look before
        // Device memory is read before the entry, without a wait in between.
        frontier = load_relaxed_device(&state.frontier);
        next = load_relaxed_device(&state.next);
        ending = load_relaxed_device(&state.ending);
        offset = static_cast<std::int64_t>(load_relaxed_device(&state.offset));
        reference = load_relaxed_device(&state.reference);
        passed = load_relaxed_device(&state.passed);
        newest = load_relaxed_device(&state.newest);
        lag = load_relaxed_device(&state.lag);
        keep_from = load_relaxed_device(&state.keep_from);
        return stop;
      },
      [&] {
        part = part_of(r, k);
        return validity(r, part, lap);
      },
      [&] { stop = __any_sync(0xFFFFFFFFu, ending != 0) && load_acquire_device(&state.ending); });
  if (poll == contract::Poll::overrun && threadIdx.x == 0) {
    store_release_system(&r.control->device.overrun, 1u);
    atomicExch(&state.overrun, 1u);
    atomicExch(&state.ending, 1u);
  }
  const bool found = poll == contract::Poll::event;
  const std::int64_t now = device_time();
  if (threadIdx.x == 0) {
    out.reference = reference;
    out.offset = offset;
    out.passed = passed;
    out.newest = newest;
    out.lag = lag;
    out.keep_from = keep_from;
    out.found = found ? ClaimedEvent::event : ClaimedEvent::over;
    out.seen = now + offset;
  }
  return {part, offset, found};
}

// Announces the claimed entry: the next blocks may start polling. One thread.
__device__ inline void announce(const Resident& r, const ClaimedEvent& claimed) {
  QueueState& state = *r.state;
  // First the number: a block that the frontier brings near expects the right one.
  if (claimed.type() == static_cast<std::uint32_t>(contract::EventType::receive_done))
    atomicMax(reinterpret_cast<unsigned long long*>(&state.next),
              static_cast<unsigned long long>(claimed.n() + r.shape.devices));
  atomicMax(reinterpret_cast<unsigned long long*>(&state.frontier),
            static_cast<unsigned long long>(claimed.k + 1));
  store_relaxed_device(&state.reference, claimed.n());
}

// Reads an entry of the queue again, after its lap; the caller uses the result later.
__device__ inline Sixteen look_again(const Resident& r, std::uint64_t k) {
  const auto* const e = reinterpret_cast<const Sixteen*>(r.queue + contract::entry_index(r.shape, k));
  return load_relaxed_system(e + (threadIdx.x & 1));
}

}  // namespace nanet::gpu
