// SPDX-License-Identifier: Apache-2.0
// A block's work on a frame before the event line comes: units are copied as they arrive, and once all boards
// are complete by their packets' headers, fragments are read and joined (frame/fragment_work.hpp). All warps
// but the first, which waits for the event line.
//
// Several blocks near the queue's head expect the same frame, since other entries lie between frames. Those
// that do not get it drop it when its number is announced, and expect the next.
#pragma once

#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

template <class A>
class FrameAhead {
  using Early = typename MailboxUnits<Block>::Early;

 public:
  // works: whether fragments are read and joined; else units are copied only.
  __device__ FrameAhead(const Resident& r, const BufferWork<A, Block>& work, FrameShared& shared,
                        const ClaimedEvent& claimed, const typename PlaneOf<A>::type* plane, bool works)
      : r_(r),
        work_(work),
        s_(shared),
        claimed_(claimed),
        plane_(plane),
        works_(works),
        units_(work.of(threadIdx.x)) {}

  // Until the first warp has the entry of the claimed event, and the work on its frame is done if it is a
  // usual one; usual(): whether it is. likely: mask of units that are worth a look; each look delays the
  // first warp's. look: whether to look before the line comes. A unit's own mark says that it is valid.
  template <class Usual>
  __device__ __forceinline__ void run(bool look, std::uint32_t likely, const Usual& usual) {
    bool dirty = false;
    early_.missing = likely & work_.possible(units_, r_.mailbox.shape.segment_bytes);
    const std::uint32_t mine = early_.missing;
    for (;;) {
      const bool held = look && await(mine);
      if (lane() == 0) {
        Block::set(s_.held.of_group[warp()], units_.used() ? contract::mailbox_mark(n_) : 0);
        if (!held) Block::set(s_.held.by_line, 1);
      }
      sync();
      if (Block::look(s_.held.by_line)) break;
      const std::uint32_t mark = Block::look(s_.held.mark[0]);
      const bool same = all_have(mark);
      dirty = same && works_;
      if (dirty) work();
      if (warp() == warps() - 1) decide(same, mark, usual);
      sync();
      const std::uint32_t next = Block::look(s_.held.next);
      if (next == done) return;
      if (next == line) break;
      if (dirty) forget();
      sync();
    }
    while (waits()) __nanosleep(20);
    __threadfence_block();  // the event line is read after `waiting`
    if (!usual()) return;
    if (dirty) forget();
    const SegmentLines lines(r_, claimed_, 0, early());
    work_.complete(threadIdx.x, lines);
    work_.note_sizes(units_, lines);
    sync();
    Block::fence();
    Block::set(s_.held.known, 1);
    if (works_) work();
  }
  __device__ EarlyUnits early() const { return {n_, early_.had}; }

 private:
  static constexpr unsigned all = ~0u;
  enum Next : std::uint32_t { done, line, again };

  __device__ static unsigned lane() { return threadIdx.x & 31u; }
  __device__ static unsigned warp() { return threadIdx.x / 32 - 1; }
  __device__ static unsigned warps() { return blockDim.x / 32 - 1; }
  // Of all warps but the first.
  __device__ static void sync() {
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x - Block::idle) : "memory");
  }
  __device__ bool waits() const { return __any_sync(all, Block::look(claimed_.waiting) != 0) != 0; }

  // Returns whether the warp has all units of the frame that is expected; else the event line is there. mine:
  // mask of units to look for.
  __device__ __forceinline__ bool await(std::uint32_t mine) {
    if (!__any_sync(all, units_.used())) return true;
    const auto places = work_.places(units_, static_cast<std::uint32_t>(r_.mailbox.shape.segment_stride()));
    // Over PCIe, loads of one line would take turns.
    const bool heads = r_.mailbox_in_gpu_memory && r_.sizes.boards <= HeldFrame::boards;
    const std::uint64_t k = claimed_.k;
    BoardUnits board = FrameUnits{r_, n_}.board(units_.board());
    // The next number and the queue's head are loaded together with the units of the last number.
    std::uint64_t frontier = load_relaxed_device(&r_.state->frontier);
    std::uint64_t next = load_relaxed_device(&r_.state->next);
    do {
      const std::uint64_t n = __shfl_sync(all, next, 0);
      const bool near = Block::agree(k < frontier + r_.early_distance);
      frontier = load_relaxed_device(&r_.state->frontier);
      next = load_relaxed_device(&r_.state->next);
      if (n != n_) {
        if (early_.had) work_.clear_index(units_, early_.had);
        n_ = n;
        board = FrameUnits{r_, n}.board(units_.board());
        early_ = {0, mine, 0};
      }
      const bool looks =
          near && board.mark && __any_sync(all, early_.missing != 0 || (heads && early_.size == 0));
      if (looks) work_.look(board, places, heads, early_);
      // A number that is no longer expected is not held: all warps are to hold the same.
      if (near && heads && work_.holds(units_, board.mark, early_) && __shfl_sync(all, next, 0) == n_)
        return true;
      if (!looks)
        __nanosleep(near ? 20 : 100);
      else if (r_.early_pause)
        __nanosleep(r_.early_pause);
    } while (waits());
    return false;
  }
  // Whether all warps have units of this number.
  __device__ bool all_have(std::uint32_t mark) const {
    const std::uint32_t of = lane() < warps() ? Block::look(s_.held.of_group[lane()]) : 0;
    return Block::agree(of == 0 || of == mark);
  }
  // Waits for the event line, or for another number to be expected. One warp.
  template <class Usual>
  __device__ __forceinline__ void decide(bool same, std::uint32_t mark, const Usual& usual) const {
    constexpr unsigned short_looks = 8;  // about as long as a load of device memory
    Next next = again;
    for (bool waiting = true; waiting;) {
      const std::uint64_t expected = load_relaxed_device(&r_.state->next);
      for (unsigned i = 0; (waiting = waits()) && i < short_looks; ++i) __nanosleep(20);
      if (!waiting) {
        __threadfence_block();
        const bool other = !same || contract::mailbox_mark(claimed_.low_number()) != mark;
        next = other && usual() ? line : done;
      } else if (!same || !Block::agree(contract::mailbox_mark(expected) == mark)) {
        // After the line, the block's own first warp announces another number.
        if (waits()) break;
      }
    }
    if (lane() != 0) return;
    Block::set(s_.held.next, next);
    Block::fence();
    if (next == done) Block::set(s_.held.known, 1);
  }
  __device__ __forceinline__ void work() const {
    const Tables tables = work_.small_tables();
    work_.fragment_work(tables, plane_, r_.options.window, nullptr).work(warp(), warps());
  }
  // Drops the work on another frame. Visible after the next sync().
  __device__ void forget() const {
    std::uint32_t* const slot = work_.small_tables().slot;
    for (std::uint32_t x = threadIdx.x - Block::idle; x < IndexedFragments<Block>::all; x += 32 * warps())
      slot[x] = 0;
    if (threadIdx.x == Block::idle) Block::set(s_.held.unusual, 0);
  }

  const Resident& r_;
  const BufferWork<A, Block>& work_;
  FrameShared& s_;
  const ClaimedEvent& claimed_;
  const typename PlaneOf<A>::type* const plane_;
  const bool works_;
  const ThreadUnits<Block> units_;
  std::uint64_t n_ = 0;
  Early early_;
};

}  // namespace nanet::gpu
