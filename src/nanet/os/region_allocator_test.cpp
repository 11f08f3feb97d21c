// SPDX-License-Identifier: Apache-2.0
// Tests of the region allocators: sharing with another process, and regions that stay mapped.
#include "nanet/os/region_allocator.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

namespace nanet::os {
namespace {

TEST(RegionAllocator, AnotherProcessReadsSharedRegionsOnly) {
  constexpr std::size_t bytes = 8192;
  std::byte* const own = host_allocator().allocate(bytes);
  std::byte* const region = shared_allocator().allocate(bytes);
  EXPECT_EQ(host_allocator().shared_fd(own), -1);
  EXPECT_EQ(shared_allocator().shared_fd(own), -1);
  const int fd = shared_allocator().shared_fd(region);
  ASSERT_GE(fd, 0);
  const std::uint32_t written = 77;
  std::memcpy(region + 5000, &written, sizeof written);
  std::uint32_t read = 0;
  ASSERT_EQ(pread(fd, &read, sizeof read, 5000), static_cast<ssize_t>(sizeof read));
  EXPECT_EQ(read, written);
  EXPECT_THROW(map_shared(fd, region, bytes), std::system_error);  // in use in this process
  shared_allocator().free(region, bytes);
  host_allocator().free(own, bytes);
}

// Several threads populate a large region: every page of every piece, the short last one included.
TEST(RegionAllocator, EveryPageIsThereAndZero) {
  constexpr std::size_t bytes = (std::size_t{200} << 20) + 3 * 4096;
  for (RegionAllocator* of : {&host_allocator(), &shared_allocator()}) {
    std::byte* const at = of->allocate(bytes);
    std::vector<unsigned char> resident(bytes / 4096);
    ASSERT_EQ(mincore(at, bytes, resident.data()), 0);
    std::size_t missing = 0, dirty = 0;
    for (std::size_t page = 0; page < resident.size(); ++page) {
      missing += (resident[page] & 1) == 0;
      dirty += at[page * 4096] != std::byte{0} || at[page * 4096 + 4095] != std::byte{0};
    }
    EXPECT_EQ(missing, 0u);
    EXPECT_EQ(dirty, 0u);
    of->free(at, bytes);
  }
}

TEST(RegionAllocator, KeptAddressesStayMapped) {
  std::byte* const at = shared_allocator().allocate(8192);
  keep_addresses(at);
  shared_allocator().free(at, 8192);
  at[8191] = std::byte{1};  // still mapped
  EXPECT_EQ(shared_allocator().shared_fd(at), -1);
}

}  // namespace
}  // namespace nanet::os
