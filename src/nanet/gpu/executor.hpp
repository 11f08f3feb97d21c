// SPDX-License-Identifier: Apache-2.0
// GPU executors: consume event queues of the card and post answers. A build without CUDA has the same
// interface and throws.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "nanet/gpu/failover/failover.hpp"
#include "nanet/gpu/frame/conditions.hpp"
#include "nanet/gpu/injection.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

// persistent: one resident kernel polls the queue, answers and returns buffers, without a host thread.
// launch: copy in, kernel and copy out for each buffer, from a host thread; several in flight.
enum class Mode { persistent, launch };
// Throws std::invalid_argument.
Mode mode_of(std::string_view name);
std::string_view name_of(Mode mode);

struct GpuOptions {
  int device = 0;  // consumer device d of the CLOP is on GPU (device + d) mod GPUs
  Mode mode = Mode::persistent;
  unsigned blocks = 0;                // of the resident kernel that process frames; 0: default
  Nanoseconds silence = 500'000'000;  // without a heartbeat of the host the kernel ends
  Nanoseconds stall = 20'000'000;     // without a heartbeat of the GPU it is lost
  bool cpu_fallback = true;           // a CPU replaces a lost GPU; else the card answers header-only
  Injection injection;
  // The program that brings a lost GPU back (persistent only, with cpu_fallback; contract memory and traces
  // in os::shared_allocator()), and the algorithm as it is told of it. The rest is filled in.
  RecoveryOptions recovery;
  // Masks and time offsets written by another process; nullptr: those of ExecutorOptions.
  const ConditionsBoard* conditions = nullptr;
};

// algorithm: its value is copied to the GPU. Allocates and registers all memory. Throws std::invalid_argument
// (a sink is set, no such GPU) or std::runtime_error that names the missing component.
std::unique_ptr<trigger::Executor> make_gpu_executor(const GpuOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     std::vector<contract::View> views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces);

}  // namespace nanet::gpu
