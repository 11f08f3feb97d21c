// SPDX-License-Identifier: Apache-2.0
// GPU recovery: runs the executor of a lost GPU in a recovery process, supervises it, and returns the queues
// to the CPU if it fails.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nanet/gpu/failover/cpu_fallback.hpp"
#include "nanet/gpu/failover/recovery_process.hpp"

namespace nanet::gpu {

class GpuRecovery {
 public:
  // fallback: active at begin(); records every loss and recovery. Fallback and the memory of views and traces
  // outlive this. Throws as RecoveryProcess. Without a command, or if the memory cannot be shared, there is
  // no recovery.
  GpuRecovery(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
              const std::vector<contract::View>& views, trigger::TraceTable& traces, CpuFallback& fallback);
  ~GpuRecovery();

  bool possible() const noexcept { return process_ != nullptr; }
  // Starts a thread that runs the recovery process, hands the queues over when it is ready and supervises it.
  // After a failure the queues return to the CPU and another process starts after a pause. Waits first until
  // at_rest() reports that no kernel of the lost device runs; called in that thread.
  void begin(std::function<bool()> at_rest = {});
  // Ends thread and process. The device or the CPU has finished the entries in the queues.
  void end() noexcept;

  bool event_overrun() const noexcept { return process_ && process_->event_overrun(); }
  void append_physics(std::vector<const trigger::Physics*>& all) const;
  // Figures of the device while it works.
  void append_figures(std::map<std::string, double>& figures) const;

 private:
  void run(const std::stop_token& token) noexcept;
  // Waits for the state `wanted`. False: failure or timeout with the reason in `why`, or stop requested.
  bool await(RecoveryState wanted, Nanoseconds longest, const std::stop_token* token,
             std::string& why) noexcept;
  // Supervises until failure (returns the reason) or a stop request (returns an empty string).
  std::string watch(const std::stop_token& token) noexcept;
  void hand_back(const std::string& why) noexcept;
  // A recent n, from the last finished entries.
  std::uint64_t recent() noexcept;

  RecoveryOptions options_;
  contract::View view_;  // of the first queue
  CpuFallback& fallback_;
  std::uint64_t reference_ = 0;
  std::unique_ptr<RecoveryProcess> process_;
  std::function<bool()> at_rest_;
  std::atomic<bool> served_{false}, working_{false};
  std::jthread thread_;
};

}  // namespace nanet::gpu
