// SPDX-License-Identifier: Apache-2.0
// Merged frames in a thread block, run on the CPU thread by thread, against the CPU's frame processor: equal
// packets, counts and samples, from the CLOP and from the mailbox, for any rows and hits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "nanet/gpu/frame/both_test.hpp"
#include "nanet/os/sanitizer_test.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/multiring.hpp"
#include "nanet/rich/tripl.hpp"

namespace nanet::gpu {
namespace {

using contract::FrameHeader;
using contract::MergedRow;

template <class A>
class MergedFrames {
 public:
  explicit MergedFrames(unsigned seed, unsigned boards = 4,
                        const rich::Geometry& geometry = rich::Geometry::make())
      : random(seed),
        both(contract::Gather::frame, boards, 1, boards == 4 ? 8192u : 24576u, shared_fragments, geometry),
        boards_(boards) {}

  // Writes a frame and merges it. sorted: PM IDs of a fragment ascend, as from a board. most: fragments of a
  // board. Returns whether the buffer is merged.
  bool fill(bool sorted, unsigned most, std::int32_t window = trigger::default_window_lsb) {
    std::memset(both.buffer(), 0, both.shape().buffer_bytes());
    frame = static_cast<Frame>(random() % 1000);
    const auto around = static_cast<unsigned>(random() % 60'000);
    for (unsigned b = 0; b < boards_; ++b) {
      auto events = trigger::random_events(random, b, most);
      for (trigger::TestEvent& e : events) {
        if (random() % 2) e.time = static_cast<std::uint16_t>(around + random() % 2000);
        if (!sorted) continue;
        std::set<unsigned> pms;
        for (const trigger::TestHit& hit : e.hits) pms.insert(hit.pm);
        e.hits.resize(pms.size());
        auto hit = e.hits.begin();
        for (const unsigned pm : pms) (hit++)->pm = pm;
      }
      std::ranges::stable_sort(events, {}, &trigger::TestEvent::time);
      both.place(b, trigger::mgp_packet(b, frame, 7, events));
    }
    window_ = window;
    return both.merge(window);
  }
  void compare(bool with_conditions) {
    trigger::ProcessOptions options;
    options.window_lsb = window_;
    options.decision.min_hits = static_cast<std::uint32_t>(random() % 6);
    if (random() % 4 == 1) options.downscale.factor = {2, 1 + static_cast<std::uint32_t>(random() % 9), 0, 5};
    trigger::ConditionsStore store(
        std::make_shared<trigger::Conditions>(random_conditions(random, random() % 2 ? 0 : 40)));
    if (with_conditions) options.conditions = &store;
    both.compare(random() % 2 ? contract::event_flag::complete : 0, frame, options);
  }
  MergedRow row(std::uint32_t e) {
    MergedRow r;
    std::memcpy(&r, row_at(e), sizeof r);
    return r;
  }
  void set_row(std::uint32_t e, const MergedRow& r) { std::memcpy(row_at(e), &r, sizeof r); }
  std::byte* row_at(std::uint32_t e) { return both.buffer() + sizeof(FrameHeader) + sizeof(MergedRow) * e; }

  std::mt19937 random;
  Both<A, true> both;
  Frame frame = 0;

 private:
  unsigned boards_;
  std::int32_t window_ = 0;
};

TEST(MergedFrame, RowsOfAnyNumberOfBoards) {
  for (const unsigned boards : {1u, 2u, 4u}) {
    MergedFrames<rich::Math> frames(40 + boards, boards);
    std::uint64_t merged = 0;
    for (unsigned round = 0; round < test_rounds(400u); ++round) {
      const bool sorted = round % 4 != 3;
      merged += frames.fill(sorted, round % 8 == 7 ? 120 : 40, round % 5 == 4 ? 255 : 41);
      frames.compare(round % 3 == 2);
      ASSERT_FALSE(testing::Test::HasFailure()) << boards << " boards, round " << round;
    }
    EXPECT_GT(merged, test_rounds(350u)) << boards;
    EXPECT_GT(frames.both.by_rows, test_rounds(150u));
    EXPECT_GT(frames.both.rows, test_rounds(5000u));  // from merged frames, not from segments
    EXPECT_GT(frames.both.timed, frames.both.hits / 2);
    EXPECT_GT(frames.both.masked, test_rounds(100u));
    EXPECT_GT(frames.both.downscaled, test_rounds(100u));
    EXPECT_TRUE(!contract::has_mailbox || frames.both.by_lines > test_rounds(100u));
  }
}

TEST(MergedFrame, SegmentsOfAMergingCard) {
  MergedFrames<rich::Math> frames(44);
  for (unsigned round = 0; round < 60; ++round) {
    frames.fill(round % 2, 30);
    // Fragments in another order: the card leaves segments.
    frames.both.header() = {};
    std::memset(frames.both.buffer(), 0, frames.both.shape().buffer_bytes());
    for (unsigned b = 0; b < 4; ++b)
      frames.both.place(
          b, trigger::mgp_packet(b, frames.frame, 7, trigger::random_events(frames.random, b, 30)));
    if (frames.both.merge(trigger::default_window_lsb)) continue;
    frames.compare(round % 3 == 2);
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(frames.both.events, 1000u);
  EXPECT_EQ(frames.both.rows, 0u);
}

TEST(MergedFrame, TheLargestFrames) {
  MergedFrames<rich::Math> frames(45);
  for (const unsigned hits : {0u, 8u, 32u}) {
    // As many events as rows, and as many hits as there is room for.
    std::memset(frames.both.buffer(), 0, frames.both.shape().buffer_bytes());
    const unsigned events = hits == 32 ? 256 : 512;
    for (unsigned p = 0; p < 4; ++p) {
      std::vector<trigger::TestEvent> part(events / 4);
      for (unsigned i = 0; i < part.size(); ++i) {
        part[i].time = static_cast<std::uint16_t>(100 * (p * part.size() + i));
        for (unsigned h = 0; h < hits; ++h) part[i].hits.push_back({512 * p + 11 * h + i % 7, 4});
      }
      frames.both.place(p, trigger::mgp_packet(p, 1, 1, part));
    }
    ASSERT_TRUE(frames.both.merge(trigger::default_window_lsb)) << hits;
    EXPECT_EQ(frames.both.header().hits, hits * events);
    trigger::ProcessOptions options;
    options.decision.min_hits = 0;
    frames.both.compare(contract::event_flag::complete, 1, options);
    ASSERT_FALSE(testing::Test::HasFailure()) << hits;
  }
  EXPECT_EQ(frames.both.by_lines > 0, contract::has_mailbox);
}

TEST(MergedFrame, RowsOfAnyContentGiveTheSameResults) {
  MergedFrames<rich::Math> frames(46);
  std::mt19937& random = frames.random;
  std::uint64_t rows = 0;
  for (unsigned round = 0; round < test_rounds(2000u); ++round) {
    if (!frames.fill(round % 3 != 2, 12)) continue;
    FrameHeader& header = frames.both.header();
    const std::uint32_t events = header.events;
    if (events == 0) continue;
    const auto e = static_cast<std::uint32_t>(random() % events);
    MergedRow row = frames.row(e);
    const auto noise = static_cast<unsigned>(random());
    switch (round % 12) {
      case 0:  // hits of another row, or beyond all
        row.first = static_cast<std::uint16_t>(noise % 2 ? noise : noise % (header.hits + 40u));
        break;
      case 1:  // overlaps the row before, or leaves a gap
        row.first = static_cast<std::uint16_t>(row.first + noise % 5 - 2);
        break;
      case 2:  // more hits than a fragment has, or than follow
        row.hits[noise % 4] = static_cast<std::uint8_t>(random() % (noise % 2 ? 256 : 40));
        break;
      case 3:  // a wrong sum
        row.sum = static_cast<std::int16_t>(random());
        break;
      case 4:  // times beyond the frame
        row.opened = static_cast<std::uint16_t>(65'535 - noise % 300);
        row.delay[noise % 4] = static_cast<std::uint8_t>(random());
        break;
      case 5:
        row.boards = static_cast<std::uint8_t>(noise);
        row.flags = static_cast<std::uint8_t>(noise >> 8);
        break;
      case 6:  // more rows or hits than there are
        header.events = static_cast<std::uint16_t>(noise % 2 ? noise : events + noise % 600);
        header.hits = static_cast<std::uint16_t>(noise % 3 ? random() : header.hits);
        break;
      case 7:  // fewer
        header.hits = static_cast<std::uint16_t>(noise % (header.hits + 1u));
        break;
      case 8:  // other room for rows: the hits lie elsewhere
        header.rows = static_cast<std::uint16_t>(noise % 2 ? noise : 500 + noise % 24);
        break;
      case 9:
        header.rows = static_cast<std::uint16_t>(noise % (2 * events));
        break;
      case 10:  // any bytes here and there
        for (unsigned i = 0; i < 30; ++i)
          frames.both.buffer()[sizeof header + random() % (random() % 2 ? 400 : 12'000)] =
              static_cast<std::byte>(random());
        break;
      default:  // nothing but noise behind the header
        for (std::size_t i = sizeof header; i < frames.both.shape().buffer_bytes(); ++i)
          frames.both.buffer()[i] = static_cast<std::byte>(random() % (noise % 3 ? 256 : 3));
        header.events = static_cast<std::uint16_t>(random() % 600);
        header.hits = static_cast<std::uint16_t>(random() % 9000);
    }
    if (round % 12 < 6) frames.set_row(e, row);
    frames.compare(random() % 2);
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
    rows += frames.both.rows > 0;
  }
  EXPECT_GT(rows, test_rounds(1000u));
  EXPECT_GT(frames.both.by_rows, test_rounds(100u));
  EXPECT_GT(frames.both.rows, test_rounds(10'000u));
}

TEST(MergedFrame, PositionsThatAreNoWholeNumbers) {
  rich::Geometry moved = rich::Geometry::make();
  for (rich::Point& p : moved.common) p = {p.x * 1.3f + 0.7f, p.y + 3.3f};
  MergedFrames<rich::Math> frames(47, 4, moved);
  for (unsigned round = 0; round < 60; ++round) {
    frames.fill(round % 2, 30);
    frames.compare(round % 3 == 2);
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(frames.both.rows, 1000u);
}

template <class A>
std::uint64_t frames_of(unsigned seed, unsigned most, unsigned rounds) {
  MergedFrames<A> frames(seed);
  for (unsigned round = 0; round < rounds; ++round) {
    frames.fill(round % 2, most);
    frames.compare(round % 3 == 2);
    if (testing::Test::HasFailure()) break;
  }
  return frames.both.rows;
}

TEST(MergedFrame, OtherAlgorithms) {
  EXPECT_GT(frames_of<rich::Tripl>(48, 25, 60), 400u);
  EXPECT_GT(frames_of<rich::Multiring>(49, 10, 40), 200u);
  EXPECT_GT(frames_of<Nearby<rich::Multiring>>(50, 10, 40), 200u);
}

}  // namespace
}  // namespace nanet::gpu
