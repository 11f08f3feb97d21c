// SPDX-License-Identifier: Apache-2.0
// Mapped files of a torus job, and a card's access to the memory of a port.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "nanet/os/fd.hpp"
#include "nanet/torus/card/layout.hpp"

namespace nanet::torus::card {

class Mapping {
 public:
  Mapping() = default;
  // Shared mapping of a whole file. Throws std::system_error.
  Mapping(int fd, std::size_t bytes);
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

// Watches a process of this host for its end.
class Process {
 public:
  Process() = default;
  explicit Process(std::uint32_t pid) noexcept;
  bool ended() const noexcept;

 private:
  pid_t pid_ = 0;
  os::Fd fd_;
  bool gone_ = true;
};

void wake(std::uint32_t& word) noexcept;
// Sleeps while the word has this value; at most `milliseconds`.
void sleep_on(std::uint32_t& word, std::uint32_t value, unsigned milliseconds) noexcept;

// Structures of a port in its mapped file.
struct PortMemory {
  std::byte* at = nullptr;
  PortHeader* header = nullptr;
  PutDescriptor* ring = nullptr;
  RegisteredBuffer* table = nullptr;
  std::uint64_t* places = nullptr;   // process address of each entry of the table; 0: in the file
  std::uint32_t* credits = nullptr;  // by port: packets of this one that it has taken
  KeyEntry* keys = nullptr;
  KeyEntry* answers = nullptr;  // by port: entries read from the directory of a peer
  std::byte *slots = nullptr, *staging = nullptr;
  contract::View view;  // event queue

  PortMemory() = default;
  PortMemory(std::byte* at, const Shape& shape);
};

// A card's access to addresses of a port's domain.
class DomainMemory {
 public:
  DomainMemory() = default;
  DomainMemory(const PortMemory& memory, std::uint32_t pid, std::size_t file_bytes)
      : memory_(memory), pid_(static_cast<pid_t>(pid)), file_bytes_(file_bytes) {}

  // Entry of the table that holds the range; true: `place` is the process address, or 0 for the port's file.
  bool entry(std::uint64_t address, std::uint64_t bytes, RegisteredBuffer& found,
             std::uint64_t& place) noexcept;
  // The same with these rights.
  Nack find(std::uint64_t address, std::uint64_t bytes, std::uint8_t rights, std::uint64_t& place) noexcept;
  // False: the process's memory is not accessible.
  bool read(std::uint64_t address, std::uint64_t place, std::byte* to, std::size_t bytes) const noexcept;
  bool write(std::uint64_t address, std::uint64_t place, const std::byte* from,
             std::size_t bytes) const noexcept;

 private:
  std::byte* in_file(std::uint64_t address, std::size_t bytes) const noexcept;

  PortMemory memory_;
  pid_t pid_ = 0;
  std::size_t file_bytes_ = 0;
  std::uint32_t last_ = 0;  // entry found last
};

}  // namespace nanet::torus::card
