// SPDX-License-Identifier: Apache-2.0
// Tests of frames with an index: usual frames take its path, and no index of any content changes a result.
#include "nanet/gpu/frame/fragments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "nanet/gpu/frame/both_test.hpp"
#include "nanet/os/sanitizer_test.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/multiring.hpp"
#include "nanet/rich/tripl.hpp"

namespace nanet::gpu {
namespace {

using contract::IndexEntry;

std::uint32_t below(std::mt19937& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

// Fragments of one board in order of time, PM IDs ascending; some of them near those of the other boards.
// crossed: one in so many has the PM IDs of any board; 0: none.
std::vector<trigger::TestEvent> usual_events(std::mt19937& random, unsigned own, unsigned most,
                                             const std::vector<std::uint16_t>& around, unsigned crossed) {
  std::vector<trigger::TestEvent> events(random() % (most + 1));
  for (trigger::TestEvent& e : events) {
    const unsigned board = crossed && random() % crossed == 0 ? below(random, 4) : own;
    const unsigned pms = std::min(512u, static_cast<unsigned>(pm_count) - 512 * board);
    e.time = random() % 4 ? static_cast<std::uint16_t>(around[random() % around.size()] + random() % 30)
                          : static_cast<std::uint16_t>(random());
    e.flags = random() % 10 == 0;
    std::vector<bool> is(pms);
    for (unsigned i = below(random, random() % 3 ? 8 : 33); i > 0; --i) is[random() % pms] = true;
    for (unsigned pm = 0; pm < pms; ++pm)
      if (is[pm]) e.hits.push_back({512 * board + pm, 4 * (static_cast<int>(random() % 32) - 16)});
  }
  std::ranges::stable_sort(events, {}, &trigger::TestEvent::time);
  return events;
}

template <class A>
class UsualFrames {
 public:
  explicit UsualFrames(unsigned boards, unsigned seed)
      : random(seed), both(contract::Gather::frame, boards), boards_(boards) {}

  // A new frame in the buffer, each board's fragments in one packet, mostly with the flag that it is the
  // last, or in two.
  void fill(unsigned most, unsigned crossed = 0) {
    std::memset(both.buffer(), 0, both.shape().buffer_bytes());
    frame = static_cast<Frame>(random() % 1000);
    std::vector<std::uint16_t> around(1 + random() % 20);
    for (auto& time : around) time = static_cast<std::uint16_t>(random());
    for (unsigned b = 0; b < boards_; ++b) {
      auto events = usual_events(random, b, most, around, crossed);
      if (random() % 8 == 0) continue;  // no packet
      const std::uint8_t last = random() % 8 ? wire::mgp::flag::last : 0;
      if (random() % 6) {
        both.place(b, trigger::mgp_packet(b, frame, 7, events, last));
        continue;
      }
      const auto half = static_cast<std::ptrdiff_t>(random() % (events.size() + 1));
      const std::uint8_t wrong =
          random() % 4 ? 0 : last;  // the first of two packets says that it is the last
      both.place(b, trigger::mgp_packet(b, frame, 7, {events.begin(), events.begin() + half}, wrong));
      both.place(b, trigger::mgp_packet(b, frame, 8, {events.begin() + half, events.end()}, last, 1));
    }
  }
  // A frame whose boards have so many fragments each, of few hits, in at most three packets. together: most
  // of the fragments are near one of each other board.
  void fill_large(const std::vector<unsigned>& fragments, bool together) {
    std::memset(both.buffer(), 0, both.shape().buffer_bytes());
    frame = static_cast<Frame>(random() % 1000);
    std::vector<std::uint16_t> around(contract::index_entries);
    for (auto& time : around) time = static_cast<std::uint16_t>(random());
    for (unsigned b = 0; b < boards_; ++b) {
      std::vector<trigger::TestEvent> events(fragments[b]);
      for (unsigned i = 0; i < events.size(); ++i) {
        trigger::TestEvent& e = events[i];
        e.time = together && random() % 16
                     ? static_cast<std::uint16_t>(around[i % around.size()] + random() % 20)
                     : static_cast<std::uint16_t>(random());
        for (unsigned h = 0; h < i % 6; ++h) e.hits.push_back({512 * b + 60 * h + below(random, 60), 4});
      }
      std::ranges::stable_sort(events, {}, &trigger::TestEvent::time);
      const auto packets = 1 + below(random, 3);
      std::size_t from = 0;
      for (unsigned p = 0; p < packets; ++p) {
        const std::size_t to =
            p + 1 == packets ? events.size() : from + random() % (events.size() - from + 1);
        both.place(b, trigger::mgp_packet(b, frame, 7 + p,
                                          {events.begin() + static_cast<std::ptrdiff_t>(from),
                                           events.begin() + static_cast<std::ptrdiff_t>(to)},
                                          packets == 1 ? wire::mgp::flag::last : std::uint8_t{0}, p));
        from = to;
      }
    }
  }
  // masks: with masked PMs now and then, whose frames take another path.
  void compare(const ChangeIndex& change = {}, bool masks = true) {
    trigger::ProcessOptions options;
    options.decision.min_hits = static_cast<std::uint32_t>(random() % 6);
    if (random() % 7 == 6) options.window_lsb = static_cast<std::int32_t>(random() % 3 ? 2000 : 65535);
    if (random() % 4 == 1) options.downscale.factor = {2, 1 + static_cast<std::uint32_t>(random() % 9), 0, 5};
    trigger::ConditionsStore store(
        std::make_shared<trigger::Conditions>(random_conditions(random, masks && random() % 2 ? 20 : 0)));
    if (random() % 3 == 0) options.conditions = &store;
    both.compare(random() % 2 ? contract::event_flag::complete : 0, frame, options, change);
    ++frames;
  }

  std::mt19937 random;
  Both<A> both;
  Frame frame = 0;
  std::uint64_t frames = 0;

 private:
  unsigned boards_;
};

// IndexedFrame and IndexedMerge.
template <class A>
class IndexedFrame : public testing::Test {
  void SetUp() override {
    if (!contract::has_mailbox) GTEST_SKIP();
  }
};
using SumsAndPmIds = testing::Types<rich::Math, rich::Tripl>;
TYPED_TEST_SUITE(IndexedFrame, SumsAndPmIds);

TYPED_TEST(IndexedFrame, UsualFramesTakeThePathOfTheIndex) {
  for (const unsigned boards : {1u, 2u, 3u, 4u}) {
    UsualFrames<TypeParam> usual(boards, 5 + boards);
    for (unsigned round = 0; round < test_rounds(400u); ++round) {
      usual.fill(round % 4 ? 30 : 100);
      usual.compare();
      ASSERT_FALSE(testing::Test::HasFailure()) << boards << " boards, round " << round;
    }
    EXPECT_GT(usual.both.by_index, usual.frames / 2) << boards;
    EXPECT_GT(usual.both.events_by_index, 10 * usual.both.by_index);
    EXPECT_GT(usual.both.ahead_of_line, usual.frames / 50) << boards;
  }
}

TYPED_TEST(IndexedFrame, LargeFramesTakeThePathOfTheIndex) {
  for (const unsigned boards : {1u, 3u, 4u}) {
    UsualFrames<TypeParam> usual(boards, 25 + boards);
    std::vector<unsigned> fragments(boards);
    for (unsigned round = 0; round < test_rounds(100u); ++round) {
      // All boards just around the number of a usual frame, as many as an index has, or any numbers.
      for (unsigned& n : fragments)
        n = round % 4 == 0   ? 126 + round / 4 % 6
            : round % 4 == 1 ? contract::index_entries - round / 4 % 3
                             : below(usual.random, contract::index_entries + 1);
      usual.fill_large(fragments, round % 3 != 0);
      usual.compare({}, false);
      ASSERT_FALSE(testing::Test::HasFailure()) << boards << " boards, round " << round;
    }
    EXPECT_EQ(usual.both.by_index, usual.frames) << boards;
  }
}

TYPED_TEST(IndexedFrame, MoreFragmentsThanAnIndexHoldsTakeAnotherPath) {
  UsualFrames<TypeParam> usual(4, 29);
  for (unsigned b = 0; b < 4; ++b) {
    std::vector<unsigned> fragments(4, contract::index_entries);
    ++fragments[b];
    usual.fill_large(fragments, true);
    usual.compare({}, false);
    ASSERT_FALSE(testing::Test::HasFailure()) << b;
  }
  EXPECT_EQ(usual.both.by_index, 0u);
  EXPECT_GT(usual.both.events, 1000u);
}

TYPED_TEST(IndexedFrame, HitsThatDoNotAscendFromBoardToBoardTakeAnotherPath) {
  UsualFrames<TypeParam> usual(4, 17);
  for (unsigned round = 0; round < test_rounds(300u); ++round) {
    usual.fill(20, 60);
    usual.compare();
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(usual.both.by_index, usual.frames / 10);
  EXPECT_LT(usual.both.by_index, usual.frames * 9 / 10);
}

TYPED_TEST(IndexedFrame, BytesOfAnyContentGiveTheSameResults) {
  UsualFrames<TypeParam> usual(4, 11);
  for (unsigned round = 0; round < test_rounds(600u); ++round) {
    if (round % 8 == 4)
      usual.fill_large({200, below(usual.random, 253), 252, 130}, round % 2);
    else
      usual.fill(30);
    const unsigned changes = 1 + static_cast<unsigned>(usual.random() % (round % 2 ? 2 : 30));
    for (unsigned i = 0; i < changes; ++i) {
      const auto board = static_cast<unsigned>(usual.random() % 4);
      const std::size_t used = usual.both.header().board[board].bytes;
      if (used == 0) continue;
      const std::size_t at = contract::frame_header_bytes + board * usual.both.shape().segment_bytes;
      usual.both
          .buffer()[at + usual.random() % (usual.random() % 2 ? std::min<std::size_t>(40, used) : used)] =
          static_cast<std::byte>(usual.random() % 2 ? usual.random() : usual.random() % 40);
    }
    // The frame number in the first board's header is not that of the event line.
    if (round % 2) usual.both.buffer()[contract::frame_header_bytes + 12] ^= std::byte{1};
    usual.compare();
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(usual.both.by_index, test_rounds(100u));  // a changed time difference, for example
  EXPECT_GT(usual.both.refused, 0u);
}

// Entry i of a board's index in a mailbox.
std::byte* entry(const contract::Mailbox& mailbox, std::uint32_t buffer, unsigned board, std::uint32_t i) {
  return mailbox.input + mailbox.shape.index(buffer, board) +
         contract::unit_bytes * (i / contract::entries_per_unit) + 4 * (i % contract::entries_per_unit);
}

TYPED_TEST(IndexedFrame, AnIndexOfAnyContentChangesNoResult) {
  UsualFrames<TypeParam> usual(4, 12);
  std::mt19937 random(13);
  std::uint64_t changed = 0;
  for (unsigned round = 0; round < test_rounds(1500u); ++round) {
    // Each way of the changes below, with usual and large frames.
    if (round / 10 % 8 == 7)
      usual.fill_large({below(random, 253), 252, below(random, 253), 129}, round % 3);
    else
      usual.fill(20);
    usual.compare([&](const contract::Mailbox& mailbox, std::uint32_t buffer, std::uint16_t* fragments) {
      const auto board = static_cast<unsigned>(random() % 4);
      const auto load = [&](std::uint32_t i) {
        std::uint32_t word;
        std::memcpy(&word, entry(mailbox, buffer, board, i), 4);
        return word;
      };
      const auto store = [&](std::uint32_t i, std::uint32_t word) {
        changed += i < fragments[board] && word != load(i);
        std::memcpy(entry(mailbox, buffer, board, i), &word, 4);
      };
      const auto i = static_cast<std::uint32_t>(random() % (fragments[board] + 1u));
      const std::uint32_t word = load(i), other = load(static_cast<std::uint32_t>(random() % 252));
      const auto noise = static_cast<std::uint32_t>(random());
      switch (round % 10) {
        case 0:  // wrong offset
          return store(i, IndexEntry::of(noise % 4096, IndexEntry::time(word)));
        case 1:  // the middle of a fragment
          return store(i, word + 2);
        case 2:  // beyond the packet, the segment, or the memory
          return store(i, IndexEntry::of(noise & 0xFFFF, IndexEntry::time(word)));
        case 3:  // another time
          return store(i, IndexEntry::of(IndexEntry::offset(word), noise & 0xFFFF));
        case 4:  // the same fragment twice
          return store(i, load(i ? i - 1 : 0));
        case 5:  // another fragment
          return store(i, other);
        case 6:  // more entries
          fragments[board] = static_cast<std::uint16_t>(fragments[board] + 1 + noise % 3);
          return;
        case 7:  // fewer
          fragments[board] = static_cast<std::uint16_t>(fragments[board] / 2);
          return;
        case 8:  // any number
          fragments[board] = static_cast<std::uint16_t>(noise % 2 ? noise : noise % 260);
          return;
        default:
          for (std::uint32_t k = 0; k < contract::index_entries; ++k)
            store(k, static_cast<std::uint32_t>(random()));
      }
    });
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(changed, test_rounds(1000u));
}

TEST(IndexedMerge, BuildsTheTasksOfRemoteAlgorithms) {
  if (!contract::has_mailbox) GTEST_SKIP();
  UsualFrames<Nearby<rich::Multiring>> usual(4, 14);
  for (unsigned round = 0; round < 40; ++round) {
    usual.fill(8);
    usual.compare();
    ASSERT_FALSE(testing::Test::HasFailure()) << round;
  }
  EXPECT_GT(usual.both.by_index, usual.frames / 2);
}

// An entry that the checks accept is a fragment of the walk, whatever bytes and entries hold.
TEST(IndexedBoard, AcceptsTheWalkAlone) {
  std::mt19937 random(15);
  std::uint64_t accepted = 0, refused = 0;
  alignas(16) std::byte segment[4096];
  for (unsigned round = 0; round < 20'000; ++round) {
    std::ranges::fill(segment, std::byte{});
    std::uint32_t bytes = 0;
    for (unsigned p = 0; p < round % 5; ++p) {
      const auto packet = trigger::mgp_packet(0, 1, p, trigger::random_events(random, 0, 12));
      if (bytes + packet.size() > sizeof segment) break;
      std::ranges::copy(packet, segment + bytes);
      bytes += static_cast<std::uint32_t>((packet.size() + 15) / 16 * 16);
    }
    if (round % 4 == 1)
      for (unsigned i = 0; i < 3 && bytes; ++i) segment[random() % bytes] = static_cast<std::byte>(random());
    std::uint32_t walk[contract::index_entries] = {}, given[contract::index_entries + 2] = {};
    const std::uint32_t found = contract::index_fragments(segment, bytes, walk);
    std::uint32_t fragments = found == contract::no_index ? static_cast<std::uint32_t>(random() % 20) : found;
    std::copy_n(walk, contract::index_entries, given);
    if (round % 4 == 2 && fragments) {
      const std::uint32_t i = below(random, fragments);
      given[i] = random() % 2 ? static_cast<std::uint32_t>(random()) : given[i] + 2 * below(random, 20);
    }
    if (round % 8 == 3) fragments = below(random, 40);
    const IndexedBoard board(segment, bytes, fragments, given);
    bool sound = board.sound();
    for (std::uint32_t i = 0; sound && i < fragments; ++i) {
      const auto f = board(i);
      sound = f.sound;
      if (sound) {
        ASSERT_LE(f.offset + 8 + 2 * f.stored, bytes);
      }
    }
    ++(sound ? accepted : refused);
    const bool equal = found == fragments && std::equal(walk, walk + fragments, given);
    if (found != contract::no_index) {
      ASSERT_EQ(sound, equal) << round;
    } else {
      ASSERT_FALSE(sound) << round;
    }
  }
  EXPECT_GT(accepted, 5000u);
  EXPECT_GT(refused, 3000u);
}

// As a block of a GPU, whose first warp has no units.
struct GpuThreads {
  static constexpr unsigned idle = 32, group = 32, most_units = 3;
};
// Largest number of units that one of 512 threads has. Expects that each of the units has one thread.
unsigned most_of_a_thread(unsigned boards, std::uint32_t index, std::uint32_t segment) {
  constexpr unsigned threads = 512;
  std::vector<unsigned> of_index(std::size_t{boards} * index), of_segment(std::size_t{boards} * segment);
  unsigned most = 0;
  for (unsigned t = 0; t < threads; ++t) {
    unsigned has = 0;
    for (ThreadUnits<GpuThreads> units(boards, t, threads);; units.advance()) {
      const std::uint32_t mask = units.among(index, segment);
      for (unsigned j = 0; j < GpuThreads::most_units; ++j) {
        if (!(mask >> j & 1)) continue;
        ++has;
        if (units.of_index(j))
          ++of_index.at(std::size_t{units.board()} * index + units.in_index(j));
        else
          ++of_segment.at(std::size_t{units.board()} * segment + units.in_segment(j));
      }
      if (!units.left(static_cast<std::uint32_t>(contract::unit_data_bytes) * segment)) break;
    }
    most = std::max(most, has);
  }
  for (const auto* counts : {&of_index, &of_segment})
    EXPECT_TRUE(std::ranges::all_of(*counts, [](unsigned n) { return n == 1; })) << boards;
  return most;
}

TEST(ThreadUnits, EachUnitHasOneThread) {
  const std::uint32_t all_segment = contract::units_for(contract::mailbox_segment_bytes);
  for (unsigned boards = 1; boards <= max_boards; ++boards) {
    const bool indexed = boards <= contract::index_boards;
    for (const std::uint32_t index : {0u, 1u, 44u, contract::index_units})
      for (const std::uint32_t segment : {0u, 20u, 168u, 276u, 277u, all_segment})
        if (indexed || index == 0) most_of_a_thread(boards, index, segment);
  }
  EXPECT_EQ(most_of_a_thread(4, 20, 84), 2u);                       // at 10 MHz
  EXPECT_EQ(most_of_a_thread(4, 44, 204), GpuThreads::most_units);  // at 20 MHz: all loads at once
}

}  // namespace
}  // namespace nanet::gpu
