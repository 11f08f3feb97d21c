// SPDX-License-Identifier: Apache-2.0
// Bell of a node: a named pipe in the folder of the shared files. Others write to it while the node listens.
#pragma once

#include <cstdint>
#include <string>

#include "nanet/os/fd.hpp"

namespace nanet::fabric {

std::string bell_path(const std::string& directory, std::uint32_t pid, std::uint32_t bell);

// Lets processes of the same user that are not parents access this one's memory, where Yama requires it.
void allow_siblings() noexcept;

class OwnBell {
 public:
  // Throws std::system_error.
  explicit OwnBell(const std::string& directory);
  ~OwnBell();
  OwnBell(const OwnBell&) = delete;
  OwnBell& operator=(const OwnBell&) = delete;

  int fd() const noexcept { return fd_.get(); }
  std::uint32_t number() const noexcept { return number_; }
  const std::string& path() const noexcept { return path_; }
  void drain() noexcept;
  void ring() noexcept;

 private:
  std::uint32_t number_;
  std::string path_;
  os::Fd fd_;
};

}  // namespace nanet::fabric
