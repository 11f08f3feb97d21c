// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/executor.hpp"

#include <stdexcept>
#include <string>

#include "nanet/gpu/executors.hpp"
#include "nanet/gpu/gpu_queue.hpp"

namespace nanet::gpu {

std::unique_ptr<trigger::Executor> make_gpu_executor(const GpuOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     std::vector<contract::View> views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces) {
  if (execute.sink) throw std::invalid_argument("a GPU in the loop gives primitives, no rings");
  int gpus = 0;
  require(cudaGetDeviceCount(&gpus), "looking for GPUs");
  if (options.device < 0 || options.device >= gpus)
    throw std::invalid_argument("device = cuda:" + std::to_string(options.device) + ": there are " +
                                std::to_string(gpus) + " GPUs, from cuda:0 on");
  const auto make = options.mode == Mode::persistent ? make_resident_executor : make_launch_executor;
  return make(options, execute, std::move(views), algorithm, traces, gpus);
}

}  // namespace nanet::gpu
