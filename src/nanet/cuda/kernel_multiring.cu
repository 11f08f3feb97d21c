// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/multiring.hpp"

namespace nanet::cuda {

extern const Kernel kernel_multiring;
const Kernel kernel_multiring{rich::Multiring::name, launch_wide<rich::Multiring>};

}  // namespace nanet::cuda
