// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/wide_kernel.cuh"
#include "nanet/rich/pomh.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_pomh;
const BatchKernel kernel_pomh{rich::Pomh::name, launch_wide<rich::Pomh>};

}  // namespace nanet::gpu
