// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/almagest.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_almagest;
const BatchKernel kernel_almagest{rich::Almagest::name, launch_wide<rich::Almagest>};

}  // namespace nanet::gpu
