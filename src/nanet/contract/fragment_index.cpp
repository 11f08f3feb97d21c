// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/fragment_index.hpp"

#include "nanet/contract/layout.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::contract {

namespace mgp = wire::mgp;

std::uint32_t index_fragments(const std::byte* segment, std::uint32_t bytes,
                              std::span<std::uint32_t> entry) noexcept {
  std::uint32_t at = 0, fragments = 0;
  Sequence sequence = 0;
  for (unsigned packet = 0; at < bytes; ++packet) {
    if (packet == indexed_packets || bytes - at < mgp::header_bytes) return no_index;
    const mgp::Header header = mgp::decode_header(segment + at);
    if (header.length < mgp::header_bytes || header.length > bytes - at || header.has(mgp::flag::fixed) ||
        header.sequence < sequence || fragments + header.events > entry.size())
      return no_index;
    sequence = header.sequence;
    const std::uint32_t end = at + header.length;
    std::uint32_t from = at + mgp::header_bytes;
    for (unsigned i = 0; i < header.events; ++i) {
      if (end - from < mgp::event_header_bytes) return no_index;
      const auto word = mgp::load<std::uint64_t>(segment + from);
      const auto stored = static_cast<std::uint8_t>(word >> 40);
      const auto size = static_cast<std::uint32_t>(mgp::event_header_bytes + 2 * stored);
      if (stored > max_fragment_hits || size > end - from) return no_index;
      const auto time = static_cast<std::uint16_t>(word << 8 | static_cast<std::uint8_t>(word >> 32));
      entry[fragments++] = IndexEntry::of(from, time);
      from += size;
    }
    constexpr std::uint32_t step = payload_alignment;
    at += (header.length + step - 1) / step * step;
  }
  return fragments;
}

}  // namespace nanet::contract
