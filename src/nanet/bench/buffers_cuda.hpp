// SPDX-License-Identifier: Apache-2.0
// The historic measurement of buffers on a GPU: each is copied in, its events are fitted by MATH, the
// primitives are copied out; one buffer after the other, or the copies of one beside the kernel of another.
#pragma once

#include <cstdint>

#include "nanet/stats/histogram.hpp"

namespace nanet::bench {

struct BuffersOptions {
  std::uint32_t events = 16;  // per buffer, in fixed slots of 72 B
  bool overlapped = false;    // two streams, a buffer each
  double seconds = 0.2;
  int device = 0;
};
struct BuffersResult {
  double events_per_s = 0, bytes_per_s = 0;  // bytes: copied to the GPU
  std::uint64_t buffers = 0;
  stats::Histogram latency;  // from before the copy in until the primitives are there
};
// Throws std::invalid_argument (no events, no such GPU) or std::runtime_error (no CUDA, no memory).
void buffers_cuda(const BuffersOptions& options, BuffersResult& result);

}  // namespace nanet::bench
