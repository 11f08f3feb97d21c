// SPDX-License-Identifier: Apache-2.0
// Frame builder: fragments of a segment, from its index or from one to the next.
#include <algorithm>

#include "nanet/contract/recent_indices.hpp"
#include "nanet/trigger/build/frame_builder.hpp"
#include "nanet/wire/join.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {

namespace mgp = wire::mgp;
using contract::IndexEntry;

// A board's list under way.
struct FrameBuilder::Collection {
  Fragment* fragments;
  std::uint32_t* times;
  std::uint32_t limit;
  std::uint32_t count = 0;
  std::uint32_t newest = 0;
  bool by_time = true;
};

// Lists the payloads of one board's segment by sequence number. Returns false if they were in another order.
bool FrameBuilder::list(const Segment& segment) noexcept {
  payloads_ = 0;
  bool in_order = true;
  for (std::size_t at = 0; at + mgp::header_bytes <= segment.bytes && payloads_ < payload_.size();) {
    const auto length = mgp::load<std::uint16_t>(segment.at + at + 4);
    if (length < mgp::header_bytes || at + length > segment.bytes) break;
    payload_[payloads_] = {segment.at + at, mgp::load<std::uint32_t>(segment.at + at + 8)};
    if (payloads_ && payload_[payloads_].sequence < payload_[payloads_ - 1].sequence) in_order = false;
    ++payloads_;
    at += (length + contract::payload_alignment - 1) / contract::payload_alignment *
          contract::payload_alignment;
  }
  if (!in_order)
    std::stable_sort(payload_.begin(), payload_.begin() + payloads_,
                     [](const Payload& a, const Payload& b) { return a.sequence < b.sequence; });
  return in_order;
}

// Adds the fragments of a payload, one after the other.
void FrameBuilder::walk(Collection& to, const Segment& segment, const std::byte* payload) noexcept {
  mgp::FragmentReader reader(payload, static_cast<std::size_t>(segment.at + segment.bytes - payload),
                             mgp::decode_header(payload));
  const std::byte* const base = base_;
  mgp::Fragment f;
  Collection c = to;  // a local copy: the stores may alias
  while (c.count < c.limit && reader.next(f)) {
    const auto time = static_cast<std::uint16_t>(f.timestamp << 8 | f.fine);
    c.by_time &= time >= c.newest;
    c.newest = time;
    c.times[c.count] = mgp::join_key(time, c.count);
    c.fragments[c.count++] = Fragment::of(static_cast<std::uint32_t>(f.hits - base), time, f.stored,
                                          (f.flags & 1u) | static_cast<std::uint32_t>(f.seen > f.stored));
  }
  to = c;
}

// Adds the fragments of a payload by the index, and moves the index behind them. The hits of a fragment end
// where the next one begins. Returns false, and adds nothing, if the index contradicts the payload.
bool FrameBuilder::take(Collection& to, std::span<const std::uint32_t>& index,
                        const std::byte* payload) noexcept {
  const mgp::Header header = mgp::decode_header(payload);
  const std::uint32_t count = header.events;
  if (index.size() <= count || to.limit - to.count < count ||
      index[count] != contract::RecentIndices::end_of_packet(header.length))
    return false;
  const auto hits_at = static_cast<std::uint32_t>(payload - base_ + mgp::event_header_bytes);
  const std::uint32_t* const entry = index.data();
  const std::uint32_t number = to.count;
  Fragment* const fragments = to.fragments + to.count;
  std::uint32_t* const times = to.times + to.count;
  // Conditions as sign bits: without branches, so that the loop takes several fragments at once.
  std::uint32_t wrong = 0, late = 0;
  constexpr std::uint32_t most = 2 * max_fragment_hits, sign = 1u << 31;
  static_assert(contract::RecentIndices::room_behind >= indexed_at_once);
  const std::uint32_t end = (count + indexed_at_once - 1) / indexed_at_once * indexed_at_once;
  for (std::uint32_t i = 0; i < end; ++i) {
    const std::uint32_t at = IndexEntry::offset(entry[i]), time = IndexEntry::time(entry[i]);
    const std::uint32_t bytes =
        IndexEntry::offset(entry[i + 1]) - at - std::uint32_t{mgp::event_header_bytes};
    const std::uint32_t within = i - count;
    wrong |= (bytes | (most - bytes)) & within;
    late |= (IndexEntry::time(entry[i + 1]) - time) & within;
    times[i] = mgp::join_key(time, number + i);
    fragments[i] = Fragment::of(hits_at + at, time, bytes / 2);
  }
  if (wrong & sign) return false;
  if (count > 0) {
    to.by_time &= (late & sign) == 0 && IndexEntry::time(entry[0]) >= to.newest;
    to.newest = IndexEntry::time(entry[count - 1]);
  }
  to.count += count;
  index = index.subspan(count + 1);
  return true;
}

// Collects the fragments of one board in time order.
void FrameBuilder::collect(unsigned board, const Segment& segment) noexcept {
  std::span<const std::uint32_t> index = segment.index;
  if (!list(segment)) index = {};
  // Each preceding list of keys has an end marker.
  const std::uint32_t first = begin(board);
  Collection to{fragments_.data() + first, times_.data() + first + board, capacity_};
  for (std::uint32_t k = 0; k < payloads_; ++k) {
    if (index.empty() || !take(to, index, payload_[k].at)) {
      index = {};
      walk(to, segment, payload_[k].at);
    }
  }
  if (!to.by_time) {
    std::stable_sort(to.fragments, to.fragments + to.count,
                     [](const Fragment& a, const Fragment& b) { return a.time() < b.time(); });
    for (std::uint32_t i = 0; i < to.count; ++i) to.times[i] = mgp::join_key(to.fragments[i].time(), i);
  }
  to.times[to.count] = mgp::end_of_fragments;
  built_.fragments += to.count;
}

}  // namespace nanet::trigger
