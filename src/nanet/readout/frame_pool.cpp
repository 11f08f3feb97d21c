// SPDX-License-Identifier: Apache-2.0
// Frame pool: generation and packing.
#include "nanet/readout/frame_pool.hpp"

#include <algorithm>

namespace nanet::readout {
namespace {

constexpr Frame one_burst = 1u << 24;  // longer than any pool: all truth is in burst 0

}  // namespace

FramePool::FramePool(const rich::GeneratorOptions& generator, const PackOptions& pack, std::uint32_t frames,
                     bool keep_truth)
    : frames_(frames), streams_(streams_of(generator, pack)), events_(frames) {
  for (unsigned s = 0; s < streams(); ++s) {
    streams_[s].board = pack.merged ? merged_board : static_cast<BoardId>(s);
    streams_[s].frames.resize(frames);
  }
  FrameSource source(generator, pack);
  PackedFrame packed;
  for (std::uint32_t f = 0; f < frames; ++f) {
    source.next(packed);
    for (const FramePacket& packet : packed.packets) {
      Stream& stream = streams_[pack.merged ? 0 : packet.board];
      BoardFrame& entry = stream.frames[f];
      if (entry.packets++ == 0) entry.first = static_cast<std::uint32_t>(stream.slots.size());
      stream.slots.push_back({stream.bytes.size(), packet.size});
      const auto from = packed.bytes.begin() + packet.offset;
      stream.bytes.insert(stream.bytes.end(), from, from + packet.size);
    }
    for (unsigned s = 0; s < streams(); ++s) {
      streams_[s].frames[f].fragments = packed.fragments[s];
      streams_[s].frames[f].hits = packed.hits[s];
    }
    const auto& events = source.events();
    for (const std::uint32_t index : packed.truth) events_[f] += events[index].distinct_hits > 0;
    if (keep_truth)
      for (const std::uint32_t index : packed.truth) truth_.append(events[index], one_burst);
  }
}

}  // namespace nanet::readout
