// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/domh.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_domh;
const BatchKernel kernel_domh{rich::Domh::name, launch_wide<rich::Domh>};

}  // namespace nanet::gpu
