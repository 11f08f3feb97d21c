// SPDX-License-Identifier: Apache-2.0
// Tests of the frame builder: merging against a literal implementation of docs/formats.md, and arbitrary
// bytes.
#include "nanet/trigger/build/frame_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "nanet/card/software/frame_merger.hpp"
#include "nanet/contract/recent_indices.hpp"
#include "nanet/os/sanitizer_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

constexpr std::size_t segment_bytes = 8192;

// Four consecutive segments as in a buffer; readable memory ends as the contract specifies.
struct Segments {
  explicit Segments(unsigned count = 4) : boards(count), memory(std::make_unique<std::byte[]>(bytes())) {}
  std::size_t bytes() const { return boards * segment_bytes + contract::tail_bytes; }
  bool place(unsigned board, const Bytes& packet) {
    const std::size_t end = used[board] + (packet.size() + 15) / 16 * 16;
    if (end > segment_bytes) return false;
    std::copy(packet.begin(), packet.end(), memory.get() + board * segment_bytes + used[board]);
    std::array<std::uint32_t, wire::mgp::max_fragments> room;
    const wire::mgp::Checked checked = wire::mgp::validate(packet, {.max_payload = segment_bytes}, room);
    if (checked.index && !checked.truncated)
      indices.add(0, board, used[board] == 0, {checked.index, checked.fragments}, checked.header.length);
    else
      indices.remove(0, board);
    used[board] = end;
    return true;
  }
  std::array<Segment, 4> view() const {
    std::array<Segment, 4> out;
    for (unsigned b = 0; b < boards; ++b) out[b] = {memory.get() + b * segment_bytes, used[b]};
    return out;
  }
  // The same with the indices of those segments that have one; counts these.
  std::array<Segment, 4> view_with_indices(unsigned& indexed) const {
    std::array<Segment, 4> out = view();
    for (unsigned b = 0; b < boards; ++b) {
      out[b].index = indices.of(0, b);
      indexed += !out[b].index.empty();
    }
    return out;
  }
  unsigned boards;
  std::unique_ptr<std::byte[]> memory;
  std::array<std::size_t, 4> used{};
  contract::RecentIndices indices;
};

struct PlainEvent {
  int opened = 0;
  std::set<unsigned> boards;
  std::set<unsigned> pms;
  long sum = 0;
  bool truncated = false;
  int time() const {
    if (pms.empty()) return opened;
    const long n = static_cast<long>(pms.size()), twice = 2 * sum + n;
    return static_cast<int>(std::clamp(twice < 0 ? -1L : twice / (2 * n), 0L, 65535L));
  }
};

// Literal implementation of docs/formats.md, Merging. fragments: by board, sequence number and position.
std::vector<PlainEvent> merge(std::vector<std::pair<unsigned, TestEvent>> fragments, int window,
                              unsigned& duplicates, unsigned& masked,
                              const Conditions* conditions = nullptr) {
  std::stable_sort(fragments.begin(), fragments.end(),
                   [](const auto& a, const auto& b) { return a.second.time < b.second.time; });
  std::vector<PlainEvent> events;
  for (const auto& [board, f] : fragments) {
    auto at = std::find_if(events.begin(), events.end(), [&, b = board, &f = f](const PlainEvent& e) {
      return f.time - e.opened <= window && !e.boards.contains(b);
    });
    if (at == events.end()) {
      events.push_back({f.time, {}, {}, 0, false});
      at = events.end() - 1;
    }
    at->boards.insert(board);
    at->truncated |= f.flags & 1;
    for (const TestHit& hit : f.hits) {
      if (conditions && conditions->masked[hit.pm])
        ++masked;
      else if (at->pms.insert(hit.pm).second)
        at->sum += f.time + hit.lsb - (conditions ? conditions->t0[hit.pm] : 0);
      else
        ++duplicates;
    }
  }
  return events;
}

// A buffer as a merging card writes it; `merged` 0: segments.
struct MergedBuffer {
  MergedBuffer(Segments& segments, int window) : memory(contract::frame_header_bytes + segments.bytes()) {
    contract::Shape shape;
    shape.segment_bytes = segment_bytes;
    card::FrameMerger merger(shape, window);
    contract::FrameHeader header;
    for (unsigned b = 0; b < 4; ++b) header.board[b].bytes = static_cast<std::uint16_t>(segments.used[b]);
    std::copy_n(segments.memory.get(), segments.bytes(), memory.data() + sizeof header);
    merged = merger(memory.data(), header);
    std::memcpy(memory.data(), &header, sizeof header);
  }
  std::span<const std::byte> view() const { return {memory.data(), memory.size() - contract::tail_bytes}; }
  std::vector<std::byte> memory;
  std::uint32_t merged = 0;
};

void expect_equal(const BuiltFrame& got, const BuiltFrame& want) {
  ASSERT_EQ(got.events, want.events);
  EXPECT_EQ(got.fragments, want.fragments);
  EXPECT_EQ(got.duplicate_hits, want.duplicate_hits);
  EXPECT_EQ(got.masked_hits, want.masked_hits);
  for (std::uint32_t e = 0; e < got.events; ++e) {
    ASSERT_EQ(got.time[e], want.time[e]) << "event " << e;
    ASSERT_EQ(got.opened[e], want.opened[e]);
    ASSERT_EQ(got.boards[e], want.boards[e]);
    ASSERT_EQ(got.truncated[e], want.truncated[e]);
    ASSERT_EQ(got.order[e], want.order[e]);
    ASSERT_EQ(std::vector<PmId>(got.pm + got.first[e], got.pm + got.first[e + 1]),
              std::vector<PmId>(want.pm + want.first[e], want.pm + want.first[e + 1]));
  }
}

// conditions: random masked PMs, and offsets of all sizes.
void check_merging(unsigned seeds, bool with_conditions) {
  unsigned merged = 0, indexed = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    Conditions drawn;
    if (with_conditions) {
      const unsigned one_in = 1 + static_cast<unsigned>(random() % 200);
      const int spread = static_cast<int>(random() % (max_t0_lsb + 1));
      for (unsigned pm = 0; pm < pm_count; ++pm) {
        drawn.masked[pm] = random() % one_in == 0;
        drawn.t0[pm] = static_cast<std::int16_t>(static_cast<int>(random() % (2 * spread + 1)) - spread);
      }
    }
    const Conditions* const conditions = with_conditions ? &drawn : nullptr;
    const int window = seed % 3 ? default_window_lsb : static_cast<int>(random() % 300);
    FrameBuilder builder(segment_bytes, 4, window), from_rows(segment_bytes, 4, window),
        by_index(segment_bytes, 4, window);
    for (unsigned round = 0; round < 2; ++round) {  // no state is carried to the next frame
      Segments segments;
      std::vector<std::pair<unsigned, TestEvent>> fragments;
      for (unsigned board = 0; board < 4; ++board) {
        std::vector<std::vector<TestEvent>> packets(1 + random() % 3);
        std::vector<unsigned> arrival(packets.size());
        for (unsigned i = 0; i < packets.size(); ++i) {
          packets[i] = random_events(random, board, 25);
          arrival[i] = i;
        }
        if (seed % 2) {  // in order, as a board sends
          std::vector<TestEvent> all;
          for (const auto& packet : packets) all.insert(all.end(), packet.begin(), packet.end());
          std::stable_sort(all.begin(), all.end(),
                           [](const TestEvent& a, const TestEvent& b) { return a.time < b.time; });
          auto next = all.begin();
          for (auto& packet : packets)
            for (TestEvent& event : packet) event = *next++;
        } else {
          std::shuffle(arrival.begin(), arrival.end(), random);
        }
        for (const unsigned i : arrival)
          if (!segments.place(board, mgp_packet(board, 77, 100 + i, packets[i]))) packets[i].clear();
        for (const auto& packet : packets)
          for (const TestEvent& e : packet) fragments.emplace_back(board, e);
      }
      unsigned duplicates = 0, masked = 0;
      const auto want = merge(fragments, window, duplicates, masked, conditions);
      const auto view = segments.view();
      const BuiltFrame& got = builder.build(view, conditions);
      EXPECT_EQ(got.masked_hits, masked);
      ASSERT_EQ(got.events, want.size()) << "seed " << seed;
      EXPECT_EQ(got.fragments, fragments.size());
      EXPECT_EQ(got.duplicate_hits, duplicates);
      for (std::uint32_t e = 0; e < got.events; ++e) {
        ASSERT_EQ(got.opened[e], want[e].opened) << "seed " << seed << " event " << e;
        ASSERT_EQ(got.time[e], want[e].time()) << "seed " << seed << " event " << e;
        ASSERT_EQ(got.truncated[e] != 0, want[e].truncated);
        unsigned mask = 0;
        for (const unsigned b : want[e].boards) mask |= 1u << b;
        ASSERT_EQ(got.boards[e], mask);
        const std::vector<unsigned> pms(got.pm + got.first[e], got.pm + got.first[e + 1]);
        ASSERT_EQ(pms, std::vector<unsigned>(want[e].pms.begin(), want[e].pms.end()));
      }
      expect_equal(by_index.build(segments.view_with_indices(indexed), conditions), got);
      if (window <= contract::merged_window_lsb) {
        const MergedBuffer buffer(segments, window);
        if (buffer.merged) expect_equal(from_rows.build_merged(buffer.view(), conditions), got);
        merged += buffer.merged != 0;
      }
      for (std::uint32_t i = 1; i < got.events; ++i)
        ASSERT_LT(std::make_tuple(got.time[got.order[i - 1]], got.order[i - 1]),
                  std::make_tuple(got.time[got.order[i]], got.order[i]));
    }
  }
  EXPECT_GT(merged, seeds / 2);
  EXPECT_GT(indexed, seeds / 2);
}

TEST(FrameBuilder, MergesByTheRule) {
  check_merging(test_rounds(400u), false);
}

TEST(FrameBuilder, MasksAndTimeOffsetsByTheRule) {
  check_merging(test_rounds(200u), true);
}

TEST(FrameBuilder, MergedStreamHasWholeEvents) {
  Segments segments(1);
  segments.place(
      0, mgp_packet(0xFF, 3, 1, {{1000, {{5}, {700}, {1900}}, 0}, {1010, {{6, 4}}, 0}, {1010, {}, 1}}));
  FrameBuilder builder(segment_bytes, 1);
  const auto view = segments.view();
  const BuiltFrame& got = builder.build({view.data(), 1});
  ASSERT_EQ(got.events, 3u);
  EXPECT_EQ(got.first[1], 3u);
  EXPECT_EQ(got.time[1], 1014);
  EXPECT_EQ(got.time[2], 1010);
  EXPECT_TRUE(got.truncated[2]);
}

// An index that contradicts the bytes is not used, and neither is one whose packets are in another order.
TEST(FrameBuilder, TakesFragmentsFromTheIndexIfItFits) {
  Segments segments;
  segments.place(0, mgp_packet(0, 3, 1, {{100, {{1}, {2}}, 0}, {200, {{3}}, 0}}));
  auto view = segments.view();
  FrameBuilder builder(segment_bytes, 4);
  const auto times = [&](const std::vector<std::uint32_t>& entries) {
    std::vector<std::uint32_t> memory(entries);
    memory.resize(entries.size() + contract::RecentIndices::room_behind);
    view[0].index = {memory.data(), entries.size()};
    const BuiltFrame& got = builder.build(view);
    return std::vector<int>(got.time, got.time + got.events);
  };
  using Indices = contract::RecentIndices;
  const auto of = contract::IndexEntry::of;
  const std::vector<int> of_bytes = {100, 200}, of_index = {101, 201};
  EXPECT_EQ(times({of(16, 101), of(28, 201), Indices::end_of_packet(38)}), of_index);
  EXPECT_EQ(times({of(16, 101), of(28, 201), Indices::end_of_packet(40)}), of_bytes);
  EXPECT_EQ(times({of(16, 101), of(28, 201)}), of_bytes);
  EXPECT_EQ(times({of(16, 101), of(32, 201), Indices::end_of_packet(38)}), of_bytes);  // hits before it
  EXPECT_EQ(times({of(16, 101), Indices::end_of_packet(38)}), of_bytes);
  EXPECT_EQ(times({of(28, 201), of(16, 101), Indices::end_of_packet(38)}), of_bytes);
  segments.place(0, mgp_packet(0, 3, 0, {{50, {{9}}, 0}}));
  view = segments.view();
  EXPECT_EQ(
      times({of(16, 101), of(28, 201), Indices::end_of_packet(38), of(16, 51), Indices::end_of_packet(26)}),
      (std::vector<int>{50, 100, 200}));
}

TEST(FrameBuilder, TimeStaysInsideTheFrameAndRoundsHalfUp) {
  Segments segments(1);
  segments.place(0, mgp_packet(0, 3, 1,
                               {{1, {{1, -64}}, 0},
                                {65535, {{1, 60}}, 0},
                                {500, {{1, 0}, {2, 4}, {3, 4}, {4, 0}}, 0},
                                {600, {{1, 0}, {2, 0}, {3, 4}}, 0}}));
  FrameBuilder builder(segment_bytes, 1);
  const auto view = segments.view();
  const BuiltFrame& got = builder.build({view.data(), 1});
  ASSERT_EQ(got.events, 4u);
  EXPECT_EQ(std::vector<int>(got.time, got.time + 4), (std::vector<int>{0, 502, 601, 65535}));
}

TEST(FrameBuilder, AnyRowsAreSafe) {
  FrameBuilder builder(segment_bytes, 4);
  std::uint32_t events = 0;
  for (unsigned seed = 0; seed < test_rounds(600u); ++seed) {
    std::mt19937 random(seed);
    Segments segments;
    for (unsigned board = 0; board < 4; ++board) {
      auto fragments = random_events(random, board, 60);
      std::stable_sort(fragments.begin(), fragments.end(),
                       [](const TestEvent& a, const TestEvent& b) { return a.time < b.time; });
      segments.place(board, mgp_packet(board, 1, 1, fragments));
    }
    MergedBuffer buffer(segments, default_window_lsb);
    const bool noise = random() % 4 == 0;
    if (noise) std::generate(buffer.memory.begin(), buffer.memory.end(), [&] { return std::byte(random()); });
    for (unsigned i = static_cast<unsigned>(random() % 40); i > 0; --i)
      buffer.memory[random() % (random() % 2 ? 2048 : buffer.view().size())] = std::byte(random());
    if (random() % 3 == 0) buffer.memory[43] = std::byte{2};  // 512 events and more
    const BuiltFrame& got = builder.build_merged(buffer.view());
    events += got.events;
    for (std::uint32_t e = 0; e < got.events; ++e) {
      const std::uint32_t hits = got.first[e + 1] - got.first[e];
      ASSERT_LE(hits, max_event_hits);
      const PmId* pm = got.pm + got.first[e];
      for (std::uint32_t i = 0; i < hits; ++i) {
        ASSERT_LT(pm[i], pm_count);
        ASSERT_TRUE(i == 0 || pm[i - 1] < pm[i]);
      }
    }
  }
  EXPECT_GT(events, test_rounds(1000u));
}

// With any buffer contents, events are complete, PM IDs are valid and ascending, and no memory beyond the
// tail is accessed (sanitizers).
TEST(FrameBuilder, IsSafeOnAnyBytes) {
  FrameBuilder builder(segment_bytes, 4);
  for (unsigned seed = 0; seed < test_rounds(600u); ++seed) {
    std::mt19937 random(seed);
    Segments segments;
    std::generate(segments.memory.get(), segments.memory.get() + segments.bytes(),
                  [&] { return std::byte(random()); });
    for (unsigned board = 0; board < 4; ++board) {
      if (random() % 4) {  // valid packets with some corrupted bytes, so that parsing continues
        while (segments.place(board, mgp_packet(board, 1, static_cast<Sequence>(random()),
                                                random_events(random, board, 60), random() % 2 ? 16 : 0)))
          if (random() % 8 == 0) break;
        for (unsigned i = static_cast<unsigned>(random() % 50); i > 0; --i)
          segments.memory[board * segment_bytes + random() % segment_bytes] = std::byte(random());
      }
      if (random() % 2) segments.used[board] = random() % (segment_bytes + 1);
    }
    auto view = segments.view();
    std::array<std::array<std::uint32_t, 300 + contract::RecentIndices::room_behind>, 4> index;
    for (unsigned board = 0; board < 4; ++board) {
      if (random() % 2) continue;
      // Entries of any bytes, or of ascending offsets; an end where the builder looks for it.
      std::uint32_t offset = 16;
      const bool ascending = random() % 2;
      for (std::uint32_t& entry : index[board]) {
        entry = ascending ? contract::IndexEntry::of(offset, random() % 65536)
                          : static_cast<std::uint32_t>(random());
        offset += 8 + 2 * (random() % 34);
      }
      const auto events = static_cast<std::size_t>(view[board].at[6]);
      const auto length = wire::mgp::load<std::uint16_t>(view[board].at + 4);
      if (random() % 8) index[board][events] = contract::RecentIndices::end_of_packet(length);
      view[board].index = {index[board].data(), random() % 300};
    }
    const BuiltFrame& got = builder.build(view);
    ASSERT_LE(got.events, got.fragments);
    for (std::uint32_t e = 0; e < got.events; ++e) {
      const std::uint32_t hits = got.first[e + 1] - got.first[e];
      ASSERT_LE(hits, max_event_hits);
      const PmId* pm = got.pm + got.first[e];
      for (std::uint32_t i = 0; i < hits; ++i) {
        ASSERT_LT(pm[i], pm_count);
        ASSERT_TRUE(i == 0 || pm[i - 1] < pm[i]);
      }
    }
    std::vector<std::uint16_t> order(got.order, got.order + got.events);
    std::sort(order.begin(), order.end());
    for (std::uint32_t i = 0; i < got.events; ++i) ASSERT_EQ(order[i], i);
  }
}

}  // namespace
}  // namespace nanet::trigger
