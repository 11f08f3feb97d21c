// SPDX-License-Identifier: Apache-2.0
// The makers of each executor; gpus: how many there are.
#pragma once

#include "nanet/loop/executor_cuda.hpp"

namespace nanet::loop {

std::unique_ptr<trigger::Executor> make_resident_executor(const CudaOptions& options,
                                                          const trigger::ExecutorOptions& execute,
                                                          std::vector<contract::View> views,
                                                          const rich::Reconstructor& algorithm,
                                                          trigger::TraceTable& traces, int gpus);
std::unique_ptr<trigger::Executor> make_launch_executor(const CudaOptions& options,
                                                        const trigger::ExecutorOptions& execute,
                                                        std::vector<contract::View> views,
                                                        const rich::Reconstructor& algorithm,
                                                        trigger::TraceTable& traces, int gpus);

}  // namespace nanet::loop
