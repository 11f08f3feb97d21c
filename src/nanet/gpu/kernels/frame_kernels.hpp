// SPDX-License-Identifier: Apache-2.0
// The kernels of each algorithm; in files of their own, so that they compile side by side.
#pragma once

#include "nanet/gpu/resident/resident.hpp"

namespace nanet::gpu {

FrameKernel math_kernel();
FrameKernel tripl_kernel();
FrameKernel hough_kernel();
FrameKernel pomh_kernel();
FrameKernel domh_kernel();
FrameKernel almagest_kernel();
FrameKernel multiring_kernel();

}  // namespace nanet::gpu
