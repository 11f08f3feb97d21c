// SPDX-License-Identifier: Apache-2.0
// Brings a device that was lost back to work in a process of its own, while the CPU answers, and takes it
// away again when it is lost once more.
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
  // fallback: at work on the CPU whenever begin() is called; told of every loss and return. It, the views'
  // memory and the traces outlive this. Throws as RecoveryProcess does; where there is no command, or the
  // memory cannot be shared, nothing is ever brought back.
  GpuRecovery(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
              const std::vector<contract::View>& views, trigger::TraceTable& traces, CpuFallback& fallback);
  ~GpuRecovery();

  bool possible() const noexcept { return process_ != nullptr; }
  // From now on, in a thread of its own: starts the recovery process, hands the queues over when it is ready,
  // watches it; where it fails, hands them back and tries again after a while. Not before at_rest() says that
  // nothing of the lost device runs any more; called in that thread.
  void begin(std::function<bool()> at_rest = {});
  // Ends that. What is in the queues is finished, by the device or by the CPU; the process is gone.
  void end() noexcept;

  bool event_overrun() const noexcept { return process_ && process_->event_overrun(); }
  void append_physics(std::vector<const trigger::Physics*>& all) const;
  // While the device is at work: its own.
  void append_figures(std::map<std::string, double>& figures) const;

 private:
  void run(const std::stop_token& token) noexcept;
  // Until the recovery process says `wanted`. False: it failed, or it took too long, or (with a token) it is
  // not asked for any more; why: empty only then.
  bool await(RecoveryState wanted, Nanoseconds longest, const std::stop_token* token,
             std::string& why) noexcept;
  // Until it fails or this is to end; gives why it failed.
  std::string watch(const std::stop_token& token) noexcept;
  void hand_back(const std::string& why) noexcept;
  // A number of a little while ago, from the last entries that are finished.
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
