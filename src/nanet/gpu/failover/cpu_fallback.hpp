// SPDX-License-Identifier: Apache-2.0
// The CPU goes on where a GPU has stopped.
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

// Answers what is in the queues and not yet answered (what is posted stays as it is, and its buffer is
// returned), then gives an executor that goes on from there, started. Nobody else may be at the queues.
std::unique_ptr<trigger::Executor> start_cpu_fallback(const trigger::ExecutorOptions& options,
                                                      const std::vector<contract::View>& views,
                                                      const rich::Reconstructor& algorithm,
                                                      trigger::TraceTable& traces);

// What an executor on a GPU keeps ready for the day on which that is lost: the CPU executor that goes on, and
// the account of what happened.
class CpuFallback {
 public:
  // wanted: else a lost GPU's frames are answered by the card alone. algorithm: cloned.
  CpuFallback(bool wanted, const trigger::ExecutorOptions& options, std::vector<contract::View> views,
              const rich::Reconstructor& algorithm, trigger::TraceTable& traces);

  // The GPU is given up. True: this was the first to say so since it began, or came back.
  bool lose(const std::string& why) noexcept;
  // The GPU is at work again, in another process.
  void returned() noexcept;
  // What else there is to say of the trouble; the newest.
  void note(const std::string& what) noexcept;
  // It was lost at least once: this process has it no more.
  bool lost() const noexcept { return lost_; }
  // Puts the CPU to work, where it is wanted and not at work. Nobody else may be at the queues.
  void activate() noexcept;
  // An n that was worked on not long before the last take-over.
  std::uint64_t reference() const noexcept { return reference_; }
  // Finishes what is in the queues.
  void stop() noexcept;

  // The CPU's counts, of all its times of service.
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
  mutable std::mutex mutex_;                       // of what follows
  std::unique_ptr<trigger::Executor> cpu_;
  std::vector<std::unique_ptr<trigger::Executor>> past_;
  trigger::Physics earlier_;  // counts of those that are no longer among them
  std::string trouble_, note_;
};

}  // namespace nanet::gpu
