// SPDX-License-Identifier: Apache-2.0
// Measured limits of a device: the lines of the roofline.
#pragma once

namespace nanet::bench {

struct Limits {
  double memory_bytes_per_s = 0;  // copy within device memory, bytes read and written
  double operations_per_s = 0;    // float32 fused multiply-adds in registers, counted as two
  double copy_bytes_per_s = 0;    // from pinned host memory to the device
};

// Measures a device at the first call, which takes about half a second and 2 GiB; later calls return the same
// result. Throws std::runtime_error.
Limits limits(int device);

}  // namespace nanet::bench
