// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with MATH.
#include "nanet/gpu/kernels/frame_kernels.hpp"
#include "nanet/gpu/resident/resident.cuh"
#include "nanet/rich/math.hpp"

namespace nanet::gpu {

FrameKernel math_kernel() {
  return frame_kernel<rich::Math>();
}

}  // namespace nanet::gpu
