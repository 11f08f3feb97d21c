// SPDX-License-Identifier: Apache-2.0
// Recovery process, trigger side: start, orders, state, end.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "nanet/gpu/failover/recovery_block.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

// Program of the recovery process and its settings besides ExecutorOptions.
struct RecoveryOptions {
  // Program and arguments, followed by the file descriptor of the block; calls serve_recovery(). Empty: no
  // recovery.
  std::vector<std::string> command;
  std::string algorithm;  // as rich::make_reconstructor takes it
  rich::Parameters parameters;
  int device = 0;  // -1: a CPU in a device's place, for tests
  unsigned blocks = 0;
  Nanoseconds silence = 500'000'000, stall = 20'000'000;
  Nanoseconds pause = 200'000'000;  // before it is started; doubled whenever it does not last
};

class RecoveryProcess {
 public:
  // Views and traces must lie in os::shared_allocator(). Throws std::invalid_argument or std::system_error.
  RecoveryProcess(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
                  const std::vector<contract::View>& views, trigger::TraceTable& traces);
  ~RecoveryProcess();
  RecoveryProcess(const RecoveryProcess&) = delete;
  RecoveryProcess& operator=(const RecoveryProcess&) = delete;
  // Whether another process could map them.
  static bool can_share(const std::vector<contract::View>& views, trigger::TraceTable& traces) noexcept;

  // Starts the process; the calling thread must outlive it. reference: a recent n. Throws std::system_error.
  void start(std::uint64_t reference);
  void order(RecoveryOrder what) noexcept;
  RecoveryState state() const noexcept;
  // False: the process has ended; `why` has the reason.
  bool alive(std::string& why) noexcept;
  std::uint64_t beat() const noexcept;
  // Ends the process, if there is one, and returns when it is gone, and its device with it.
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
