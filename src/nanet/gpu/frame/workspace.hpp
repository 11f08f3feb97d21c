// SPDX-License-Identifier: Apache-2.0
// Options of frame processing, and memory that a thread block and its algorithm work in.
#pragma once

#include "nanet/gpu/frame/answer_lines.hpp"
#include "nanet/gpu/frame/fragments.hpp"
#include "nanet/gpu/frame/merge.hpp"
#include "nanet/gpu/frame/merged_rows.hpp"
#include "nanet/gpu/frame/task.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/decide/decide.hpp"
#include "nanet/trigger/decide/downscale.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::gpu {

inline constexpr unsigned packet_words = contract::send_buffer_bytes / 4;
inline constexpr unsigned most_slots = 32;   // events of a packet that slots.cuh takes
inline constexpr unsigned slot_units = 200;  // of a mailbox, which hold them; whole lines

// Options of frame processing.
struct FrameOptions {
  trigger::DecisionOptions decision;
  std::uint32_t window = 41;
  std::uint32_t source = rich_source;
  bool downscaling = false;
  std::uint32_t factor[trigger::primitive_kinds] = {1, 1, 1, 1};  // by kind of primitive
};

// Frame of which a block has all units, by its packets' headers or by its event line. By board: bytes and
// fragments, and the mark of the number that they are of.
struct HeldFrame {
  static constexpr unsigned boards = contract::index_boards, most_groups = 32;
  alignas(16) std::uint32_t size[boards];
  std::uint32_t mark[boards];
  std::uint32_t of_group[most_groups];  // mark of the number whose units a group has; 0: none needed
  std::uint32_t by_line;                // some group has awaited the event line
  std::uint32_t next[3];                // what its groups do next, see FrameAhead
  std::uint32_t total;                  // fragments
  std::uint32_t unusual;                // found while the fragments were read and joined
  std::uint32_t events, answered;       // its events, once built; and whether the answer has been written

  NANET_HD static constexpr std::uint32_t size_of(std::uint32_t bytes, std::uint32_t fragments) {
    return bytes | fragments << 16;
  }
  // Whether bytes and fragments of an event line are of this size: up to 15 bytes behind the only packet of a
  // board do not matter.
  NANET_HD static constexpr bool is_size(std::uint32_t size, std::uint32_t bytes, std::uint32_t fragments) {
    const std::uint32_t own = size & 0xFFFF;
    return bytes >= own && bytes <= (own + 15) / 16 * 16 && size >> 16 == fragments;
  }
  // Description of the frame's bytes; at: segments, stride apart, in shared memory. The size of boards that
  // are not in use is 0.
  NANET_DEVICE Bytes bytes(unsigned used, const std::byte* at, std::uint32_t stride) const {
    Bytes in;
    in.boards = used;
    in.at = at;
    in.stride = stride;
    in.shared = in.indexed = true;
    NANET_UNROLLED
    for (unsigned b = 0; b < boards; ++b) {
      in.bytes[b] = size[b] & 0xFFFF;
      in.fragments[b] = size[b] >> 16;
    }
    return in;
  }
  // Whether an event line has these sizes and number. The same in all threads.
  template <class B, class Lines>
  NANET_DEVICE bool is_of(unsigned used, const Lines& lines) const {
    return B::of_four([&](unsigned b) {
             return b >= used || (B::look(mark[b]) == lines.mark() &&
                                  is_size(B::look(size[b]), lines.bytes(b), lines.fragments(b)));
           }) == (1u << boards) - 1;
  }
};

// Shared state of a block for one buffer.
struct FrameShared {
  Merge merge;
  const std::byte* bytes;  // bytes merged last, if accessible; board b at b x stride
  std::uint32_t stride, length[max_boards];
  MergedRows rows;  // of a merged frame, if noted; merging kernels only
  alignas(16) std::uint32_t packet[packet_words];
  std::uint32_t words;       // of `packet` in use
  std::uint32_t primitives;  // in it
  std::uint32_t stamp;       // frame of its newest timestamp word
  std::uint32_t events, below, overflow, rings, duplicates, masked, valid;
  std::uint32_t downscaled[trigger::primitive_kinds];
  std::uint32_t taken;          // events that warps have begun
  std::uint32_t disorder;       // events not in order of time, or without a primitive
  std::uint32_t units_missing;  // a unit of the mailbox has not arrived
  std::uint32_t careful;        // an event of an indexed frame needs the careful way
  HeldFrame held;
  std::uint32_t built, large;  // number of finished events, and whether the large tables hold them
  // Packet with events in slots, decided before the event line comes (resident/slots_ahead.cuh): its
  // units and what its events give (SlotResult), each with the mark of its number; marks of events that have
  // been stored; whether the packet has no slots; events answered.
  alignas(16) std::uint32_t slot_unit[slot_units][4], slot_result[most_slots][4];
  std::uint32_t stored[most_slots], not_ahead, ahead;
  std::uint64_t expected;  // number whose units are loaded; all ones: none
  std::uint32_t with_rings[rich::max_rings + 1];
  trigger::Trace trace;
};

// Algorithm that runs with a warp per event instead of a thread.
template <class A>
concept Wide = requires { typename A::Scratch; };
template <class A>
struct ScratchOf {
  struct type {};
};
template <Wide A>
struct ScratchOf<A> {
  using type = typename A::Scratch;
};

// Algorithm that runs in other blocks; reconstruct() waits for all events.
template <class A>
concept Remote = requires { A::at_once; };

// Algorithm of exact sums over hits, which threads can share; the term of a hit depends only on the PM.
template <class A>
concept Summed = requires { typename A::WholeSums; };
// Table entry of a PM, computed from its position.
template <class A>
struct PlaneOf {
  using type = rich::Point;
  NANET_HD static void set(const A&, type* plane, std::uint32_t pm, const rich::Point& p) { plane[pm] = p; }
};
template <Summed A>
struct PlaneOf<A> {
  using type = typename A::Position;
  // Entries of IDs without PM change no sum.
  NANET_HD static void set(const A& algorithm, type* plane, std::uint32_t pm, const rich::Point& p) {
    algorithm.set(plane, pm, pm < pm_count ? p : rich::Point{A::origin_x, A::origin_y});
  }
};

// Sums of an event: words, or moments.
template <Summed A>
struct alignas(16) EventSums {
  std::int32_t word[A::words];

  NANET_HD auto moments(bool words) const {
    auto m = A::moments(word);
    if (!words) std::memcpy(&m, word, sizeof word);
    return m;
  }
  template <class M>
  NANET_HD void keep(const M& moments) {
    static_assert(sizeof moments == sizeof word);
    std::memcpy(word, &moments, sizeof word);
  }
};

// Memory of an algorithm. rings: result per event; may be null. scratch and result: one per warp, for wide
// algorithms.
template <class A>
struct Workspace {
  const typename PlaneOf<A>::type* plane = nullptr;
  rich::Rings* rings = nullptr;
  typename ScratchOf<A>::type* scratch = nullptr;
  rich::Rings* result = nullptr;
  const std::int16_t* conditions = nullptr;  // of each PM; null: none
};

// Writes the packet's header. One thread.
NANET_DEVICE inline void write_header(FrameShared& s, const FrameOptions& options, std::uint32_t frame) {
  s.packet[0] = options.source << 24 | (frame & 0xFFFFFF);
  s.packet[1] = s.primitives << 16 | 4 * s.words;
}

}  // namespace nanet::gpu
