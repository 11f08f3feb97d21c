// SPDX-License-Identifier: Apache-2.0
// `nanet bench rings` on GPUs: events per second and time per batch, in device memory and streaming from the
// host's.
#pragma once

#include <cstdint>
#include <string>

#include "nanet/rich/algorithm.hpp"

namespace nanet::bench {

struct RingsCudaOptions {
  std::string algorithm;
  rich::Parameters parameters;
  std::uint64_t batch = 1;  // events
  // false: the batch lies in device memory, and the time is the kernel's. MATH takes it in fixed 72 B slots
  // and gives MTP words; the others take first[] and pm[] and give primitives. true: first[] and pm[] lie in
  // pinned host memory; they are copied in, primitives are copied out, over four streams.
  bool streaming = false;
  double seconds = 0.1;  // measured for at least so long, and at least three batches
  int device = 0;
};

struct RingsCudaResult {
  double events_per_s = 0;  // back to back
  double batch_us = 0;      // median of one batch: the kernel; streaming: from the first copy to the last
  double batch_us_least = 0;
  double bytes_per_event = 0;         // moved in device memory by the kernel, counted
  double copied_bytes_per_event = 0;  // streaming: to the device
  double memory_bytes_per_s = 0;      // device-to-device copy, read and write
  double operations_per_s = 0;        // fused multiply-adds, each two
  double copy_bytes_per_s = 0;        // bare copies from pinned memory to the device
  std::uint64_t events = 0;           // reconstructed
};

// events: source of the batch. A larger batch repeats them; in slots with hits in another order, swapped
// disks and separate times, so no two events have equal bytes. Throws
// std::invalid_argument (algorithm, parameters, device, batch 0) and std::runtime_error (the device refuses).
RingsCudaResult rings_cuda(const rich::EventBatch& events, const RingsCudaOptions& options);

}  // namespace nanet::bench
