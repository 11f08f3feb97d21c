// SPDX-License-Identifier: Apache-2.0
// What a device can do at most, measured: the lines of the roofline.
#pragma once

namespace nanet::bench {

struct Limits {
  double memory_bytes_per_s = 0;  // copying within device memory, bytes read and bytes written
  double operations_per_s = 0;    // float32, fused multiply-adds in registers, each two
  double copy_bytes_per_s = 0;    // from pinned host memory to the device
};

// Measured at the first call for a device, which takes about half a second and 2 GiB; kept. Throws
// std::runtime_error.
Limits limits(int device);

}  // namespace nanet::bench
