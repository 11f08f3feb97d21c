// SPDX-License-Identifier: Apache-2.0
// Factories of the GPU executors. gpus: number of GPUs.
#pragma once

#include "nanet/gpu/executor.hpp"

namespace nanet::gpu {

std::unique_ptr<trigger::Executor> make_resident_executor(const GpuOptions& options,
                                                          const trigger::ExecutorOptions& execute,
                                                          std::vector<contract::View> views,
                                                          const rich::Reconstructor& algorithm,
                                                          trigger::TraceTable& traces, int gpus);
std::unique_ptr<trigger::Executor> make_launch_executor(const GpuOptions& options,
                                                        const trigger::ExecutorOptions& execute,
                                                        std::vector<contract::View> views,
                                                        const rich::Reconstructor& algorithm,
                                                        trigger::TraceTable& traces, int gpus);

}  // namespace nanet::gpu
