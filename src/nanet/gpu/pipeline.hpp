// SPDX-License-Identifier: Apache-2.0
// GPU pipeline: the trigger's executor on GPUs, with CPU fallback and GPU recovery. A build without CUDA has
// the same interface; construction throws.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/failover/failover.hpp"
#include "nanet/gpu/frame/conditions.hpp"
#include "nanet/gpu/injection.hpp"
#include "nanet/gpu/mailbox_kind.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

class DeviceExecutor;

// persistent: one resident kernel polls the queue, answers and returns buffers, without a host thread.
// launch: copy in, kernel and copy out for each buffer, from a host thread; several in flight.
enum class Mode { persistent, launch };
// Throws std::invalid_argument.
Mode mode_of(std::string_view name);
std::string_view name_of(Mode mode);

struct PipelineOptions {
  int device = 0;  // consumer device d of the CLOP is on GPU (device + d) mod GPUs
  Mode mode = Mode::persistent;
  MailboxMemory mailbox = MailboxMemory::automatic;  // persistent only
  bool merged_buffers = false;                       // the card writes them; persistent and batch only
  unsigned blocks = 0;                               // of the resident kernel that process frames; 0: default
  Nanoseconds silence = 5'000'000'000;  // the kernel ends after this time without a heartbeat of the host
  Nanoseconds stall = 20'000'000;       // the GPU is lost after this time without a heartbeat
  bool cpu_fallback = true;             // a CPU replaces a lost GPU; false: the card answers header-only
  Injection injection;
  // Recovery program and the algorithm it runs; device, blocks, silence and stall are set by the pipeline.
  RecoveryOptions recovery;
  // Masks and time offsets written by another process; nullptr: those of ExecutorOptions.
  const ConditionsBoard* conditions = nullptr;
  // Reconstructor of ExecutorKind::batch; empty: gpu::make_reconstructor. Tests give one that needs no GPU.
  std::function<std::unique_ptr<GpuReconstructor>(const rich::Reconstructor&, const rich::Geometry&, int)>
      reconstructor;

  // Restarts a lost GPU; persistent only, with cpu_fallback and a recovery program. Contract memory and
  // traces must be in os::shared_allocator().
  bool recovers() const noexcept {
    return mode == Mode::persistent && cpu_fallback && !recovery.command.empty();
  }
};

// What the GPU does. resident, launch: everything, in a frame kernel, by Mode. batch: reconstruction only, of
// frames that the CPU has built.
enum class ExecutorKind { resident, launch, batch };
// batch for detectors with more than pm_count channels: frame kernels read PM IDs of 11 bits, and keep
// positions and conditions of 2048 PMs in shared memory. Throws std::invalid_argument for options that
// exclude each other.
ExecutorKind executor_kind(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                           const contract::Shape& shape);

class Pipeline final : public trigger::Executor {
 public:
  // views: one for each consumer device. algorithm: its value is copied to the GPUs. Allocates and registers
  // all memory. Throws std::invalid_argument (executor_kind(); a sink is set; no such GPU) or
  // std::runtime_error that names the missing component.
  Pipeline(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
           const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
           trigger::TraceTable& traces);
  ~Pipeline() override;
  // Factory for trigger::TriggerOptions and trigger::ReplayOptions.
  static trigger::ExecutorMaker maker(const PipelineOptions& options);

  std::string_view name() const noexcept override;
  std::string_view memory() const noexcept override;
  void start() override;
  void stop() noexcept override;
  std::vector<const trigger::Physics*> physics() const override;
  bool event_overrun() const noexcept override;
  std::vector<contract::Mailbox> mailboxes() const override;
  std::string mailbox() const override;
  std::map<std::string, double> figures() const override;
  std::string trouble() const override;

 private:
  ExecutorKind kind_;
  int gpus_;
  Failover failover_;
  std::unique_ptr<DeviceExecutor> device_;
  mutable std::mutex mutex_;  // protects the counts that physics() refreshes
};

}  // namespace nanet::gpu
