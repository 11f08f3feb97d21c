// SPDX-License-Identifier: Apache-2.0
// Ring benchmark on GPUs (`nanet bench rings`): events per second and time per batch, from device memory or
// streaming from host memory.
#pragma once

#include <cstdint>
#include <string>

#include "nanet/rich/algorithm.hpp"

namespace nanet::bench {

struct RingsCudaOptions {
  std::string algorithm;
  rich::Parameters parameters;
  std::uint64_t batch = 1;  // events
  // false: the batch lies in device memory, and the time is the kernel time. MATH reads fixed 72 B slots and
  // writes MTP words; the others read first[] and pm[] and write primitives. true: first[] and pm[] lie in
  // pinned host memory. They are copied in and primitives are copied out, over four streams.
  bool streaming = false;
  double seconds = 0.1;  // minimum measuring time; at least three batches
  int device = 0;
};

struct RingsCudaResult {
  double events_per_s = 0;  // back to back
  double batch_us = 0;      // median of one batch: kernel time; streaming: first to last copy
  double batch_us_least = 0;
  double bytes_per_event = 0;         // device memory traffic of the kernel, counted
  double copied_bytes_per_event = 0;  // streaming: to the device
  double memory_bytes_per_s = 0;      // device-to-device copy, bytes read and written
  double operations_per_s = 0;        // fused multiply-adds, counted as two
  double copy_bytes_per_s = 0;        // copies only, from pinned memory to the device
  std::uint64_t events = 0;           // reconstructed
};

// events: source of the batch, repeated if the batch is larger. In slots, repetitions have another hit order,
// swapped disks and separate times, so that all events differ. Throws std::invalid_argument (algorithm,
// parameters, device, batch 0) or std::runtime_error (device error).
RingsCudaResult rings_cuda(const rich::EventBatch& events, const RingsCudaOptions& options);

}  // namespace nanet::bench
