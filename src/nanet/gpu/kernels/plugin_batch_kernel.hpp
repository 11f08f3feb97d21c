// SPDX-License-Identifier: Apache-2.0
// Batch kernel of a plug-in. For .cu files and plug-ins.
#pragma once

#include <cstddef>

#include "nanet/gpu/kernels/batch_kernel.hpp"
#include "nanet/rich/plugins.hpp"

namespace nanet::gpu {

// Layout of the launch arguments.
inline constexpr std::uint64_t batch_layout =
    rich::layout_hash(sizeof(BatchKernel), offsetof(BatchKernel, launch), sizeof(DeviceBatch),
                      offsetof(DeviceBatch, plane), offsetof(DeviceBatch, rings),
                      offsetof(DeviceBatch, primitives), sizeof(trigger::DecisionOptions), plane_entries);

// Valid for the life of the process. Throws as rich::plugin_cuda. From any thread.
const BatchKernel& plugin_batch_kernel(const rich::Plugin& plugin);

}  // namespace nanet::gpu
