// SPDX-License-Identifier: Apache-2.0
// Indices of the newest frames' segments, from the card to a consumer in its thread: beside the contract
// memory, in memory that stays cached. The consumer then need not follow the fragments from one to the next.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/contract/fragment_index.hpp"
#include "nanet/units.hpp"

namespace nanet::contract {

// Not thread-safe.
class RecentIndices {
 public:
  static constexpr unsigned boards = 4;
  static constexpr std::uint64_t frames = 128;  // a consumer that is further behind finds no index
  // Entries of a segment, and readable ones behind them.
  static constexpr std::uint32_t entries = 512, room_behind = 8;

  // Adds a packet of `bytes` to the index of a segment; first: the segment's first packet. fragments: offsets
  // in the packet. A segment with more fragments than there is room for has no index.
  void add(std::uint64_t n, unsigned board, bool first, std::span<const std::uint32_t> fragments,
           std::uint32_t bytes) noexcept {
    Index& index = at(n, board);
    if (first) {
      index.n = n;
      index.count = 0;
    }
    if (index.n != n) return;
    if (index.count + fragments.size() >= entries) return remove(n, board);
    std::copy(fragments.begin(), fragments.end(), index.entry.data() + index.count);
    index.count += static_cast<std::uint32_t>(fragments.size());
    index.entry[index.count++] = end_of_packet(bytes);
  }
  // The segment has no index: a packet of it is not listed.
  void remove(std::uint64_t n, unsigned board) noexcept { at(n, board).n = none; }

  // Entries of the segment's packets in order of arrival, each packet's followed by end_of_packet(). Empty:
  // no index, or no packet.
  std::span<const std::uint32_t> of(std::uint64_t n, unsigned board) const noexcept {
    if (board >= boards) return {};
    const Index& index = index_[n % frames * boards + board];
    if (index.n != n) return {};
    return {index.entry.data(), index.count};
  }
  // Behind the packet, at a time that no fragment exceeds.
  static constexpr std::uint32_t end_of_packet(std::uint32_t bytes) { return IndexEntry::of(bytes, 0xFFFF); }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct alignas(64) Index {
    std::uint64_t n = none;
    std::uint32_t count = 0;
    std::array<std::uint32_t, entries + room_behind> entry{};
  };
  Index& at(std::uint64_t n, unsigned board) noexcept { return index_[n % frames * boards + board]; }

  std::vector<Index> index_ = std::vector<Index>(frames * boards);
};

}  // namespace nanet::contract
