// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/bell.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace nanet::fabric {
namespace {

std::atomic<std::uint32_t> numbers;

}  // namespace

std::string bell_path(const std::string& directory, std::uint32_t pid, std::uint32_t bell) {
  return directory + "/nanet-fi-" + std::to_string(getuid()) + "-bell-" + std::to_string(pid) + "." +
         std::to_string(bell);
}

// Yama (Linux, ptrace_scope 1) lets only parents read the memory of a process; peers are siblings.
void allow_siblings() noexcept {
  std::ifstream scope("/proc/sys/kernel/yama/ptrace_scope");
  if (char c = 0; scope.get(c) && c == '1') prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

OwnBell::OwnBell(const std::string& directory)
    : number_(numbers++), path_(bell_path(directory, static_cast<std::uint32_t>(getpid()), number_)) {
  unlink(path_.c_str());  // of an earlier process with this number
  if (mkfifo(path_.c_str(), 0600) == 0) fd_ = os::Fd(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "cannot create " + path_);
}

OwnBell::~OwnBell() {
  unlink(path_.c_str());
}

void OwnBell::ring() noexcept {
  const char one = 1;
  [[maybe_unused]] const auto full = write(fd_.get(), &one, 1);  // a full pipe is readable already
}

void OwnBell::drain() noexcept {
  std::array<char, 256> bytes;
  while (read(fd_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
  }
}

}  // namespace nanet::fabric
