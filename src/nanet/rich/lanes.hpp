// SPDX-License-Identifier: Apache-2.0
// 32-lane vector types: one source for GPU warps and CPU vectors. DeviceLanes: a lane is a thread, a value is
// a register. HostLanes: a value is several vectors of the CPU's width. Both give the same bits: every
// operation rounds alike, and lane sums use the same addition tree.
//
// F: 32 floats. I: 32 int32. M: 32 booleans. A plain float, int or bool is the same in all lanes ("uniform").
// Control flow may depend on uniform values only, such as the results of any(), ballot() and sum().
#pragma once

#ifdef __CUDACC__  // nvcc has no host vectors and needs none
#include "nanet/rich/device_lanes.hpp"
#else
#include "nanet/rich/host_lanes.hpp"
#endif
