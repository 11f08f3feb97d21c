// SPDX-License-Identifier: Apache-2.0
// Event samples of the GPU for the monitor: written by the kernel, decoded by the host.
#pragma once

#include "nanet/gpu/resident/resident.hpp"
#include "nanet/stats/event_sample.hpp"

namespace nanet::gpu {

struct alignas(16) Cell {
  std::uint64_t low, high;
};

// Copies the bytes of the frame to the sample. All threads; visible to all afterwards.
template <class B>
NANET_DEVICE void copy_payloads(const FrameShared& shared, Sample& s) {
  B::each([&](unsigned t) {
    std::byte* to = s.bytes;
    if (t == 0) s.merged_bytes = 0;
    for (unsigned b = 0; b < max_boards; ++b) {
      const std::uint32_t length = shared.length[b], cells = (length + 15) / 16;
      const auto* const from = reinterpret_cast<const Cell*>(shared.bytes + std::size_t{b} * shared.stride);
      for (std::uint32_t i = t; i < cells; i += B::threads()) reinterpret_cast<Cell*>(to)[i] = from[i];
      if (t == 0) s.length[b] = length;
      to += 16 * cells;
    }
  });
}

// Copies the row and the hits of event e of a merged frame to the sample. All threads; visible to all
// afterwards.
template <class B>
NANET_DEVICE void copy_row(const MergedRows& rows, std::uint32_t e, Sample& s) {
  constexpr std::size_t row_at = contract::frame_header_bytes, hits_at = row_at + sizeof(contract::MergedRow);
  static_assert(hits_at + sizeof(std::uint16_t) * max_event_hits <= sizeof s.bytes);
  RowWords row = rows.row(e);
  const std::uint32_t first = row.first(), hits = row.hits();
  row.word[0] &= 0xFFFF0000;  // its hits are the first
  B::each([&](unsigned t) {
    auto* const header = reinterpret_cast<std::uint32_t*>(s.bytes);
    for (std::uint32_t i = t; i < row_at / 4; i += B::threads())
      header[i] = i == offsetof(contract::FrameHeader, rows) / 4 ? 1 : 0;
    for (std::uint32_t i = t; i < hits; i += B::threads())
      reinterpret_cast<std::uint16_t*>(s.bytes + hits_at)[i] =
          static_cast<std::uint16_t>(rows.hit(first + i));
    for (std::uint32_t i = t; i < max_boards; i += B::threads()) s.length[i] = 0;
    if (t != 0) return;
    *reinterpret_cast<RowWords*>(s.bytes + row_at) = row;
    s.merged_bytes = static_cast<std::uint32_t>(hits_at + sizeof(std::uint16_t) * hits);
  });
}

// Decodes a sample. sample: private copy, any bytes. window: merging window, LSB.
stats::EventSample sampled_event(const Sample& sample, std::uint32_t window) noexcept;

}  // namespace nanet::gpu
