// SPDX-License-Identifier: Apache-2.0
// Tests of the hit times of event samples: repeated PMs and samples on request.
#include "nanet/trigger/build/hit_times.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

namespace flag = wire::mgp::flag;
using stats::EventSample;
using stats::SharedEventRing;

TEST(HitTimes, OfAPublishedSample) {
  const int fd = memfd_create("events", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(SharedEventRing::bytes())), 0);
  SharedEventRing worker(fd), reader(fd);
  close(fd);
  ProcessOptions process;
  process.event_ring = &worker;
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  const auto run = [&](const card::ClopOptions& options, Frame frame) {
    Chain chain(options, *algorithm, 1, process);
    for (unsigned board = 0; board < 2; ++board) {
      chain.packet(mgp_marker(flag::sob, board, 0, 0));
      const auto pm = 512 * board;
      // A later event outside the window contains the same PM.
      chain.packet(mgp_packet(board, frame, 1,
                              {{static_cast<std::uint16_t>(5000 + 10 * board), {{pm + 7, 8}, {pm + 9, -4}}},
                               {static_cast<std::uint16_t>(5100 + 10 * board), {{pm + 7, 0}}}},
                              flag::last));
    }
    chain.drain();
  };
  const auto frames = Physics::sample_every;  // the first sampled frame after the one with the markers
  run(Chain::options(0x3), frames);
  EXPECT_TRUE(reader.take().empty());  // no sample was requested
  reader.request(8);
  run(Chain::options(0x3), frames);
  const auto events = reader.take();
  ASSERT_EQ(events.size(), 1u);
  const EventSample& e = events[0];
  EXPECT_EQ(e.frame, frames);
  // The two events alternate.
  const std::vector<int> expected =
      e.hits == 4 ? std::vector<int>{5008, 4996, 5018, 5006} : std::vector<int>{5100, 5110};
  ASSERT_EQ(e.hits, expected.size());
  for (unsigned i = 0; i < e.hits; ++i)
    EXPECT_EQ(static_cast<int>(e.time % lsb_per_frame) + e.late[i], expected[i]) << i;
}

TEST(HitTimes, AnyBytesAreSafe) {
  std::vector<std::byte> bytes(512);
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    wire::mgp::store<std::uint16_t>(bytes.data() + 4, static_cast<std::uint16_t>(random() % 600));
    EventSample e;
    const auto seed = random();
    e.hits = static_cast<std::uint16_t>(seed % max_event_hits);
    std::fill_n(e.pm, max_event_hits, static_cast<PmId>(seed % pm_count));
    const Segment segment{bytes.data(), bytes.size()};
    set_hit_times(e, {&segment, 1}, static_cast<std::uint16_t>(random()), 30'000);
    for (unsigned i = e.hits; i < max_event_hits; ++i) ASSERT_EQ(e.late[i], EventSample::no_time);
  }
}

}  // namespace
}  // namespace nanet::trigger
