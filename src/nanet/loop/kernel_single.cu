// SPDX-License-Identifier: Apache-2.0
// The loop's kernels with the other single-ring algorithms.
#include "nanet/loop/kernels.hpp"
#include "nanet/loop/resident.cuh"
#include "nanet/rich/domh.hpp"
#include "nanet/rich/hough.hpp"
#include "nanet/rich/pomh.hpp"
#include "nanet/rich/tripl.hpp"

namespace nanet::loop {

LoopKernel tripl_kernel() {
  return loop_kernel<rich::Tripl>();
}
LoopKernel hough_kernel() {
  return loop_kernel<rich::Hough>();
}
LoopKernel pomh_kernel() {
  return loop_kernel<rich::Pomh>();
}
LoopKernel domh_kernel() {
  return loop_kernel<rich::Domh>();
}

}  // namespace nanet::loop
