// SPDX-License-Identifier: Apache-2.0
// Tests of the region allocators: sharing with another process, and regions that stay mapped.
#include "nanet/os/region_allocator.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>

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

TEST(RegionAllocator, KeptAddressesStayMapped) {
  std::byte* const at = shared_allocator().allocate(8192);
  keep_addresses(at);
  shared_allocator().free(at, 8192);
  at[8191] = std::byte{1};  // still mapped
  EXPECT_EQ(shared_allocator().shared_fd(at), -1);
}

}  // namespace
}  // namespace nanet::os
