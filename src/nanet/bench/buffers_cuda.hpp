// SPDX-License-Identifier: Apache-2.0
// Historic measurement of GPU buffers: copies each buffer in, fits its events with MATH, and copies the
// primitives out. Buffers run sequentially, or copies overlap with the kernel of another buffer.
#pragma once

#include <cstdint>

#include "nanet/stats/histogram.hpp"

namespace nanet::bench {

struct BuffersOptions {
  std::uint32_t events = 16;  // per buffer, in fixed slots of 72 B
  bool overlapped = false;    // two streams, one buffer each
  double seconds = 0.2;
  int device = 0;
};
struct BuffersResult {
  double events_per_s = 0, bytes_per_s = 0;  // bytes: copied to the GPU
  std::uint64_t buffers = 0;
  stats::Histogram latency;  // from the start of the copy in to the arrival of the primitives
};
// Throws std::invalid_argument (no events, no such GPU) or std::runtime_error (no CUDA, no memory).
void buffers_cuda(const BuffersOptions& options, BuffersResult& result);

}  // namespace nanet::bench
