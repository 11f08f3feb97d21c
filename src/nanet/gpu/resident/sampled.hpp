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
    for (unsigned b = 0; b < max_boards; ++b) {
      const std::uint32_t length = shared.length[b], cells = (length + 15) / 16;
      const auto* const from = reinterpret_cast<const Cell*>(shared.bytes + std::size_t{b} * shared.stride);
      for (std::uint32_t i = t; i < cells; i += B::threads()) reinterpret_cast<Cell*>(to)[i] = from[i];
      if (t == 0) s.length[b] = length;
      to += 16 * cells;
    }
  });
}

// Decodes a sample. sample: private copy, any bytes. window: merging window, LSB.
stats::EventSample sampled_event(const Sample& sample, std::uint32_t window) noexcept;

}  // namespace nanet::gpu
