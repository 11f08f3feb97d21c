// SPDX-License-Identifier: Apache-2.0
// GPU failover: CPU fallback and GPU recovery of one executor. Entry point of this folder; its other headers
// are private.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

class CpuFallback;
class GpuRecovery;

// Program of the recovery process and its settings besides ExecutorOptions.
struct RecoveryOptions {
  // Program and arguments, followed by the file descriptor of the block; calls serve_recovery(). Empty: no
  // recovery.
  std::vector<std::string> command;
  std::string algorithm;  // as rich::make_reconstructor takes it
  rich::Parameters parameters;
  int device = 0;  // -1: a CPU replaces the device, for tests
  unsigned blocks = 0;
  bool merged_buffers = false;  // the card writes them
  Nanoseconds silence = 5'000'000'000, stall = 20'000'000;
  Nanoseconds pause = 200'000'000;  // before each start; doubled after every return that was short
};

struct FailoverOptions {
  bool cpu_fallback = true;  // false: the card alone answers the frames of a lost GPU
  RecoveryOptions recovery;  // with cpu_fallback only
};

class Failover {
 public:
  // Views and traces outlive this; algorithm is cloned. Recovery requires both in os::shared_allocator().
  // Throws std::invalid_argument or std::system_error.
  Failover(const FailoverOptions& options, const trigger::ExecutorOptions& execute,
           const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
           trigger::TraceTable& traces);
  ~Failover();

  // A command is set and another process can map the memory.
  bool can_recover() const noexcept;
  // The GPU was lost at least once; this process no longer uses it.
  bool lost() const noexcept;
  // Marks the GPU as lost. True for the first call since the start or the last recovery. Any thread.
  bool lose(const std::string& why) noexcept;
  // Starts the CPU executor and, where possible, the recovery. Requires exclusive access to the queues.
  // at_rest: no kernel of the lost GPU runs; the recovery process starts only then. Called in another thread
  // until stop() returns.
  void take_over(std::function<bool()> at_rest = {});
  // Finishes the entries in the queues and ends all threads and the recovery process.
  void stop() noexcept;

  bool event_overrun() const noexcept;
  // Counts and figures of CPU executors and recovery processes.
  void append_physics(std::vector<const trigger::Physics*>& all) const;
  void append_figures(std::map<std::string, double>& figures) const;
  std::string trouble() const;

 private:
  std::unique_ptr<CpuFallback> fallback_;
  std::unique_ptr<GpuRecovery> recovery_;
};

// Main function of the recovery process: maps the block (recovery_block.hpp) and its memory, makes the
// executor and follows orders until the order to leave, a device failure or the end of the trigger. Returns
// the exit status. The caller ends the process with std::_Exit: resources of a failed device cannot be freed.
int serve_recovery(int block_fd) noexcept;

}  // namespace nanet::gpu
