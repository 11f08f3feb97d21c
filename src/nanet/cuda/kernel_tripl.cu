// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/tripl.hpp"

namespace nanet::cuda {

extern const Kernel kernel_tripl;
const Kernel kernel_tripl{rich::Tripl::name, launch_wide<rich::Tripl>};

}  // namespace nanet::cuda
