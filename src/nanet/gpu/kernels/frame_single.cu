// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with the other single-ring algorithms.
#include "nanet/gpu/kernels/frame_kernels.hpp"
#include "nanet/gpu/resident/resident.cuh"
#include "nanet/rich/domh.hpp"
#include "nanet/rich/hough.hpp"
#include "nanet/rich/pomh.hpp"
#include "nanet/rich/tripl.hpp"

namespace nanet::gpu {

FrameKernel tripl_kernel() {
  return frame_kernel<rich::Tripl>();
}
FrameKernel hough_kernel() {
  return frame_kernel<rich::Hough>();
}
FrameKernel pomh_kernel() {
  return frame_kernel<rich::Pomh>();
}
FrameKernel domh_kernel() {
  return frame_kernel<rich::Domh>();
}

}  // namespace nanet::gpu
