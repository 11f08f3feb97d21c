// SPDX-License-Identifier: Apache-2.0
// Tests of the spinning loop: runs and their record.
#include "nanet/bench/stops.hpp"

#include <gtest/gtest.h>

#include "nanet/os/clock.hpp"

namespace nanet::bench {
namespace {

TEST(StopProbe, RecordsUntilStopped) {
  StopProbe probe;
  for (int run = 0; run < 2; ++run) {
    const Nanoseconds began = os::monotonic_now(), before = probe.record().elapsed();
    probe.start();
    while (os::monotonic_now() - began < 5'000'000) {
    }
    probe.stop();
    EXPECT_GT(probe.record().elapsed(), before);
    EXPECT_LE(probe.record().elapsed() - before, os::monotonic_now() - began);
  }
  EXPECT_LE(probe.record().listed().size(), probe.record().above(0).count);
}

}  // namespace
}  // namespace nanet::bench
