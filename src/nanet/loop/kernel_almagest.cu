// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with ALMAGEST.
#include "nanet/loop/kernels.hpp"
#include "nanet/loop/resident.cuh"
#include "nanet/rich/almagest.hpp"

namespace nanet::loop {

LoopKernel almagest_kernel() {
  return loop_kernel<rich::Almagest>();
}

}  // namespace nanet::loop
