// SPDX-License-Identifier: Apache-2.0
// Frame processing of a thread block, run on the CPU thread by thread, against the CPU's frame processor:
// equal packets and counts for any bytes.
#include "nanet/gpu/frame/frame.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "nanet/contract/memory.hpp"
#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/resident/sampled.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/multiring.hpp"
#include "nanet/rich/reconstructor.hpp"
#include "nanet/rich/tripl.hpp"
#include "nanet/trigger/build/hit_times.hpp"
#include "nanet/trigger/executors/frame_processor.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {
namespace {

using trigger::Bytes;
namespace flag = wire::mgp::flag;

// Remote algorithm as in the resident kernel, a few events at a time; the caller does the work here.
template <class A>
struct Nearby {
  static constexpr std::string_view name = A::name;
  static constexpr std::uint32_t at_once = 5;
  const trigger::DecisionOptions* decision = nullptr;
  const rich::Point* plane = nullptr;
  mutable TaskResult answers[at_once] = {};

  void reconstruct(const Tables& tables, std::uint32_t hits, std::uint32_t from, std::uint32_t n,
                   bool incomplete) const {
    typename A::Scratch scratch;
    ASSERT_LE(n, at_once);
    for (std::uint32_t i = 0; i < n; ++i) {
      const BuiltEvent& event = tables.event[from + i];
      ASSERT_LE(event.first + event.hits, hits);
      rich::Rings rings;
      A{}.template operator()<rich::HostLanes>(rich::EventView{tables.pm + event.first, event.hits}, plane,
                                               scratch, rings);
      answers[i] = {rings.count,
                    trigger::decide(rings, event.hits, incomplete || event.truncated, *decision)};
    }
  }
  TaskResult answer(std::uint32_t i) const { return answers[i]; }
};

// One buffer of contract memory, its event, and both implementations.
template <class A>
class Both {
 public:
  explicit Both(contract::Gather gather, unsigned boards, std::uint32_t packets = 1,
                std::uint32_t segment = 8192, std::uint32_t room = shared_fragments,
                const rich::Geometry& geometry = rich::Geometry::make())
      : geometry_(geometry),
        memory_([&] {
          contract::Shape s;
          s.gather = gather;
          s.boards = boards;
          s.packets = packets;
          s.segment_bytes = segment;
          s.buffers = s.descriptors = 16;
          s.events = 64;
          return s;
        }()),
        room_(room) {
    if constexpr (requires { algorithm_.use(geometry_); }) algorithm_.use(geometry_);
    for (std::uint32_t pm = 0; pm < geometry_.common.size(); ++pm)
      PlaneOf<A>::set(algorithm_, plane_.data(), pm, geometry_.common[pm]);
    const contract::Shape& shape = memory_.view().shape;
    sizes_ = BufferSizes::of(shape);
    large_.resize(sizes_.large_bytes());
    small_.resize(sizes_.shared_bytes());
    rings_.resize(sizes_.fragments);
  }
  std::byte* buffer() { return memory_.view().buffer(3); }
  const contract::Shape& shape() const { return memory_.view().shape; }
  contract::FrameHeader& header() { return *reinterpret_cast<contract::FrameHeader*>(buffer()); }

  // Appends a packet to a board's segment as the card does.
  void place(unsigned board, const Bytes& packet) {
    auto& used = header().board[board].bytes;
    if (used + packet.size() > shape().segment_bytes) return;
    std::memcpy(memory_.view().segment(3, board) + used, packet.data(), packet.size());
    used = static_cast<std::uint16_t>(used + (packet.size() + 15) / 16 * 16);
  }

  void compare(std::uint16_t flags, Frame frame, const trigger::ProcessOptions& options = {}) {
    const contract::View& view = memory_.view();
    contract::Event event;
    event.type = 1;
    event.flags = flags;
    event.buffer = 3;
    event.frame = frame;
    trigger::FrameProcessor cpu(view.shape, rich::make_reconstructor(A::name, {}, geometry_), options);
    trigger::Trace expected;
    const std::uint32_t bytes = cpu(view, event, 3, expected);
    std::vector<std::uint32_t> words(bytes / 4);
    std::memcpy(words.data(), view.send_buffer(3), bytes);
    seen_ = (seen_ * 5 + 123) % 20'000;  // arbitrary, as from a faulty card

    A algorithm = algorithm_;
    FrameOptions o;
    o.decision = options.decision;
    if constexpr (Remote<A>) {
      algorithm.decision = &o.decision;
      algorithm.plane = plane_.data();
    }
    o.window = static_cast<std::uint32_t>(options.window_lsb);
    o.source = options.source;
    o.downscaling = options.downscale.any();
    std::copy(options.downscale.factor.begin(), options.downscale.factor.end(), o.factor);
    Workspace<A> workspace{plane_.data(), rings_.data(), nullptr, result_};
    ConditionsTable table;
    if (options.conditions) {
      fill(table, *options.conditions->current());
      workspace.conditions = table.t0;
    }
    std::vector<typename ScratchOf<A>::type> scratch(2);
    if constexpr (Wide<A>) workspace.scratch = scratch.data();
    auto shared = std::make_unique<FrameShared>();
    FrameWork<A, Block> work(algorithm, o, *shared, workspace);
    BufferWork<A, Block> buffer_work(view.shape, sizes_, *shared, small_.data(), large_.data(), room_);
    struct Copy {
      void operator()(std::byte* to, const std::byte* from, std::uint32_t n) const {
        std::memcpy(to, from, n);
      }
      void wait() const {}
    };
    buffer_work.run(
        work, buffer(), event.flags, frame, seen_, Copy{}, [] { return Nanoseconds{7}; },
        [](const auto&, std::uint32_t) {});
    const trigger::Trace& t = shared->trace;
    ASSERT_EQ(4 * shared->words, bytes);
    EXPECT_EQ(std::vector<std::uint32_t>(shared->packet, shared->packet + shared->words), words);
    EXPECT_EQ(t.events, expected.events);
    EXPECT_EQ(t.primitives, expected.primitives);
    EXPECT_EQ(t.below_min_hits, expected.below_min_hits);
    EXPECT_EQ(t.mtp_overflow, expected.mtp_overflow);
    EXPECT_EQ(t.rings, expected.rings);
    EXPECT_EQ(t.duplicate_hits, expected.duplicate_hits);
    EXPECT_EQ(t.masked_hits, expected.masked_hits);
    masked += t.masked_hits;
    for (unsigned k = 0; k < trigger::primitive_kinds; ++k) {
      EXPECT_EQ(t.downscaled[k], expected.downscaled[k]);
      downscaled += t.downscaled[k];
    }
    ASSERT_EQ(t.lows, expected.lows);
    ASSERT_EQ(t.highs, expected.highs);
    for (unsigned i = 0; i < t.lows; ++i) {
      EXPECT_EQ(t.low[i].opened, expected.low[i].opened);
      EXPECT_EQ(t.low[i].boards, expected.low[i].boards);
    }
    for (unsigned i = 0; i < t.highs; ++i) {
      EXPECT_EQ(t.high[i].opened, expected.high[i].opened);
      EXPECT_EQ(t.high[i].boards, expected.high[i].boards);
    }
    if (sizes_.frame) compare_times(work, options.window_lsb);
    events += t.events;
  }
  // Hit times of every event, decoded from a sample and by the CPU.
  void compare_times(const FrameWork<A, Block>& work, std::int32_t window) {
    std::vector<trigger::Segment> payloads;
    bool large = false;
    for (unsigned b = 0; b < shape().boards; ++b) {
      const auto bytes = std::min<std::uint32_t>(header().board[b].bytes, shape().segment_bytes);
      payloads.push_back({memory_.view().segment(3, b), bytes});
      large |= bytes > sizes_.stride;
    }
    const auto sample = std::make_unique<Sample>();
    for (std::uint32_t e = 0; e < work.events(); ++e) {
      const BuiltEvent& built = work.event(e);
      stats::EventSample event;
      sample->event.time = event.time = built.time;
      sample->event.hits = event.hits = built.hits;
      sample->opened = built.opened;
      std::copy_n(work.view(built).pm, built.hits, event.pm);
      std::copy_n(work.view(built).pm, built.hits, sample->event.pm);
      trigger::set_hit_times(event, payloads, built.opened, window);
      copy_payloads<Block>(work.shared(), *sample);
      const stats::EventSample sampled = sampled_event(*sample, static_cast<std::uint32_t>(window));
      if (large) event.clear_times();
      EXPECT_TRUE(std::ranges::equal(sampled.late, event.late));
      for (unsigned i = 0; i < built.hits; ++i) timed += sampled.late[i] != stats::EventSample::no_time;
      hits += built.hits;
    }
  }
  std::uint64_t events = 0, masked = 0, downscaled = 0, hits = 0, timed = 0;

 private:
  std::uint32_t seen_ = 0;
  rich::Geometry geometry_;
  contract::Memory memory_;
  BufferSizes sizes_;
  std::uint32_t room_;
  std::vector<typename PlaneOf<A>::type> plane_ =
      std::vector<typename PlaneOf<A>::type>(rich::plane_table_size);
  A algorithm_{};
  std::vector<rich::Rings> rings_;
  rich::Rings result_[2];
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };
  class Room {
   public:
    void resize(std::size_t bytes) { cells_.resize(bytes / 16 + 1); }
    std::byte* data() { return cells_.data()->bytes; }

   private:
    std::vector<Sixteen> cells_;
  };
  Room large_, small_;
};

trigger::Conditions random_conditions(std::mt19937& random, unsigned masked) {
  trigger::Conditions c;
  for (unsigned i = 0; i < masked; ++i) c.masked[random() % pm_count] = 1;
  for (auto& t0 : c.t0) t0 = static_cast<std::int16_t>(random() % 200) - 100;
  c.name = "random";
  return c;
}

template <class A>
std::uint64_t frames_of_boards(unsigned boards, unsigned most, unsigned rounds, std::uint32_t room,
                               const rich::Geometry& geometry = rich::Geometry::make()) {
  std::mt19937 random(17 + boards + most);
  Both<A> both(contract::Gather::frame, boards, 1, 8192, room, geometry);
  for (unsigned round = 0; round < rounds; ++round) {
    std::memset(both.buffer(), 0, both.shape().buffer_bytes());
    const auto frame = static_cast<Frame>(random() % 1000);
    for (unsigned b = 0; b < boards; ++b) {
      const auto packets = static_cast<unsigned>(random() % 3);
      for (unsigned p = 0; p < packets; ++p)
        both.place(b, trigger::mgp_packet(b, frame, 100 + (random() % 4 ? p : 9 - p),
                                          trigger::random_events(random, b, most),
                                          random() % 4 ? 0 : flag::fixed, p));
    }
    if (round % 3 == 2) {  // hostile: bytes here and there, and the header's own
      for (unsigned i = 0; i < 40; ++i)
        both.buffer()[random() % both.shape().buffer_bytes()] = static_cast<std::byte>(random());
      for (unsigned i = 0; i < 4; ++i) both.buffer()[random() % 64] = static_cast<std::byte>(random());
    }
    trigger::ProcessOptions options;
    if (round % 5 == 4) options.decision.min_hits = static_cast<std::uint32_t>(random() % 6);
    if (round % 7 == 6) options.window_lsb = static_cast<std::int32_t>(random() % 3 ? 2000 : 65535);
    if (round % 4 == 1) options.downscale.factor = {2, 1 + static_cast<std::uint32_t>(random() % 9), 0, 5};
    trigger::ConditionsStore store(
        std::make_shared<trigger::Conditions>(random_conditions(random, round % 3 ? 0 : 60)));
    if (round % 6 < 3) options.conditions = &store;
    both.compare(random() % 2 ? contract::event_flag::complete : 0, frame, options);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(both.masked, both.events / 50);
  EXPECT_GT(both.downscaled, both.events / 20);
  EXPECT_GT(both.timed, both.hits / 2);
  EXPECT_GT(both.hits, both.events);
  return both.events;
}

TEST(FrameWork, FramesOfAnyNumberOfBoards) {
  std::uint64_t events = 0;
  for (const unsigned boards : {1u, 2u, 4u}) {
    events += frames_of_boards<rich::Math>(boards, 30, 400, shared_fragments);
    events += frames_of_boards<rich::Math>(boards, 30, 100, 8);  // the large tables
  }
  EXPECT_GT(events, 20'000u);
}

TEST(FrameWork, PositionsThatAreNoWholeNumbers) {
  rich::Geometry moved = rich::Geometry::make();
  for (rich::Point& p : moved.common) p = {p.x * 1.3f + 0.7f, p.y + 3.3f};
  EXPECT_GT(frames_of_boards<rich::Math>(4, 30, 60, shared_fragments, moved), 1000u);
}

TEST(FrameWork, AlgorithmsThatAreWide) {
  EXPECT_GT(frames_of_boards<rich::Multiring>(4, 10, 60, shared_fragments), 400u);
}

TEST(FrameWork, EventsReconstructedInOtherBlocks) {
  EXPECT_GT(frames_of_boards<Nearby<rich::Multiring>>(4, 10, 60, shared_fragments), 400u);
  EXPECT_GT(frames_of_boards<Nearby<rich::Tripl>>(2, 25, 60, 8), 400u);  // the large tables
}

TEST(FrameWork, NothingButNoise) {
  std::mt19937 random(3);
  for (const unsigned boards : {1u, 4u, 8u}) {
    Both<rich::Math> both(contract::Gather::frame, boards);
    for (unsigned round = 0; round < 300; ++round) {
      for (std::size_t i = 0; i < both.shape().buffer_bytes(); i += 4) {
        // Small numbers give long walks, noise gives short ones.
        const std::uint32_t word = round % 2 ? static_cast<std::uint32_t>(random())
                                             : static_cast<std::uint32_t>(random()) & 0x0FFF03FF;
        std::memcpy(both.buffer() + i, &word, 4);
      }
      // The layout comes from the card, and only a CPU consumer takes merged buffers.
      both.buffer()[offsetof(contract::FrameHeader, layout)] = std::byte{0};
      both.compare(0, 5);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(FrameWork, AFrameFullOfEmptyFragments) {
  Both<rich::Math> both(contract::Gather::frame, 4);
  std::mt19937 random(4);
  std::memset(both.buffer(), 0, both.shape().buffer_bytes());
  for (unsigned b = 0; b < 4; ++b)
    for (unsigned p = 0; p < 4; ++p) {
      std::vector<trigger::TestEvent> events(250);
      for (auto& e : events) e.time = static_cast<std::uint16_t>(random() % 65536);
      both.place(b, trigger::mgp_packet(b, 1, p, events, 0, p));
    }
  trigger::ProcessOptions options;
  options.decision.min_hits = 0;
  both.compare(contract::event_flag::complete, 1, options);
  EXPECT_GT(both.events, 1500u);  // more than the limit for ranking by comparison
}

TEST(FrameWork, PacketsOfOneBuffer) {
  std::mt19937 random(5);
  for (const std::uint32_t packets : {1u, 3u, 16u}) {
    Both<rich::Math> both(contract::Gather::packets, 1, packets);
    for (unsigned round = 0; round < 300; ++round) {
      std::memset(both.buffer(), 0, both.shape().buffer_bytes());
      const unsigned filled = 1 + static_cast<unsigned>(random() % packets);
      for (unsigned p = 0; p < filled; ++p) {
        const Bytes packet = trigger::mgp_packet(0, 7 + static_cast<Frame>(random() % 2 ? p / 2 : 0), p,
                                                 trigger::random_events(random, 0, 20));
        if (packet.size() <= both.shape().slot_bytes)
          std::memcpy(both.buffer() + p * both.shape().slot_bytes, packet.data(), packet.size());
      }
      if (round % 3 == 2)
        for (unsigned i = 0; i < 20; ++i)
          both.buffer()[random() % both.shape().buffer_bytes()] = static_cast<std::byte>(random());
      trigger::ProcessOptions options;
      trigger::ConditionsStore store(std::make_shared<trigger::Conditions>(random_conditions(random, 60)));
      if (round % 2) {
        options.conditions = &store;
        options.downscale.factor = {3, 2, 1, 1};
      }
      both.compare(contract::event_flag::complete, 7, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The GPU's ring of tables and the CPU's store give the same conditions for every n.
TEST(Conditions, TheTablesOfAGpuAreThoseOfTheStore) {
  std::mt19937 random(6);
  const auto made = [&](unsigned i) {
    trigger::Conditions c;
    c.t0[7] = static_cast<std::int16_t>(i);
    c.masked[8] = i % 2;
    return std::make_shared<trigger::Conditions>(c);
  };
  auto board = std::make_unique<ConditionsBoard>();
  trigger::ConditionsStore store(made(0));
  store.follow([&](std::uint64_t from, const trigger::Conditions& c) { publish(*board, from, c); });
  std::uint64_t base = 0;
  for (unsigned i = 1; i < 60; ++i) {
    base += 1 + random() % 100;
    if (random() % 4) store.offer(made(i));
    store.burst_began(base, base);  // nothing is pending: the oldest may be overwritten
    trigger::ConditionsReader reader(&store);
    for (std::uint64_t n = base > 1000 ? base - 1000 : 0; n < base + 10; ++n) {
      const ConditionsTable& table =
          board->table[table_for(n, board->version, board->from) % conditions_kept];
      const trigger::Conditions& c = *reader.at(n);
      ASSERT_EQ(table.t0[7], c.t0[7]) << n << " of " << base;
      ASSERT_EQ(table.t0[8], c.masked[8] ? masked_pm : 0);
      ASSERT_EQ(table.t0[conditions_pms - 1], 0);
    }
  }
  EXPECT_GT(board->version, 30u);
}

}  // namespace
}  // namespace nanet::gpu
