// SPDX-License-Identifier: Apache-2.0
#include "nanet/trigger/tap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;

// The shared memory, and both ends of it.
struct Shared {
  Shared() { EXPECT_EQ(ftruncate(fd, static_cast<off_t>(EventTap::bytes())), 0); }
  ~Shared() { close(fd); }
  int fd = memfd_create("tap", MFD_CLOEXEC);
};

ShownEvent event_of(std::uint64_t n) {
  ShownEvent e;
  e.n = n;
  e.hits = static_cast<std::uint16_t>(n % max_event_hits);
  e.pm.fill(static_cast<PmId>(n % pm_count));
  return e;
}

TEST(EventTap, GivesWhatIsAskedForAndNoMore) {
  const Shared shared;
  EventTap worker(shared.fd), reader(shared.fd);
  EXPECT_FALSE(worker.wanted());
  reader.ask(2);
  std::uint64_t n = 0;
  for (; worker.wanted(); ++n) worker.give(event_of(n));
  EXPECT_EQ(n, 2u);
  auto events = reader.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].serial, 1u);
  EXPECT_EQ(events[1].n, 1u);
  EXPECT_EQ(events[1].pm, event_of(1).pm);
  EXPECT_TRUE(reader.take().empty());
  reader.ask(1'000'000);
  for (; worker.wanted(); ++n) worker.give(event_of(n));
  EXPECT_EQ(n, 2u + EventTap::slots / 2);
  EXPECT_EQ(reader.take().size(), EventTap::slots / 2);
}

TEST(EventTap, LeavesOutWhatWasOverwritten) {
  const Shared shared;
  EventTap worker(shared.fd), reader(shared.fd);
  for (std::uint64_t n = 0; n < EventTap::slots + 10; ++n) worker.give(event_of(n));
  const auto events = reader.take();
  ASSERT_EQ(events.size(), EventTap::slots);
  EXPECT_EQ(events.front().n, 10u);
  EXPECT_EQ(events.back().n, EventTap::slots + 9u);
}

TEST(EventTap, NeverShowsHalfAnEvent) {
  const Shared shared;
  EventTap reader(shared.fd);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;
  for (std::uint64_t w = 0; w < 2; ++w)
    workers.emplace_back([&, w] {
      EventTap worker(shared.fd);
      for (std::uint64_t n = w; !stop; n += 2) worker.give(event_of(n));
    });
  std::size_t seen = 0;
  std::uint64_t newest = 0;
  for (int round = 0; round < 20'000 && seen < 2000; ++round) {
    for (const ShownEvent& e : reader.take()) {
      EXPECT_GT(e.serial, newest);
      newest = e.serial;
      EXPECT_EQ(e.pm, event_of(e.n).pm);
      EXPECT_EQ(e.hits, event_of(e.n).hits);
      ++seen;
    }
    std::this_thread::yield();
  }
  stop = true;
  EXPECT_GT(seen, 0u);
}

TEST(EventTap, ShowsHitsWithTheirTimes) {
  const Shared shared;
  EventTap worker(shared.fd), reader(shared.fd);
  ProcessOptions process;
  process.tap = &worker;
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  const auto run = [&](const card::ClopOptions& options, Frame frame) {
    Chain chain(options, *algorithm, 1, process);
    for (unsigned board = 0; board < 2; ++board) {
      chain.packet(mgp_marker(flag::sob, board, 0, 0));
      const auto pm = 512 * board;
      // Another event, too late for this one, names the same PM.
      chain.packet(mgp_packet(board, frame, 1,
                              {{static_cast<std::uint16_t>(5000 + 10 * board), {{pm + 7, 8}, {pm + 9, -4}}},
                               {static_cast<std::uint16_t>(5100 + 10 * board), {{pm + 7, 0}}}},
                              flag::last));
    }
    chain.drain();
  };
  const auto frames = Physics::sample_every;  // the first sampled frame after the one with the markers
  run(Chain::options(0x3), frames);
  EXPECT_TRUE(reader.take().empty());  // nobody had asked
  reader.ask(8);
  run(Chain::options(0x3), frames);
  const auto events = reader.take();
  ASSERT_EQ(events.size(), 1u);
  const ShownEvent& e = events[0];
  EXPECT_EQ(e.frame, frames);
  // Either of the two events, by turns.
  const std::vector<int> expected =
      e.hits == 4 ? std::vector<int>{5008, 4996, 5018, 5006} : std::vector<int>{5100, 5110};
  ASSERT_EQ(e.hits, expected.size());
  for (unsigned i = 0; i < e.hits; ++i)
    EXPECT_EQ(static_cast<int>(e.time % lsb_per_frame) + e.late[i], expected[i]) << i;
}

TEST(EventTap, TimesOfAnyBytes) {
  std::vector<std::byte> bytes(512);
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    wire::mgp::store<std::uint16_t>(bytes.data() + 4, static_cast<std::uint16_t>(random() % 600));
    ShownEvent e = event_of(random());
    const Segment segment{bytes.data(), bytes.size()};
    e.set_times({&segment, 1}, static_cast<std::uint16_t>(random()), 30'000);
    for (unsigned i = e.hits; i < e.late.size(); ++i) ASSERT_EQ(e.late[i], ShownEvent::unknown);
  }
}

}  // namespace
}  // namespace nanet::trigger
