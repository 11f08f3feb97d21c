// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with MULTIRING.
#include "nanet/gpu/kernels/frame_kernels.hpp"
#include "nanet/gpu/resident/resident.cuh"
#include "nanet/rich/multiring.hpp"

namespace nanet::gpu {

FrameKernel multiring_kernel() {
  return frame_kernel<rich::Multiring>();
}

}  // namespace nanet::gpu
