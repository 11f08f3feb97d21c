// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with MATH.
#include "nanet/loop/kernels.hpp"
#include "nanet/loop/resident.cuh"
#include "nanet/rich/math.hpp"

namespace nanet::loop {

LoopKernel math_kernel() {
  return loop_kernel<rich::Math>();
}

}  // namespace nanet::loop
