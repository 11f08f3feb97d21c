// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with ALMAGEST.
#include "nanet/gpu/kernels/frame_kernels.hpp"
#include "nanet/gpu/resident/resident.cuh"
#include "nanet/rich/almagest.hpp"

namespace nanet::gpu {

FrameKernel almagest_kernel() {
  return frame_kernel<rich::Almagest>();
}

}  // namespace nanet::gpu
