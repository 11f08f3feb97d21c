// SPDX-License-Identifier: Apache-2.0
// GPU side of a pipeline: one implementation for each executor kind. Losses of the GPU go to Failover.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/gpu/pipeline.hpp"

namespace nanet::gpu {

class DeviceExecutor {
 public:
  virtual ~DeviceExecutor() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual std::string_view memory() const noexcept = 0;
  // Kernels or threads are resident when this returns. The GPU is not lost.
  virtual void start() = 0;
  // Finishes every event written so far, unless the GPU is lost, and ends threads and kernels.
  virtual void stop() noexcept = 0;
  // No kernel runs.
  virtual bool at_rest() noexcept = 0;
  virtual bool event_overrun() const noexcept = 0;
  // Refreshes and appends the counts. Callers exclude each other.
  virtual void append_physics(std::vector<const trigger::Physics*>& all) const = 0;
  virtual std::map<std::string, double> figures() const = 0;
  virtual std::vector<contract::Mailbox> mailboxes() const { return {}; }
  virtual std::string mailbox() const { return "off"; }
};

// Number of GPUs. Throws as Pipeline::Pipeline.
int require_gpus(const PipelineOptions& options);

// One for each ExecutorKind. gpus: their number. failover outlives the executor.
std::unique_ptr<DeviceExecutor> make_batch_executor(const PipelineOptions& options,
                                                    const trigger::ExecutorOptions& execute,
                                                    const std::vector<contract::View>& views,
                                                    const rich::Reconstructor& algorithm,
                                                    trigger::TraceTable& traces, int gpus,
                                                    Failover& failover);
std::unique_ptr<DeviceExecutor> make_resident_executor(const PipelineOptions& options,
                                                       const trigger::ExecutorOptions& execute,
                                                       const std::vector<contract::View>& views,
                                                       const rich::Reconstructor& algorithm,
                                                       trigger::TraceTable& traces, int gpus,
                                                       Failover& failover);
std::unique_ptr<DeviceExecutor> make_launch_executor(const PipelineOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     const std::vector<contract::View>& views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces, int gpus,
                                                     Failover& failover);

}  // namespace nanet::gpu
