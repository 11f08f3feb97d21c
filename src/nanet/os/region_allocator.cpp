// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/region_allocator.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
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

// NUMA placement of threads that populate for another one: on its node, like its own pages.
class Placement {
 public:
  Placement() noexcept {
    unsigned node = 0;
    int policy = 0;
    if (access("/sys/devices/system/node/node1", F_OK) != 0) {
      apply_ = false;  // one node
    } else if (syscall(SYS_getcpu, nullptr, &node, nullptr) == 0 && node < 8 * sizeof nodes_ &&
               syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0) {
      apply_ = policy == MPOL_DEFAULT;  // other policies are inherited
      nodes_ = 1ul << node;
    } else {
      possible_ = false;
    }
  }
  // For the calling thread. Returns false if it would place pages elsewhere.
  bool apply() const noexcept {
    return possible_ &&
           (!apply_ || syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes_, 8 * sizeof nodes_ + 1) == 0);
  }

 private:
  bool possible_ = true, apply_ = true;
  unsigned long nodes_ = 0;
};

// Applies `work` to the pieces of a region on several CPUs. The kernel clears a page in each call, and a
// hypervisor may have to supply it: gigabytes of buffers take seconds on one CPU.
template <class Work>
void for_pieces(std::byte* region, std::size_t bytes, const Work& work) noexcept {
  constexpr std::size_t piece = 32 * huge_page, most = 16;
  std::atomic<std::size_t> next{0};
  const auto share = [&] {
    for (std::size_t from = 0; (from = next.fetch_add(piece)) < bytes;)
      work(region + from, std::min(piece, bytes - from));
  };
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  const std::size_t threads =
      std::min({known ? static_cast<std::size_t>(CPU_COUNT(&cpus)) : 1, bytes / piece, most});
  const Placement placement;
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < threads; ++i)
      helpers.emplace_back([&] {
        if (placement.apply()) share();
      });
  } catch (const std::exception&) {  // no further threads: the caller does the rest
  }
  share();
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
    for_pieces(region, bytes, populate);
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
    for_pieces(region, bytes, [](std::byte* at, std::size_t size) noexcept {
      for (std::size_t i = 0; i < size; i += huge_page) at[i] = std::byte{0};
      madvise(at, size, collapse);
      populate(at, size);
    });
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
