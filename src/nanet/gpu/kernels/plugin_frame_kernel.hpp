// SPDX-License-Identifier: Apache-2.0
// Frame kernels of a plug-in. For .cu files.
#pragma once

#include "nanet/gpu/resident/resident.hpp"
#include "nanet/rich/plugins.hpp"

namespace nanet::gpu {

// Valid for the life of the process. Throws as rich::plugin_cuda, or std::runtime_error with the CUDA error.
const FrameKernel& plugin_frame_kernel(const rich::Plugin& plugin);

}  // namespace nanet::gpu
