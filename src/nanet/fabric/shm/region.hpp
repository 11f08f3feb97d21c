// SPDX-License-Identifier: Apache-2.0
// Mapped file of a port. The owner locks it, so that peers find out about its death.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "nanet/fabric/packet.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::fabric::shm {

class Mapping {
 public:
  Mapping() = default;
  // Shared mapping. Throws std::system_error.
  Mapping(int fd, std::size_t offset, std::size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* at() const noexcept { return at_; }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

// File of a port of this process, mapped whole. Removed with the object.
struct OwnRegion {
  std::string path;
  os::Fd fd;
  Mapping mapping;
  Address address;

  ~OwnRegion() { retire(); }
  // Removes the file's name. Peers that have it open keep it.
  void retire() noexcept;
};

// Creates the file; without `wanted` at an address derived from the process number. Throws std::system_error.
std::shared_ptr<OwnRegion> create_region(const std::string& directory, const Address* wanted);
// Region of a port of this process, or nullptr.
std::shared_ptr<OwnRegion> own_region(Address address);

std::string region_path(const std::string& directory, Address address);
// False if no process holds the lock of the file. fd: not opened by the owner.
bool locked(int fd) noexcept;

}  // namespace nanet::fabric::shm
