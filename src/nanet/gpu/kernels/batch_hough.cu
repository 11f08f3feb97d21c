// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/hough.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_hough;
const BatchKernel kernel_hough{rich::Hough::name, launch_wide<rich::Hough>};

}  // namespace nanet::gpu
