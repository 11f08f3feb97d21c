// SPDX-License-Identifier: Apache-2.0
// Runs everywhere: a build with CUDA must also start on a machine without GPU and driver.
#include "nanet/gpu/device.hpp"

#include <gtest/gtest.h>

namespace nanet::gpu {
namespace {

TEST(Devices, EitherADeviceOrAReason) {
  const Devices all = devices();
  EXPECT_NE(all.found.empty(), all.trouble.empty()) << all.trouble;
  for (std::size_t i = 0; i < all.found.size(); ++i) {
    EXPECT_EQ(all.found[i].number, static_cast<int>(i));
    EXPECT_FALSE(all.found[i].name.empty());
    EXPECT_GT(all.found[i].multiprocessors, 0);
    EXPECT_GT(all.found[i].memory_bytes, 1u << 28);
  }
}

}  // namespace
}  // namespace nanet::gpu
