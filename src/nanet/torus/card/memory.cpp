// SPDX-License-Identifier: Apache-2.0
#include "nanet/torus/card/memory.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "nanet/contract/atomic.hpp"

namespace nanet::torus::card {

using contract::acquire;
using contract::relaxed;
using contract::release;

Mapping::Mapping(int fd, std::size_t bytes) : bytes_(bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map a file of the torus");
  at_ = static_cast<std::byte*>(at);
}
Mapping::~Mapping() {
  if (at_ != nullptr) munmap(at_, bytes_);
}
Mapping::Mapping(Mapping&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Process::Process(std::uint32_t pid) noexcept
    : pid_(static_cast<pid_t>(pid)), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  gone_ = !fd_ && errno == ESRCH;
}

bool Process::ended() const noexcept {
  if (gone_) return true;
  if (!fd_) return kill(pid_, 0) != 0 && errno == ESRCH;  // kernels before 5.3
  pollfd p{fd_.get(), POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

void wake(std::uint32_t& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_on(std::uint32_t& word, std::uint32_t value, unsigned milliseconds) noexcept {
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

PortMemory::PortMemory(std::byte* begin, const Shape& shape) : at(begin) {
  const Offsets o(shape);
  header = reinterpret_cast<PortHeader*>(at);
  ring = reinterpret_cast<PutDescriptor*>(at + o.ring);
  table = reinterpret_cast<RegisteredBuffer*>(at + o.table);
  places = reinterpret_cast<std::uint64_t*>(at + o.places);
  credits = reinterpret_cast<std::uint32_t*>(at + o.credits);
  keys = reinterpret_cast<KeyEntry*>(at + o.keys);
  answers = reinterpret_cast<KeyEntry*>(at + o.answers);
  slots = at + o.slots;
  staging = at + o.staging;
  view.shape.events = shape.events;
  view.queue = reinterpret_cast<contract::Event*>(at + o.events);
  view.finished = &header->finished;
}

bool DomainMemory::entry(std::uint64_t address, std::uint64_t bytes, RegisteredBuffer& found,
                         std::uint64_t& place) noexcept {
  const std::uint32_t used = std::min(acquire(memory_.header->table_used), table_entries);
  for (std::uint32_t k = 0; k < used; ++k) {
    const std::uint32_t i = (last_ + k) % used;
    const RegisteredBuffer& entry = memory_.table[i];
    if (acquire(entry.valid) == 0) continue;
    found.address = acquire(entry.address);
    found.bytes = acquire(entry.bytes);
    found.rights = acquire(entry.rights);
    if (!found.holds(address, bytes)) continue;
    const std::uint64_t process = acquire(memory_.places[i]);
    // Addresses of entries are not used twice: an unchanged address proves that all fields belong together.
    if (relaxed(entry.valid) == 0 || relaxed(entry.address) != found.address) continue;
    last_ = i;
    place = process == 0 ? 0 : process + (address - found.address);
    return true;
  }
  return false;
}

Nack DomainMemory::find(std::uint64_t address, std::uint64_t bytes, std::uint8_t rights,
                        std::uint64_t& place) noexcept {
  RegisteredBuffer found;
  if (!entry(address, bytes, found, place)) return Nack::out_of_range;
  return (found.rights & rights) == rights ? Nack::none : Nack::no_right;
}

std::byte* DomainMemory::in_file(std::uint64_t address, std::size_t bytes) const noexcept {
  const std::uint64_t offset = address - file_window;
  return address >= file_window && offset <= file_bytes_ && bytes <= file_bytes_ - offset
             ? memory_.at + offset
             : nullptr;
}

bool DomainMemory::read(std::uint64_t address, std::uint64_t place, std::byte* to,
                        std::size_t bytes) const noexcept {
  if (bytes == 0) return true;
  if (place == 0) {
    const std::byte* const from = in_file(address, bytes);
    if (from == nullptr) return false;
    std::memcpy(to, from, bytes);
    return true;
  }
  iovec local{to, bytes}, remote{reinterpret_cast<void*>(place), bytes};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool DomainMemory::write(std::uint64_t address, std::uint64_t place, const std::byte* from,
                         std::size_t bytes) const noexcept {
  if (bytes == 0) return true;
  if (place == 0) {
    std::byte* const to = in_file(address, bytes);
    if (to == nullptr) return false;
    if (std::uint32_t word = 0; bytes == sizeof word && address % sizeof word == 0) {  // read while written
      std::memcpy(&word, from, sizeof word);
      release(*reinterpret_cast<std::uint32_t*>(to), word);
    } else {
      std::memcpy(to, from, bytes);
    }
    return true;
  }
  iovec local{const_cast<std::byte*>(from), bytes}, remote{reinterpret_cast<void*>(place), bytes};
  return process_vm_writev(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace nanet::torus::card
