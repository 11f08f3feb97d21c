// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/region_allocator.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

namespace nanet::os {
namespace {

constexpr std::size_t small_page = 4096, huge_page = std::size_t{2} << 20;
constexpr int collapse = 25;  // MADV_COLLAPSE of Linux 6.1: makes huge pages at once

[[noreturn]] void no_memory(std::size_t bytes) {
  throw std::system_error(
      errno, std::generic_category(),
      "cannot map " + std::to_string(bytes >> 20) + " MiB of buffers; take fewer with --buffers");
}

// Populates every page: a page fault on the packet path would cost more than its processing.
void populate(std::byte* at, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t i = 0; i < bytes; i += small_page) at[i] = std::byte{0};
}

// Regions that stay mapped when they are freed.
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

class HostAllocator final : public RegionAllocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) no_memory(bytes);
    auto* const region = static_cast<std::byte*>(at);
    madvise(region, bytes, MADV_HUGEPAGE);  // fewer TLB misses where the host allows it
    populate(region, bytes);
    return region;
  }
  void free(std::byte* at, std::size_t bytes) noexcept override { unmap(at, bytes); }
};

// Maps the file at an address that is probably free in other processes: random, below the range that the
// kernel chooses from, aligned to huge pages. Falls back to an address chosen by the kernel.
std::byte* map_anywhere(int fd, std::size_t bytes) noexcept {
  constexpr std::uintptr_t low = 0x7E90'0000'0000, slots = std::uintptr_t{0x50'0000'0000} / huge_page;
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::uint32_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) break;
    void* const address = reinterpret_cast<void*>(low + random % slots * huge_page);
    void* const found = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (found == address) return static_cast<std::byte*>(found);
    if (found != MAP_FAILED) munmap(found, bytes);
  }
  void* const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return found == MAP_FAILED ? nullptr : static_cast<std::byte*>(found);
}

class SharedAllocator final : public RegionAllocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    const int fd = memfd_create("nanet", MFD_CLOEXEC);
    if (fd < 0) no_memory(bytes);
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      close(fd);
      no_memory(bytes);
    }
    std::byte* const region = map_anywhere(fd, bytes);
    if (!region) {
      const int why = errno;
      close(fd);
      errno = why;
      no_memory(bytes);
    }
    madvise(region, bytes, MADV_HUGEPAGE);
    // By default the host may exclude shared memory from huge pages; MADV_COLLAPSE makes them. Touching one
    // small page in each keeps the copy small.
    for (std::size_t i = 0; i < bytes; i += huge_page) region[i] = std::byte{0};
    madvise(region, bytes, collapse);
    populate(region, bytes);
    const std::lock_guard lock(mutex_);
    fd_[region] = fd;
    return region;
  }
  void free(std::byte* at, std::size_t bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = fd_.find(at); it != fd_.end()) {
        close(it->second);
        fd_.erase(it);
      }
    }
    unmap(at, bytes);
  }
  int shared_fd(const std::byte* at) const noexcept override {
    const std::lock_guard lock(mutex_);
    const auto it = fd_.find(at);
    return it == fd_.end() ? -1 : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, int> fd_;
};

}  // namespace

RegionAllocator& host_allocator() noexcept {
  static HostAllocator allocator;
  return allocator;
}

RegionAllocator& shared_allocator() noexcept {
  static SharedAllocator allocator;
  return allocator;
}

void map_shared(int fd, std::byte* at, std::size_t bytes) {
  void* const found =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_POPULATE, fd, 0);
  if (found == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map the memory of another process");
  if (found == at) return;  // kernels older than 4.17 treat the address as a hint
  munmap(found, bytes);
  throw std::system_error(EEXIST, std::generic_category(),
                          "the addresses of the other process are in use here");
}

void keep_addresses(const std::byte* at) noexcept {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  k.at.push_back(at);
}

}  // namespace nanet::os
