// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/pomh.hpp"

namespace nanet::cuda {

extern const Kernel kernel_pomh;
const Kernel kernel_pomh{rich::Pomh::name, launch_wide<rich::Pomh>};

}  // namespace nanet::cuda
