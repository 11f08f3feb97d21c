// SPDX-License-Identifier: Apache-2.0
// Usual frames of a block, by all warps but the first, which waits for the event line. Units are copied as
// they arrive; before the line comes, a board's fragments are read once it is complete by its packet's
// header, those of all boards are joined (frame/fragment_work.hpp), and events are built, for exact sums up
// to their primitives.
//
// Several blocks near the queue's head expect the same frame, since other entries lie between frames. Those
// that do not get it drop it when its number is announced, and expect the next.
#pragma once

#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/resident/frame_lines.cuh"
#include "nanet/gpu/resident/own_conditions.cuh"

namespace nanet::gpu {

template <class A>
class FrameAhead {
  using Early = typename MailboxUnits<Block>::Early;
  using Work = FrameWork<A, Block>;

 public:
  // workspace: without conditions, of a frame that is sampled. ahead: whether to work on fragments before the
  // event line comes; else units are copied only.
  __device__ FrameAhead(const Resident& r, const A& algorithm, const BufferWork<A, Block>& work,
                        FrameShared& shared, ClaimedEvent& claimed, const Workspace<A>& workspace,
                        OwnConditions& conditions, bool ahead)
      : r_(r),
        algorithm_(algorithm),
        work_(work),
        s_(shared),
        claimed_(claimed),
        workspace_(workspace),
        conditions_(conditions),
        ahead_(ahead && r.mailbox_in_gpu_memory && ThreadUnits<Block>::has_roles(r.sizes.boards, blockDim.x)),
        units_(work.of(threadIdx.x)) {}

  // Until the first warp has the entry of the claimed event, and the events of its frame are built if it is a
  // usual one (ClaimedEvent::usual). ClaimedEvent::worked is set then. likely: mask of units that are
  // worth a look; each look delays the first warp's. look: whether to look before the line comes. A unit's
  // own mark says that it is valid.
  __device__ __forceinline__ void run(bool look, std::uint32_t likely) {
    early_.missing = likely & work_.possible(units_, r_.mailbox.shape.segment_bytes);
    const std::uint32_t mine = early_.missing;
    for (bool by_line = false, dirty = false;;) {
      const std::int16_t* conditions = nullptr;
      Next next = done;
      if (by_line) {
        if (dirty) work_.template drop<LaterWarps>();
        const SegmentLines lines(r_, claimed_, 0, early());
        work_.complete(threadIdx.x, lines);
        work_.note_sizes(units_, lines);
        conditions = conditions_of<LaterWarps>(r_, claimed_.n(), conditions_);
        LaterWarps::sync();
        const Tables tables = work_.small_tables();
        fragment_work(tables, conditions).work(warp(), warps());
        LaterWarps::one([&] { s_.trace.built = device_time(); });
        LaterWarps::sync();
        if (Block::look(s_.units_missing)) return;
        dirty = true;
      } else {
        const bool has = look && await(mine);
        if (lane() == 0) {
          Block::set(s_.held.of_group[warp()], units_.used() ? contract::mailbox_mark(n_) : 0);
          if (!has) Block::set(s_.held.by_line, 1);
        }
        work_ahead(has);
        LaterWarps::sync();
        next = static_cast<Next>(Block::look(s_.held.next[0]));
        dirty = ahead_;
      }
      BuiltFrame built;
      if (next <= held) {
        const std::uint32_t frame = by_line ? claimed_.frame() : work_.frame_by_header();
        built = work_.template build<LaterWarps>(frame_work(frame, conditions), frame,
                                                 by_line && is_incomplete(claimed_.flags()), [&] {
                                                   if (!by_line && decides())
                                                     publish(1, choose(frame, false));
                                                 });
        // The events are visible to all, or the frame has none.
        if (built.events == BuiltFrame::none) LaterWarps::sync();
        if (!by_line) next = static_cast<Next>(Block::look(s_.held.next[1]));
        if (next == held) {
          if (decides()) publish(2, choose(frame, true));
          LaterWarps::sync();
          next = static_cast<Next>(Block::look(s_.held.next[2]));
        }
      }
      if (next == none) return;
      if (next == done) {
        answer(built, conditions);
        return;
      }
      if (next == again) {
        if (dirty) work_.template drop<LaterWarps>();
      } else {
        by_line = true;
      }
    }
  }
  __device__ EarlyUnits early() const { return {n_, early_.had}; }

 private:
  static constexpr unsigned all = ~0u;
  // done: the line is there, of the held frame, whose sizes it has. held: neither the line nor another number
  // has been seen. line: it is there, of another frame. again: another number is expected. none: the line is
  // there, of no usual frame.
  enum Next : std::uint32_t { done, held, line, again, none };

  __device__ static unsigned lane() { return threadIdx.x & 31u; }
  __device__ static unsigned warp() { return threadIdx.x / 32 - 1; }
  __device__ static unsigned warps() { return blockDim.x / 32 - 1; }
  __device__ static bool decides() { return warp() == warps() - 1; }  // for all; it reads the rest
  // Barriers of LaterWarps: one for all of them, one per board, and one that those that join wait at.
  static constexpr unsigned board_barrier = 2, join_barrier = board_barrier + HeldFrame::boards;
  // Whether the number that is expected next may be n: by its low word, one load for the whole warp.
  __device__ bool expects(std::uint64_t n) const {
    return *reinterpret_cast<const volatile std::uint32_t*>(&claimed_.next) == static_cast<std::uint32_t>(n);
  }
  // Number that is expected next. The same in the whole warp.
  __device__ std::uint64_t expected() const {
    return __shfl_sync(all, *const_cast<const volatile std::uint64_t*>(&claimed_.next), 0);
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
    do {
      const std::uint64_t frontier = *const_cast<const volatile std::uint64_t*>(&claimed_.frontier);
      const bool near = Block::agree(k < frontier + r_.early_distance);
      if (!Block::agree(expects(n_))) {
        if (early_.had) work_.clear_index(units_, early_.had);
        n_ = expected();
        board = FrameUnits{r_, n_}.board(units_.board());
        early_ = {0, mine, 0};
      }
      const bool looks =
          near && board.mark && __any_sync(all, early_.missing != 0 || (heads && early_.size == 0));
      if (looks) work_.look(board, places, heads, early_);
      // A number that is no longer expected is not held: all warps are to hold the same.
      if (near && heads && work_.holds(units_, places, board.mark, early_) && Block::agree(expects(n_)))
        return true;
      if (!looks)
        __nanosleep(near ? 20 : 100);
      else if (r_.early_pause)
        __nanosleep(r_.early_pause);
    } while (waits());
    return false;
  }
  // The warp's part of the work on the fragments of the expected frame; has: it has its units. Then the last
  // warp publishes the next step.
  __device__ __forceinline__ void work_ahead(bool has) const {
    const Tables tables = work_.small_tables();
    const FragmentWork<A, Block> work = fragment_work(tables, nullptr);
    const typename ThreadUnits<Block>::Roles roles(r_.sizes.boards, blockDim.x);
    const unsigned board = units_.board(), of_board = 32 * units_.groups();
    if (ahead_ && warp() < roles.readers) {
      asm volatile("bar.arrive %0, %1;" ::"n"(join_barrier), "r"(LaterWarps::threads()) : "memory");
      asm volatile("bar.sync %0, %1;" ::"r"(board_barrier + board), "r"(of_board) : "memory");
      // The board's warps have the same units, or the work is dropped.
      if (has && units_.used())
        work.read_board(board, Block::look(s_.held.size[board]), units_.group(), roles.of_board);
      return;
    }
    if (ahead_) asm volatile("bar.arrive %0, %1;" ::"r"(board_barrier + board), "r"(of_board) : "memory");
    asm volatile("bar.sync %0, %1;" ::"n"(join_barrier), "r"(LaterWarps::threads()) : "memory");
    if (!ahead_) {
      if (decides()) publish(0, choose(0, true));
      return;
    }
    const bool complete = !Block::look(s_.held.by_line);
    if (!decides()) {
      if (complete) work.join_all(warp() - roles.readers, roles.joiners);
      return;
    }
    // The warps of the boards have said what they hold.
    const std::uint32_t mark = Block::look(s_.held.mark[0]),
                        of = lane() < warps() ? Block::look(s_.held.of_group[lane()]) : 0;
    const bool same = Block::agree(of == 0 || of == mark) && complete;
    if (complete) work.read_rest(roles.of_board);
    if (same && lane() == 0) s_.trace.built = device_time();
    publish(0, !same ? choose(0, true, false) : is_expected() || !waits() ? held : again);
  }
  // Next step. wait: for an answer other than `held`. same: all warps hold the same, a frame of this
  // number. One warp.
  __device__ __forceinline__ Next choose(std::uint32_t frame, bool wait, bool same = true) const {
    for (;;) {
      if (!waits()) {
        Block::fence();
        if (!claimed_.usual) return none;
        return ahead_ && same && work_.is_held(claimed_) && is_as_built(frame) ? done : line;
      }
      if (!same || !is_expected()) return again;
      if (!wait) return held;
    }
  }
  // Whether the held frame is the one that is expected next.
  __device__ bool is_expected() const {
    return Block::agree(expects(std::uint64_t{Block::look(s_.held.mark[0])} - 1));
  }
  __device__ void publish(unsigned i, Next next) const {
    if (lane() == 0) Block::set(s_.held.next[i], next);
  }
  __device__ FragmentWork<A, Block> fragment_work(const Tables& tables,
                                                  const std::int16_t* conditions) const {
    return work_.fragment_work(tables, workspace_.plane, r_.options.window, conditions);
  }
  // Whether the claimed frame is that number, and complete, as assumed before its event line came.
  __device__ bool is_as_built(std::uint32_t frame) const {
    return !Summed<A> || (claimed_.frame() == frame && !is_incomplete(claimed_.flags()));
  }
  __device__ Work frame_work(std::uint32_t frame, const std::int16_t* conditions) const {
    Workspace<A> workspace = workspace_;
    workspace.conditions = conditions;
    if (!keeps_rings(r_, frame)) workspace.rings = nullptr;
    return {algorithm_, r_.options, s_, workspace};
  }
  // Hands the events to the block, and for exact sums writes the answer.
  __device__ __forceinline__ void answer(const BuiltFrame& built, const std::int16_t* conditions) const {
    if (built.events == BuiltFrame::none) return;
    bool answered = false;
    if constexpr (Summed<A>) {
      const std::uint32_t frame = claimed_.frame();
      answered = work_.template answer<LaterWarps>(
          frame_work(frame, conditions), built, frame, is_incomplete(claimed_.flags()),
          [] { return device_time(); }, answer_lines(r_, claimed_.n(), claimed_.buffer()));
    }
    LaterWarps::one([&] {
      s_.held.events = built.events;
      s_.held.answered = answered;
      claimed_.worked = 1;
    });
  }

  const Resident& r_;
  const A& algorithm_;
  const BufferWork<A, Block>& work_;
  FrameShared& s_;
  ClaimedEvent& claimed_;
  const Workspace<A>& workspace_;
  OwnConditions& conditions_;
  const bool ahead_;
  const ThreadUnits<Block> units_;
  std::uint64_t n_ = 0;
  Early early_;
};

}  // namespace nanet::gpu
