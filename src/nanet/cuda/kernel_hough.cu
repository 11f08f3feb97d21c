// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/rich/hough.hpp"

namespace nanet::cuda {

extern const Kernel kernel_hough;
const Kernel kernel_hough{rich::Hough::name, launch_wide<rich::Hough>};

}  // namespace nanet::cuda
