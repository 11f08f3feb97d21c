// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with MULTIRING.
#include "nanet/loop/kernels.hpp"
#include "nanet/loop/resident.cuh"
#include "nanet/rich/multiring.hpp"

namespace nanet::loop {

LoopKernel multiring_kernel() {
  return loop_kernel<rich::Multiring>();
}

}  // namespace nanet::loop
