// SPDX-License-Identifier: Apache-2.0
// GPU library without CUDA: reports no device and the reason.
#include <stdexcept>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/device_executor.hpp"
#include "nanet/gpu/mailbox_probe.hpp"

namespace nanet::gpu {

Devices devices() {
  Devices none;
  none.trouble = "this build has no CUDA component";
  return none;
}

std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor&, const rich::Geometry&, int,
                                                     Nanoseconds) {
  throw std::invalid_argument("device: this build has no CUDA component: use --device cpu");
}

MailboxProbe probe_mailbox(int, MailboxMemory, Nanoseconds) {
  throw std::runtime_error("this build has no CUDA component");
}

int require_gpus(const PipelineOptions&) {
  throw std::runtime_error("this build has no CUDA component: use --device cpu");
}

// Not reached: require_gpus() throws first.
std::unique_ptr<DeviceExecutor> make_resident_executor(const PipelineOptions&,
                                                       const trigger::ExecutorOptions&,
                                                       const std::vector<contract::View>&,
                                                       const rich::Reconstructor&, trigger::TraceTable&, int,
                                                       Failover&) {
  return nullptr;
}
std::unique_ptr<DeviceExecutor> make_launch_executor(const PipelineOptions&, const trigger::ExecutorOptions&,
                                                     const std::vector<contract::View>&,
                                                     const rich::Reconstructor&, trigger::TraceTable&, int,
                                                     Failover&) {
  return nullptr;
}

}  // namespace nanet::gpu
