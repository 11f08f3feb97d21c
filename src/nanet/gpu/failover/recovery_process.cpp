// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/failover/recovery_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/os/region_allocator.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's headers

namespace nanet::gpu {
namespace {

void copy_text(char* to, std::size_t room, const std::string& text, const char* what) {
  if (text.size() >= room)
    throw std::invalid_argument(std::string(what) + " is too long for a recovery process");
  std::memcpy(to, text.c_str(), text.size() + 1);
}

RecoveryBlock::Region region_of(const std::byte* at, std::size_t bytes) {
  return {os::shared_allocator().shared_fd(at), reinterpret_cast<std::uintptr_t>(at), bytes};
}

[[noreturn]] void failed(int number, const char* what) {
  throw std::system_error(number, std::generic_category(), what);
}

}  // namespace

bool RecoveryProcess::can_share(const std::vector<contract::View>& views,
                                trigger::TraceTable& traces) noexcept {
  const os::RegionAllocator& allocator = os::shared_allocator();
  for (const contract::View& view : views)
    if (allocator.shared_fd(view.clop) < 0) return false;
  return allocator.shared_fd(reinterpret_cast<const std::byte*>(traces.data())) >= 0 &&
         views.size() <= RecoveryBlock::most_devices;
}

RecoveryProcess::RecoveryProcess(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
                                 const std::vector<contract::View>& views, trigger::TraceTable& traces)
    : command_(options.command) {
  if (options.parameters.size() > RecoveryBlock::most_parameters)
    throw std::invalid_argument("the algorithm has too many parameters for a recovery process");
  fd_ = memfd_create("nanet-gpu-recovery", MFD_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, sizeof(RecoveryBlock)) != 0) failed(errno, "memory for a recovery process");
  void* const at = mmap(nullptr, sizeof(RecoveryBlock), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) failed(errno, "memory for a recovery process");
  block_ = new (at) RecoveryBlock{};
  RecoveryBlock& b = *block_;
  b.magic = RecoveryBlock::magic_number;
  b.bytes = sizeof b;
  b.parent = getpid();
  b.device = options.device;
  b.devices = static_cast<std::uint32_t>(views.size());
  b.trace_slots = static_cast<std::uint32_t>(traces.mask() + 1);
  b.blocks = options.blocks;
  b.merged_buffers = options.merged_buffers;
  b.threads = execute.threads;
  b.shape = views[0].shape;
  b.decision = execute.process.decision;
  b.downscale = execute.process.downscale;
  b.window_lsb = execute.process.window_lsb;
  b.source = execute.process.source;
  b.stall = options.stall;
  b.silence = options.silence;
  b.deadline = execute.deadline;
  copy_text(b.algorithm, sizeof b.algorithm, options.algorithm, "the algorithm's name");
  for (const auto& [name, value] : options.parameters) {
    copy_text(b.parameter[b.parameters].name, RecoveryBlock::name_bytes, name, "a parameter's name");
    b.parameter[b.parameters++].value = value;
  }
  for (std::size_t d = 0; d < views.size(); ++d) b.region[d] = region_of(views[d].clop, views[d].bytes);
  b.traces = region_of(reinterpret_cast<const std::byte*>(traces.data()), traces.bytes());
  for (std::size_t d = 0; d < views.size(); ++d) inherited_.push_back(b.region[d].fd);
  inherited_.push_back(b.traces.fd);
  inherited_.push_back(fd_);
  if (execute.process.conditions) {
    b.has_conditions = 1;
    execute.process.conditions->follow(
        [board = &b.conditions](std::uint64_t from, const trigger::Conditions& conditions) {
          publish(*board, from, conditions);
        });
  }
}

RecoveryProcess::~RecoveryProcess() {
  end();
  // With conditions the block stays mapped: the card's thread may still write them.
  if (block_ && !block_->has_conditions) munmap(static_cast<void*>(block_), sizeof(RecoveryBlock));
  if (fd_ >= 0) close(fd_);
}

void RecoveryProcess::start(std::uint64_t reference) {
  end();
  RecoveryBlock& b = *block_;
  b.reference = reference;
  b.trouble[0] = 0;
  contract::relax(b.order, static_cast<std::uint32_t>(RecoveryOrder::none));
  contract::relax(b.overrun, 0u);
  contract::release(b.state, static_cast<std::uint32_t>(RecoveryState::starting));
  std::vector<std::string> words = command_;
  words.push_back(std::to_string(fd_));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Another program, not a copy of this process: a CUDA context does not survive a fork. posix_spawn copies
  // no page tables either, which would stop the card's threads for as long as that takes.
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  for (const int fd : inherited_) posix_spawn_file_actions_adddup2(&files, fd, fd);  // not closed on exec
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Own process group: a keyboard interrupt reaches the trigger only.
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int status = posix_spawnp(&process_, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (status != 0) {
    process_ = -1;
    failed(status, "starting the recovery process");
  }
}

void RecoveryProcess::order(RecoveryOrder what) noexcept {
  contract::release(block_->order, static_cast<std::uint32_t>(what));
}

RecoveryState RecoveryProcess::state() const noexcept {
  return static_cast<RecoveryState>(contract::acquire(block_->state));
}

bool RecoveryProcess::alive(std::string& why) noexcept {
  if (state() == RecoveryState::failed) {
    why = block_->trouble;
    return false;
  }
  int status = 0;
  if (process_ < 0) return false;
  if (waitpid(process_, &status, WNOHANG) == 0) return true;
  process_ = -1;
  why = state() == RecoveryState::failed ? block_->trouble
        : WIFSIGNALED(status) ? "the recovery process died of signal " + std::to_string(WTERMSIG(status))
                              : "the recovery process ended with " + std::to_string(WEXITSTATUS(status));
  return false;
}

std::uint64_t RecoveryProcess::beat() const noexcept {
  return contract::acquire(block_->beat);
}

void RecoveryProcess::end() noexcept {
  if (process_ < 0) return;
  // waitpid() returns after the process has closed its files, so its device is at rest.
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

bool RecoveryProcess::event_overrun() const noexcept {
  return contract::relaxed(block_->overrun) != 0;
}

void RecoveryProcess::append_figures(std::map<std::string, double>& figures) const {
  const std::uint32_t count = contract::acquire(block_->figures);
  for (std::uint32_t i = 0; i < count && i < RecoveryBlock::most_figures; ++i) {
    const std::string name = block_->figure[i].name;
    if (!name.starts_with("gpu_")) figures[name] = contract::relaxed(block_->figure[i].value);
  }
}

}  // namespace nanet::gpu
