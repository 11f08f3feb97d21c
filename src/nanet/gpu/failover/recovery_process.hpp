// SPDX-License-Identifier: Apache-2.0
// Recovery process, trigger side: start, orders, state, end.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "nanet/gpu/failover/failover.hpp"
#include "nanet/gpu/failover/recovery_block.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

class RecoveryProcess {
 public:
  // Views and traces must lie in os::shared_allocator(). Throws std::invalid_argument or std::system_error.
  RecoveryProcess(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
                  const std::vector<contract::View>& views, trigger::TraceTable& traces);
  ~RecoveryProcess();
  RecoveryProcess(const RecoveryProcess&) = delete;
  RecoveryProcess& operator=(const RecoveryProcess&) = delete;
  // Whether another process can map views and traces.
  static bool can_share(const std::vector<contract::View>& views, trigger::TraceTable& traces) noexcept;

  // Starts the process; the calling thread must outlive it. reference: a recent n. Throws std::system_error.
  void start(std::uint64_t reference);
  void order(RecoveryOrder what) noexcept;
  RecoveryState state() const noexcept;
  // False: the process has ended; `why` has the reason.
  bool alive(std::string& why) noexcept;
  std::uint64_t beat() const noexcept;
  // Ends the process, if any; returns when the process has exited and released its device.
  void end() noexcept;

  bool event_overrun() const noexcept;
  const trigger::Physics& physics() const noexcept { return block_->physics; }
  void append_figures(std::map<std::string, double>& figures) const;

 private:
  std::vector<std::string> command_;
  int fd_ = -1;
  RecoveryBlock* block_ = nullptr;
  std::vector<int> inherited_;
  pid_t process_ = -1;
};

}  // namespace nanet::gpu
