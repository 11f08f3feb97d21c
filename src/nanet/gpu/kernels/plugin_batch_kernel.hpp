// SPDX-License-Identifier: Apache-2.0
// Batch kernel of a plug-in. For .cu files.
#pragma once

#include "nanet/gpu/kernels/batch_kernel.hpp"
#include "nanet/rich/plugins.hpp"

namespace nanet::gpu {

// Valid for the life of the process. Throws as rich::plugin_cuda. From any thread.
const BatchKernel& plugin_batch_kernel(const rich::Plugin& plugin);

}  // namespace nanet::gpu
