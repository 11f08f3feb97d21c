// SPDX-License-Identifier: Apache-2.0
// Tests of the event sample rings.
#include "nanet/stats/event_sample.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace nanet::stats {
namespace {

// Shared memory of a ring.
struct Shared {
  Shared() { EXPECT_EQ(ftruncate(fd, static_cast<off_t>(SharedEventRing::bytes())), 0); }
  ~Shared() { close(fd); }
  int fd = memfd_create("events", MFD_CLOEXEC);
};

EventSample event_of(std::uint64_t n) {
  EventSample e;
  e.n = n;
  e.hits = static_cast<std::uint16_t>(n % max_event_hits);
  std::fill_n(e.pm, max_event_hits, static_cast<PmId>(n % pm_count));
  return e;
}

TEST(SharedEventRing, PublishesNoMoreThanRequested) {
  const Shared shared;
  SharedEventRing worker(shared.fd), reader(shared.fd);
  EXPECT_FALSE(worker.requested());
  reader.request(2);
  std::uint64_t n = 0;
  for (; worker.requested(); ++n) worker.publish(event_of(n));
  EXPECT_EQ(n, 2u);
  auto events = reader.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].serial, 1u);
  EXPECT_EQ(events[1].n, 1u);
  EXPECT_TRUE(std::ranges::equal(events[1].pm, event_of(1).pm));
  EXPECT_TRUE(reader.take().empty());
  reader.request(1'000'000);
  for (; worker.requested(); ++n) worker.publish(event_of(n));
  EXPECT_EQ(n, 2u + SharedEventRing::slots / 2);
  EXPECT_EQ(reader.take().size(), SharedEventRing::slots / 2);
}

TEST(SharedEventRing, OmitsOverwrittenSamples) {
  const Shared shared;
  SharedEventRing worker(shared.fd), reader(shared.fd);
  for (std::uint64_t n = 0; n < SharedEventRing::slots + 10; ++n) worker.publish(event_of(n));
  const auto events = reader.take();
  ASSERT_EQ(events.size(), SharedEventRing::slots);
  EXPECT_EQ(events.front().n, 10u);
  EXPECT_EQ(events.back().n, SharedEventRing::slots + 9u);
}

TEST(SharedEventRing, ReadsWholeSamplesOnly) {
  const Shared shared;
  SharedEventRing reader(shared.fd);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;
  for (std::uint64_t w = 0; w < 2; ++w)
    workers.emplace_back([&, w] {
      SharedEventRing worker(shared.fd);
      for (std::uint64_t n = w; !stop; n += 2) worker.publish(event_of(n));
    });
  std::size_t seen = 0;
  std::uint64_t newest = 0;
  for (int round = 0; round < 20'000 && seen < 2000; ++round) {
    for (const EventSample& e : reader.take()) {
      EXPECT_GT(e.serial, newest);
      newest = e.serial;
      EXPECT_TRUE(std::ranges::equal(e.pm, event_of(e.n).pm));
      EXPECT_EQ(e.hits, event_of(e.n).hits);
      ++seen;
    }
    std::this_thread::yield();
  }
  stop = true;
  EXPECT_GT(seen, 0u);
}

TEST(EventRing, KeepsTheNewestSamples) {
  EventRing ring;
  EXPECT_TRUE(ring.events().empty());
  for (std::uint64_t n = 0; n < EventRing::slots + 3; ++n) ring.push(event_of(n));
  const auto events = ring.events();
  ASSERT_EQ(events.size(), EventRing::slots);
  EXPECT_EQ(events.front().n, 3u);
  EXPECT_EQ(events.back().n, EventRing::slots + 2u);
}

}  // namespace
}  // namespace nanet::stats
