// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/device_executor.hpp"

#include <stdexcept>
#include <string>

#include "nanet/gpu/gpu_queue.hpp"

namespace nanet::gpu {

int require_gpus(const PipelineOptions& options, const trigger::ExecutorOptions& execute) {
  if (execute.sink) throw std::invalid_argument("a GPU in the loop gives primitives, no rings");
  int gpus = 0;
  require(cudaGetDeviceCount(&gpus), "looking for GPUs");
  if (options.device < 0 || options.device >= gpus)
    throw std::invalid_argument("device = cuda:" + std::to_string(options.device) + ": there are " +
                                std::to_string(gpus) + " GPUs, from cuda:0 on");
  return gpus;
}

std::unique_ptr<DeviceExecutor> make_device_executor(const PipelineOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     const std::vector<contract::View>& views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces, int gpus,
                                                     Failover& failover) {
  const auto make = options.mode == Mode::persistent ? make_resident_executor : make_launch_executor;
  return make(options, execute, views, algorithm, traces, gpus, failover);
}

}  // namespace nanet::gpu
