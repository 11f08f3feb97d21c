// SPDX-License-Identifier: Apache-2.0
// The CUDA component of a build without a CUDA compiler: no device, and the reason.
#include "nanet/cuda/device.hpp"

namespace nanet::cuda {

Devices devices() {
  Devices none;
  none.trouble = "this build has no CUDA component";
  return none;
}

}  // namespace nanet::cuda
