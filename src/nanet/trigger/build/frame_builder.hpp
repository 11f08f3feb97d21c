// SPDX-License-Identifier: Apache-2.0
// Frame builder: merges the fragments of the boards into events by time (docs/formats.md, Merging).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/contract/layout.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/trigger/build/conditions.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

inline constexpr std::int32_t default_window_lsb = 41;  // 4 ns

// Events of one frame in opening order; valid until the next build. Times in LSB since the start of the
// frame.
struct BuiltFrame {
  std::uint32_t events = 0;
  std::uint32_t fragments = 0;
  std::uint32_t duplicate_hits = 0;         // repeated PM in a fragment: the first hit is kept
  std::uint32_t masked_hits = 0;            // dropped before building
  const std::uint16_t* time = nullptr;      // mean hit time
  const std::uint16_t* opened = nullptr;    // time of the first fragment
  const std::uint8_t* boards = nullptr;     // mask of the contributing boards
  const std::uint8_t* truncated = nullptr;  // 1: a fragment was truncated by its board
  const std::uint16_t* order = nullptr;     // indices by time; ties in opening order
  const std::uint32_t* first =
      nullptr;               // events + 1: hits of event i are pm[first[i]] .. pm[first[i + 1] - 1]
  const PmId* pm = nullptr;  // ascending and distinct within an event

  rich::EventBatch batch() const { return {events, first, pm}; }
};

// Payloads of one board: packets at 16-byte boundaries from `at`, `bytes` in total.
struct Segment {
  const std::byte* at = nullptr;
  std::size_t bytes = 0;
  // Its packets' fragments in order of arrival, none of them truncated (contract::RecentIndices); empty: not
  // known.
  std::span<const std::uint32_t> index = {};
};

class FrameBuilder {
 public:
  // segment_bytes: maximum segment size, which determines the table sizes; window in LSB. Readable memory
  // must extend contract::tail_bytes beyond each segment.
  // wide: hit words are PM IDs of 16 bits, without times.
  FrameBuilder(std::size_t segment_bytes, unsigned boards, std::int32_t window_lsb = default_window_lsb,
               bool wide = false);

  // segments[b]: board b. Merged stream: segment [0], where every fragment becomes an event. conditions:
  // masks and time offsets, or nullptr; merging uses uncorrected fragment times. Safe on any bytes; allocates
  // nothing.
  const BuiltFrame& build(std::span<const Segment> segments, const Conditions* conditions = nullptr) noexcept;

  // The same for a merged buffer: header, rows, hits. Readable memory must extend contract::tail_bytes beyond
  // the buffer.
  const BuiltFrame& build_merged(std::span<const std::byte> buffer,
                                 const Conditions* conditions = nullptr) noexcept;

 private:
  struct Fragment {
    std::uint32_t hits = 0;  // offset of the hit words from base_
    std::uint32_t rest = 0;  // b15:0 time, b23:16 hits stored, b24 truncated: a word is written in vectors
    static constexpr Fragment of(std::uint32_t hits, std::uint32_t time, std::uint32_t stored,
                                 std::uint32_t truncated = 0) {
      return {hits, time | stored << 16 | truncated << 24};
    }
    std::uint32_t time() const { return rest & 0xFFFF; }
    std::uint32_t stored() const { return rest >> 16 & 0xFF; }
    std::uint32_t truncated() const { return rest >> 24; }
  };
  struct Payload {
    const std::byte* at;
    Sequence sequence;
  };
  static constexpr std::uint32_t indexed_at_once = 8;  // fragments taken from an index: vectors
  std::uint32_t begin(unsigned board) const { return capacity_ * board; }  // the board's first fragment
  bool list(const Segment& segment) noexcept;
  void collect(unsigned board, const Segment& segment) noexcept;
  struct Collection;
  void walk(Collection& to, const Segment& segment, const std::byte* payload) noexcept;
  bool take(Collection& to, std::span<const std::uint32_t>& index, const std::byte* payload) noexcept;
  template <unsigned boards, class Words>
  void run() noexcept;
  void join_four() noexcept;
  template <unsigned boards>
  void join() noexcept;
  template <unsigned boards, class Words>
  bool assemble_usual() noexcept;
  template <unsigned boards, class Words>
  void assemble(std::uint32_t event, std::uint32_t& at) noexcept;
  template <class Words>
  void run_lists(unsigned lists) noexcept;
  template <class Words>
  void assemble_unordered(std::uint32_t event, std::uint32_t& at) noexcept;
  template <class Words>
  const BuiltFrame& build_rows(std::span<const std::byte> buffer, const Conditions* conditions) noexcept;
  bool correct(std::uint32_t at, std::uint32_t hits, std::int32_t& sum) const noexcept;
  void set_time(std::uint32_t event, std::int32_t sum, std::uint32_t hits) noexcept;
  void sort_by_time() noexcept;
  const BuiltFrame& finish() noexcept;

  std::int32_t window_;
  bool wide_;
  const std::byte* base_ = nullptr;
  const Conditions* conditions_ = nullptr;
  std::vector<Fragment> fragments_;  // the last fragment is empty and means "none"
  std::array<Payload, 64> payload_;  // upper limit for any bytes in the segment
  std::uint32_t payloads_ = 0;
  std::uint32_t capacity_ = 0;  // per board
  unsigned boards_ = 0;
  std::vector<std::uint32_t> times_;  // keys of fragments (wire/join.hpp), one list per board
  std::vector<std::array<std::uint16_t, max_boards>> members_;  // fragment of each board
  std::vector<std::uint16_t> time_, opened_, order_;
  std::vector<std::uint8_t> mask_, truncated_;
  std::vector<std::uint32_t> first_, keys_;
  std::vector<PmId> pm_;
  std::vector<std::uint16_t> words_;  // hit words of the events, as pm_
  std::vector<bool> in_event_;        // by PM ID; all false between events
  BuiltFrame built_;
};

}  // namespace nanet::trigger
