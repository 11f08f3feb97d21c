// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/almagest.hpp"

namespace nanet::cuda {

extern const Kernel kernel_almagest;
const Kernel kernel_almagest{rich::Almagest::name, launch_wide<rich::Almagest>};

}  // namespace nanet::cuda
