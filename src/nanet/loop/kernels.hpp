// SPDX-License-Identifier: Apache-2.0
// The kernels of each algorithm; in files of their own, so that they compile side by side.
#pragma once

#include "nanet/loop/resident.hpp"

namespace nanet::loop {

LoopKernel math_kernel();
LoopKernel tripl_kernel();
LoopKernel hough_kernel();
LoopKernel pomh_kernel();
LoopKernel domh_kernel();
LoopKernel almagest_kernel();
LoopKernel multiring_kernel();

}  // namespace nanet::loop
