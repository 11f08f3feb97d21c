// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/tripl.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_tripl;
const BatchKernel kernel_tripl{rich::Tripl::name, launch_wide<rich::Tripl>};

}  // namespace nanet::gpu
