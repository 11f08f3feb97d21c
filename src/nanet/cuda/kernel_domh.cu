// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/domh.hpp"

namespace nanet::cuda {

extern const Kernel kernel_domh;
const Kernel kernel_domh{rich::Domh::name, launch_wide<rich::Domh>};

}  // namespace nanet::cuda
