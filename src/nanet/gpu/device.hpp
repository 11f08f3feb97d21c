// SPDX-License-Identifier: Apache-2.0
// GPUs of this process. A build without CUDA has the same interface and reports why there is none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nanet::gpu {

struct Device {
  int number = 0;  // as in --device cuda:N
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int bus_width_bits = 0;
};

struct Devices {
  bool built = false;   // this build has the CUDA component
  int driver = 0;       // CUDA version of the driver, 1000
  std::string trouble;  // reason for the lack of a device; empty if there is one
  std::vector<Device> found;
};

// Never throws; `trouble` has the reason. The first call may take a second on a machine with GPUs.
Devices devices();

}  // namespace nanet::gpu
