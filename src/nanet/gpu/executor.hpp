// SPDX-License-Identifier: Apache-2.0
// Executors that keep a GPU in the loop between the card's event queue and its send ring. The same interface
// in a build without CUDA, which says that there is none.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "nanet/gpu/failover/recovery_process.hpp"
#include "nanet/gpu/injection.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

// persistent: one resident kernel polls the queue, answers and returns buffers; no host thread is in the way.
// launch: copy in, kernel and copy out for each buffer, from a host thread; several in flight.
enum class Mode { persistent, launch };
// Throws std::invalid_argument.
Mode mode_of(std::string_view name);
std::string_view name_of(Mode mode);

struct GpuOptions {
  int device = 0;  // consumer device d of the CLOP is on GPU (device + d) mod GPUs
  Mode mode = Mode::persistent;
  unsigned blocks = 0;                // of the resident kernel that work on frames; 0: its own choice
  Nanoseconds silence = 500'000'000;  // the kernel ends when the host's heartbeat stands still for so long
  Nanoseconds stall = 20'000'000;     // the GPU is given up when its heartbeat stands still for so long
  bool cpu_fallback = true;  // the CPU goes on where the GPU is lost; else the card answers header-only
  Injection injection;
  // The program that brings a lost GPU back (persistent only, with cpu_fallback; contract memory and traces
  // in os::shared_allocator()), and the algorithm as it is told of it. The rest is filled in.
  RecoveryOptions recovery;
  // Where masks and time offsets are read that another process writes; nullptr: those of ExecutorOptions.
  const ConditionsBoard* conditions = nullptr;
};

// algorithm: its value is copied to the GPU. Allocates and registers all memory. Throws std::invalid_argument
// (a sink is asked for, no such GPU) or std::runtime_error that says what is missing.
std::unique_ptr<trigger::Executor> make_gpu_executor(const GpuOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     std::vector<contract::View> views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces);

}  // namespace nanet::gpu
