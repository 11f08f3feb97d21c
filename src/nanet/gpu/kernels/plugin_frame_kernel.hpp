// SPDX-License-Identifier: Apache-2.0
// Frame kernels of a plug-in. For .cu files and plug-ins.
#pragma once

#include <cstddef>

#include "nanet/gpu/resident/resident.hpp"
#include "nanet/rich/plugins.hpp"

namespace nanet::gpu {

// Layout of kernel arguments and results.
inline constexpr std::uint64_t frame_layout = rich::layout_hash(
    sizeof(FrameKernel), offsetof(FrameKernel, threads), sizeof(Resident), offsetof(Resident, options),
    offsetof(Resident, clop), offsetof(Resident, doorbell), offsetof(Resident, control),
    offsetof(Resident, plane), offsetof(Resident, counts), offsetof(Resident, begin),
    offsetof(Resident, injection), sizeof(contract::Shape), sizeof(contract::Event),
    sizeof(contract::Descriptor), sizeof(BufferSizes), sizeof(FrameOptions), sizeof(FrameShared),
    sizeof(trigger::Trace), sizeof(Control), sizeof(QueueState), sizeof(Counts), sizeof(Sample),
    sizeof(Answer), sizeof(Buffer), plane_entries, shared_raw_bytes, shared_fragments, samples, sample_every,
    contract::send_buffer_bytes);

// Valid for the life of the process. Throws as rich::plugin_cuda, or std::runtime_error with the CUDA error.
const FrameKernel& plugin_frame_kernel(const rich::Plugin& plugin);

}  // namespace nanet::gpu
