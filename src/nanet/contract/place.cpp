// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/place.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

namespace nanet::contract {
namespace {

constexpr std::size_t small_page = 4096, huge_page = std::size_t{2} << 20;
constexpr int collapse = 25;  // MADV_COLLAPSE of Linux 6.1: huge pages now, of what is there

[[noreturn]] void no_memory(std::size_t bytes) {
  throw std::system_error(
      errno, std::generic_category(),
      "cannot map " + std::to_string(bytes >> 20) + " MiB of buffers; take fewer with --buffers");
}

// Every page is there before the first packet: a fault on its path would cost more than all its processing.
void populate(std::byte* at, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t i = 0; i < bytes; i += small_page) at[i] = std::byte{0};
}

// Addresses that are not given back.
struct Kept {
  std::mutex mutex;
  std::vector<const std::byte*> at;
};
Kept& kept() noexcept {
  static Kept k;
  return k;
}

void unmap(std::byte* at, std::size_t bytes) noexcept {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  if (std::find(k.at.begin(), k.at.end(), at) == k.at.end()) munmap(at, bytes);
}

class HostPlace final : public Place {
 public:
  std::byte* take(std::size_t bytes) override {
    void* at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) no_memory(bytes);
    auto* const region = static_cast<std::byte*>(at);
    madvise(region, bytes, MADV_HUGEPAGE);  // fewer TLB misses where the host allows it
    populate(region, bytes);
    return region;
  }
  void give_back(std::byte* at, std::size_t bytes) noexcept override { unmap(at, bytes); }
};

class SharedPlace final : public Place {
 public:
  std::byte* take(std::size_t bytes) override {
    const int fd = memfd_create("nanet", MFD_CLOEXEC);
    if (fd < 0) no_memory(bytes);
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      close(fd);
      no_memory(bytes);
    }
    // On a boundary of huge pages, so that such can be made of it.
    void* const room = mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
      close(fd);
      no_memory(bytes);
    }
    auto* const low = static_cast<std::byte*>(room);
    auto* const region = low + (huge_page - reinterpret_cast<std::uintptr_t>(room) % huge_page) % huge_page;
    if (mmap(region, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
      const int why = errno;
      munmap(room, bytes + huge_page);
      close(fd);
      errno = why;
      no_memory(bytes);
    }
    if (region != low) munmap(low, static_cast<std::size_t>(region - low));
    std::byte* const end = region + (bytes + small_page - 1) / small_page * small_page;
    if (const auto rest = static_cast<std::size_t>(low + bytes + huge_page - end)) munmap(end, rest);
    madvise(region, bytes, MADV_HUGEPAGE);
    populate(region, bytes);
    madvise(region, bytes, collapse);  // also where huge pages are not given to shared memory unasked
    const std::lock_guard lock(mutex_);
    fd_[region] = fd;
    return region;
  }
  void give_back(std::byte* at, std::size_t bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = fd_.find(at); it != fd_.end()) {
        close(it->second);
        fd_.erase(it);
      }
    }
    unmap(at, bytes);
  }
  int shared(const std::byte* at) const noexcept override {
    const std::lock_guard lock(mutex_);
    const auto it = fd_.find(at);
    return it == fd_.end() ? -1 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, int> fd_;
};

}  // namespace

Place& host_place() noexcept {
  static HostPlace place;
  return place;
}

Place& shared_place() noexcept {
  static SharedPlace place;
  return place;
}

void map_shared(int fd, std::byte* at, std::size_t bytes) {
  void* const found =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_POPULATE, fd, 0);
  if (found == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map the memory of another process");
  if (found == at) return;  // a kernel older than 4.17 takes the address for a wish
  munmap(found, bytes);
  throw std::system_error(EEXIST, std::generic_category(), "the addresses of another process are taken here");
}

void keep_addresses(const std::byte* at) noexcept {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  k.at.push_back(at);
}

}  // namespace nanet::contract
