// SPDX-License-Identifier: Apache-2.0
// A block's work on a frame before the event line comes: units are copied as they arrive, and once all boards
// are complete by their packets' headers, fragments are read and joined (frame/fragment_work.hpp). All warps
// but the first, which waits for the event line.
#pragma once

#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/resident/frame_lines.cuh"

namespace nanet::gpu {

template <class A>
class FrameAhead {
  using Early = typename MailboxUnits<Block>::Early;

 public:
  __device__ FrameAhead(const Resident& r, const BufferWork<A, Block>& work, FrameShared& shared,
                        const ClaimedEvent& claimed)
      : r_(r), work_(work), s_(shared), claimed_(claimed), units_(work.of(threadIdx.x)) {}

  // Until the warp has all units of the frame that is expected, or the first warp has the entry of the
  // claimed event. Returns whether the former. likely: mask of units that are worth a look; each look delays
  // the first warp's. A unit's own mark says that it is valid.
  __device__ __forceinline__ bool await(std::uint32_t likely) {
    if (!Block::agree(units_.used())) return true;
    const std::uint32_t mine = likely & work_.possible(units_, r_.mailbox.shape.segment_bytes);
    const auto places =
        work_.places(units_, static_cast<std::uint32_t>(r_.mailbox.shape.segment_stride()));
    const bool heads = r_.mailbox_in_gpu_memory;  // over PCIe, loads of one line would take turns
    const std::uint64_t k = claimed_.k, devices = r_.shape.devices;
    BoardUnits board = FrameUnits{r_, n_}.board(units_.board());
    early_.missing = mine;
    // Where the queue is, is loaded together with the units of the last number.
    std::uint64_t lead = load_relaxed_device(&r_.state->lead);
    std::uint64_t frontier = load_relaxed_device(&r_.state->frontier);
    do {
      const std::uint64_t n = __shfl_sync(all, lead + k * devices, 0);
      const bool near = Block::agree(k < frontier + r_.early_distance && lead != ~std::uint64_t{0});
      lead = load_relaxed_device(&r_.state->lead);
      frontier = load_relaxed_device(&r_.state->frontier);
      if (near && n != n_) {
        if (early_.had) work_.clear_index(units_, early_.had);
        n_ = n;
        board = FrameUnits{r_, n}.board(units_.board());
        early_ = {0, mine, 0};
      }
      if (near && board.mark && __any_sync(all, early_.missing != 0 || (heads && early_.size == 0))) {
        work_.look(board, places, heads, early_);
        if (work_.holds(units_, board.mark, early_)) return true;
        if (r_.early_pause) __nanosleep(r_.early_pause);
      } else {
        __nanosleep(near ? 20 : 100);
      }
    } while (__any_sync(all, Block::look(claimed_.waiting) != 0));
    return false;
  }
  // Whether all warps have all units of one expected frame; held: of this warp.
  __device__ __forceinline__ bool all_hold(bool held) {
    HeldFrame& frame = s_.held;
    const unsigned lane = threadIdx.x & 31u, warps = blockDim.x / 32 - 1;
    if (lane == 0) {
      Block::set(frame.of_group[threadIdx.x / 32 - 1], units_.used() ? contract::mailbox_mark(n_) : 0);
      if (!held) Block::set(frame.by_line, 1);
    }
    sync();
    if (Block::look(frame.by_line)) return false;
    const std::uint32_t first = Block::look(frame.mark[0]),
                        of = lane < warps ? Block::look(frame.of_group[lane]) : 0;
    return Block::agree(of == 0 || of == first);
  }
  __device__ void await_line() const {
    while (__any_sync(all, Block::look(claimed_.waiting) != 0)) __nanosleep(20);
    __threadfence_block();  // the event line is read after `waiting`
  }
  // Completes the units of the claimed frame, a usual one, by its event line.
  __device__ __forceinline__ void complete() {
    const SegmentLines lines(r_, claimed_, 0, early());
    work_.complete(threadIdx.x, lines);
    work_.note_sizes(units_, lines);
    sync();
  }
  __device__ EarlyUnits early() const { return {n_, early_.had}; }

 private:
  static constexpr unsigned all = ~0u;

  // Of all warps but the first.
  __device__ static void sync() {
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x - Block::idle) : "memory");
  }

  const Resident& r_;
  const BufferWork<A, Block>& work_;
  FrameShared& s_;
  const ClaimedEvent& claimed_;
  const ThreadUnits<Block> units_;
  std::uint64_t n_ = 0;
  Early early_;
};

}  // namespace nanet::gpu
