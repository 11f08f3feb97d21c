// SPDX-License-Identifier: Apache-2.0
// Standby CPU executor for GPU failure, with failure statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

// Answers the entries in the queues that are not posted, returns their buffers, and starts a CPU executor at
// the next entry. Requires exclusive access to the queues. physics: receives the counts of these entries.
std::unique_ptr<trigger::Executor> start_cpu_fallback(const trigger::ExecutorOptions& options,
                                                      const std::vector<contract::View>& views,
                                                      const rich::Reconstructor& algorithm,
                                                      trigger::TraceTable& traces, trigger::Physics& physics);

// Fallback of a GPU executor: the CPU executor after a failure, and the failure statistics.
class CpuFallback {
 public:
  // wanted: false: the card alone answers the frames of a lost GPU. algorithm: cloned.
  CpuFallback(bool wanted, const trigger::ExecutorOptions& options, std::vector<contract::View> views,
              const rich::Reconstructor& algorithm, trigger::TraceTable& traces);

  // Marks the GPU as lost. True for the first call since the start or the last recovery.
  bool lose(const std::string& why) noexcept;
  // The recovery process has taken over.
  void returned() noexcept;
  // Adds a remark to trouble(); replaces the previous one.
  void note(const std::string& what) noexcept;
  // The GPU was lost at least once; this process no longer uses it.
  bool lost() const noexcept { return lost_; }
  // Starts the CPU executor if wanted and not running. Requires exclusive access to the queues.
  void activate() noexcept;
  // A recent n at the last activation.
  std::uint64_t reference() const noexcept { return reference_; }
  // Finishes the entries in the queues.
  void stop() noexcept;

  // Counts of all CPU executors of this fallback.
  void append_physics(std::vector<const trigger::Physics*>& all) const;
  void append_figures(std::map<std::string, double>& figures) const;
  std::string trouble() const;

 private:
  const bool wanted_;
  trigger::ExecutorOptions options_;
  std::vector<contract::View> views_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  trigger::TraceTable& traces_;
  std::atomic<std::uint32_t> faults_{0}, returns_{0};
  std::atomic<bool> lost_{false}, away_{false};
  std::atomic<std::uint64_t> reference_{0};
  std::atomic<Nanoseconds> since_{0}, before_{0};  // of this absence; those before it together
  mutable std::mutex mutex_;                       // protects the members below
  std::unique_ptr<trigger::Executor> cpu_;
  std::vector<std::unique_ptr<trigger::Executor>> past_;
  std::vector<stats::Counter> beyond_;  // Physics::count_beyond()
  trigger::Physics earlier_;            // counts at activations, and of executors removed from the list
  std::string trouble_, note_;
};

}  // namespace nanet::gpu
