// SPDX-License-Identifier: Apache-2.0
// A frame processed as in a thread block, on the CPU thread by thread, and by the CPU's frame processor: for
// tests that both give equal packets and counts for any bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "nanet/card/software/frame_merger.hpp"
#include "nanet/contract/fragment_index.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/frame/frame.hpp"
#include "nanet/gpu/resident/sampled.hpp"
#include "nanet/rich/reconstructor.hpp"
#include "nanet/trigger/build/hit_times.hpp"
#include "nanet/trigger/executors/frame_processor.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {

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

// A mailbox as a consumer on the CPU reads it.
struct TestLines {
  static constexpr bool prepared = false;
  struct Unit {
    std::uint32_t word[4] = {};
  };
  const contract::Mailbox* mailbox;
  std::uint64_t n;
  std::uint32_t buffer;
  contract::EventLine line;

  bool used() const { return line.flags & (contract::EventLine::segments | contract::EventLine::merged); }
  static void await_entry() {}
  std::uint32_t bytes(unsigned b) const { return line.bytes[b]; }
  bool indexed() const { return line.flags & contract::EventLine::indexed; }
  std::uint32_t fragments(unsigned b) const { return line.bytes[contract::index_boards + b]; }
  static std::uint32_t early() { return 0; }
  static std::uint32_t stale() { return 0; }
  bool merged() const { return line.flags & contract::EventLine::merged; }
  std::uint32_t rows() const { return line.bytes[0]; }
  std::uint32_t hits() const { return line.bytes[1]; }
  std::uint32_t most_merged_bytes() const { return mailbox->shape.merged_bytes(); }
  Unit merged_unit(std::uint32_t u) const { return unit(mailbox->shape.segment(buffer, 0), u); }
  std::uint32_t mark() const { return contract::mailbox_mark(n); }
  struct Board {
    using Unit = TestLines::Unit;
    const TestLines& lines;
    std::size_t at;
    std::uint32_t mark;
    Unit unit(std::uint32_t offset) const { return lines.unit(at + offset, 0); }
  };
  Board board(unsigned b) const { return {*this, mailbox->shape.segment(buffer, b), mark()}; }
  Unit segment(unsigned b, std::uint32_t u) const { return unit(mailbox->shape.segment(buffer, b), u); }
  Unit index(unsigned b, std::uint32_t u) const { return unit(mailbox->shape.index(buffer, b), u); }
  Unit unit(std::size_t from, std::uint32_t u) const {
    Unit unit{};
    unit.word[3] = contract::load_unit(mailbox->input + from + contract::unit_bytes * u,
                                       reinterpret_cast<std::byte*>(unit.word));
    return unit;
  }
};

// The same after BufferWork::prepare() and FrameWork::begin().
struct AsResident : TestLines {
  static constexpr bool prepared = true;
  std::uint32_t had = 0, old = 0;

  explicit AsResident(const TestLines& lines) : TestLines(lines) {}
  std::uint32_t early() const { return had; }
  std::uint32_t stale() const { return old; }
};

// Test's part in a mailbox before it is read; fragments: of each board, in the event line.
using ChangeIndex =
    std::function<void(const contract::Mailbox&, std::uint32_t buffer, std::uint16_t* fragments)>;

// One buffer of contract memory, its event, and both implementations. merges: of a merging card.
template <class A, bool merges = false>
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
    const std::vector<rich::Point> plane = rich::plane_table(geometry_);
    for (std::uint32_t pm = 0; pm < plane.size(); ++pm)
      PlaneOf<A>::set(algorithm_, plane_.data(), pm, plane[pm]);
    const contract::Shape& shape = memory_.view().shape;
    sizes_ = BufferSizes::of(shape);
    large_.resize(sizes_.large_bytes());
    small_.resize(sizes_.shared_bytes());
    rings_.resize(sizes_.fragments);
    const auto lines = contract::MailboxShape::of(shape);
    const auto allocate = [](std::size_t bytes) {
      return std::unique_ptr<std::byte, Free>(
          static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
    };
    input_ = allocate(lines.input_bytes());
    std::memset(input_.get(), 0, lines.input_bytes());
    mailbox_ = {lines, input_.get(), nullptr};
  }
  std::byte* buffer() { return memory_.view().buffer(3); }
  const contract::Shape& shape() const { return memory_.view().shape; }
  contract::FrameHeader& header() { return *reinterpret_cast<contract::FrameHeader*>(buffer()); }

  // Appends a packet to a board's segment as the card does.
  void place(unsigned board, const trigger::Bytes& packet) {
    auto& used = header().board[board].bytes;
    if (used + packet.size() > shape().segment_bytes) return;
    std::memcpy(memory_.view().segment(3, board) + used, packet.data(), packet.size());
    used = static_cast<std::uint16_t>(used + (packet.size() + 15) / 16 * 16);
  }
  // Merges the segments as the card does. Returns whether the buffer is merged.
  bool merge(std::int32_t window) {
    contract::FrameHeader merged = header();
    event_bytes_ = card::FrameMerger(shape(), window)(buffer(), merged);
    header() = merged;
    return event_bytes_ != 0;
  }

  // change: of the index, before the frame is processed from the mailbox too.
  void compare(std::uint16_t flags, Frame frame, const trigger::ProcessOptions& options = {},
               const ChangeIndex& change = {}) {
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
    if (merges && seen_ % 2) seen_ = event_bytes_;
    check(event, options, expected, words, NoLines{});
    if (!sizes_.frame || !contract::has_mailbox) return;
    if constexpr (merges) {
      const TestLines lines = write_merged();
      if (lines.used() && !testing::Test::HasFailure()) check(event, options, expected, words, lines);
      return;
    }
    const TestLines lines = write_lines(change);
    if (lines.used() && !testing::Test::HasFailure()) check(event, options, expected, words, lines);
  }

 private:
  TestLines write_merged() {
    TestLines lines{&mailbox_, ++n_, 3, {}};
    if (header().layout != contract::Layout::merged) return lines;
    const auto extent =
        contract::MergedExtent::of(header().events, header().rows, header().hits, shape().buffer_bytes());
    // The card's header has no more than the extent.
    if (extent.rows != header().events || extent.hits != header().hits) return lines;
    if (!contract::MailboxWriter(mailbox_).merged(n_, 3, buffer())) return lines;
    lines.line.flags = contract::EventLine::merged;
    lines.line.bytes[0] = header().events;
    lines.line.bytes[1] = header().hits;
    ++by_lines;
    return lines;
  }
  // Writes the frame to the mailbox as the card does.
  TestLines write_lines(const ChangeIndex& change) {
    const contract::View& view = memory_.view();
    contract::MailboxWriter writer(mailbox_);
    TestLines lines{&mailbox_, ++n_, 3, {}};
    lines.line.flags = contract::EventLine::segments | contract::EventLine::indexed;
    const bool indexed = shape().boards <= contract::index_boards;
    if (!indexed) lines.line.flags = contract::EventLine::segments;
    for (unsigned b = 0; b < shape().boards; ++b) {
      const auto bytes = std::min<std::uint32_t>(header().board[b].bytes, shape().segment_bytes);
      if (!writer.holds(bytes)) return {};
      lines.line.bytes[b] = static_cast<std::uint16_t>(bytes);
      writer.segment(n_, 3, b, view.segment(3, b), 0, bytes, true);
      if (!indexed) continue;
      const std::uint32_t fragments = writer.index(n_, 3, b, view.segment(3, b), bytes);
      if (fragments == contract::no_index && !change) lines.line.flags = contract::EventLine::segments;
      lines.line.bytes[contract::index_boards + b] =
          fragments == contract::no_index ? std::uint16_t{0} : static_cast<std::uint16_t>(fragments);
    }
    if (!indexed) return lines;
    if (change) change(mailbox_, 3, lines.line.bytes + contract::index_boards);
    // Units that no writer has touched, but the line claims.
    for (unsigned b = 0; b < shape().boards; ++b)
      for (std::uint32_t u = 0; u < contract::index_units; ++u) {
        const std::uint32_t mark = contract::mailbox_mark(n_);
        std::memcpy(mailbox_.input + mailbox_.shape.index(3, b) + contract::unit_bytes * u + 12, &mark, 4);
      }
    return lines;
  }

  template <class Lines>
  void check(const contract::Event& event, const trigger::ProcessOptions& options,
             const trigger::Trace& expected, const std::vector<std::uint32_t>& words, const Lines& lines) {
    const contract::View& view = memory_.view();
    const Frame frame = event.frame;
    const auto bytes = static_cast<std::uint32_t>(4 * words.size());
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
    constexpr bool in_mailbox = !std::is_same_v<Lines, NoLines>;
    constexpr std::uint32_t untouched = 12'345;
    shared->merge.payloads[0] = untouched;  // Merger lists packets; with an index nothing does
    shared->merge.count[0] = untouched;     // so with RowBuilder and MergedFrame
    FrameWork<A, Block, merges> work(algorithm, o, *shared, workspace);
    BufferWork<A, Block, merges> buffer_work(view.shape, sizes_, *shared, small_.data(), large_.data(),
                                             room_);
    struct Copy {
      void operator()(std::byte* to, const std::byte* from, std::uint32_t n) const {
        std::memcpy(to, from, n);
      }
      void wait() const {}
    };
    const auto clock = [] { return Nanoseconds{7}; };
    const auto run = [&](const auto& from) {
      buffer_work.run(
          work, buffer(), event.flags, frame, seen_, Copy{}, clock, [](const auto&, std::uint32_t) {}, from);
    };
    bool indexed = false;
    if constexpr (in_mailbox && !merges) indexed = lines.indexed();
    if (!indexed) {
      run(lines);
    } else if constexpr (in_mailbox && !merges) {
      // In the order of the resident kernel: some units have been copied before the event is known, of this
      // frame or of another one; if all have, fragments and events are worked on before it too.
      const std::uint32_t choice = (seen_ + static_cast<std::uint32_t>(n_)) * 2654435761u >> 8;
      const bool other = choice % 4 == 1, works = choice / 4 % 4;
      std::vector<typename MailboxUnits<Block>::Early> early(Block::threads());
      const auto each = [&](const auto& f) {
        for (unsigned t = 0; t < Block::threads(); ++t) f(t, buffer_work.of(t), early[t]);
      };
      const Tables tables = buffer_work.small_tables();
      const auto fragments =
          buffer_work.fragment_work(tables, plane_.data(), work.window(), workspace.conditions);
      const auto read = [&] { Block::groups([&](unsigned g, unsigned n) { fragments.work(g, n); }); };
      work.begin();
      each([&](unsigned t, const auto&, const auto&) { buffer_work.prepare(t); });
      const std::uint32_t looks = choice / 16 % 5 ? ~0u : choice;
      each([&](unsigned, const auto& units, auto& of) {
        of.missing = buffer_work.possible(units, mailbox_.shape.segment_bytes) & looks;
        if (!units.used()) return;
        const auto index_at = static_cast<std::uint32_t>(mailbox_.shape.segment_stride());
        buffer_work.look(lines.board(units.board()), buffer_work.places(units, index_at), choice % 11 != 0,
                         of);
      });
      bool all = true;
      each([&](unsigned, const auto& units, auto& of) {
        all = (!units.used() || buffer_work.holds(units, buffer_work.places(units, 0), lines.mark(), of)) &&
              all;
      });
      const bool usual = buffer_work.is_usual(lines) && work.takes_index(),
                 actual = is_incomplete(event.flags);
      BuiltFrame built;
      bool done = false;
      if (all && !other && works) {
        ++ahead_of_line;
        const bool before = choice / 80 % 3;  // the event line comes after the events are built
        const Frame number = before ? buffer_work.frame_by_header() : frame;
        const ThreadUnits<Block>::Roles roles(shape().boards, Block::threads());
        ASSERT_TRUE(ThreadUnits<Block>::has_roles(shape().boards, Block::threads()));
        // As few groups as in a block of a GPU, or as many as there are.
        const unsigned of_board = choice % 5 ? 1 + choice % 2 : roles.of_board,
                       joiners = choice % 7 ? 1 + choice % 3 : roles.joiners;
        const auto build_ahead = [&] {
          each([&](unsigned t, const auto& units, const auto& of) {
            if (t < roles.readers) {
              if (units.used() && units.group() < of_board)
                fragments.read_board(units.board(), of.size, units.group(), of_board);
            } else if (t < roles.readers + joiners) {
              fragments.join_all(t - roles.readers, joiners);
            }
          });
          fragments.read_rest(of_board);
          built = buffer_work.template build<Block>(work, number, !before && actual, [] {});
        };
        if (choice / 240 % 2) {  // a frame that another block has got
          build_ahead();
          buffer_work.template drop<Block>();
        }
        build_ahead();
        done = usual && buffer_work.is_held(lines) && number == frame && (!before || !actual);
        refused += usual && !done;
        if (!done) buffer_work.template drop<Block>();
      }
      if (!done && usual) {
        each([&](unsigned t, const auto& units, const auto& of) {
          AsResident resident_lines{lines};
          (other ? resident_lines.old : resident_lines.had) = of.had;
          for (unsigned j = 0; j < ThreadUnits<Block>::most; ++j)
            if (resident_lines.old >> j & 1 && units.of_index(j))
              shared->merge.index[units.board()][3 * units.in_index(j)] = 7;
          buffer_work.complete(t, resident_lines);
          buffer_work.note_sizes(units, lines);
        });
        read();
        built = buffer_work.template build<Block>(work, frame, actual, [] {});
        done = buffer_work.is_held(lines);
      }
      if (done && built.events != BuiltFrame::none) {
        bool answered = false;
        if constexpr (Summed<A>)
          answered = buffer_work.template answer<Block>(work, built, frame, actual, clock, AnswerLines{});
        buffer_work.finish_built(work, built.events, answered, event.flags, frame, clock, AnswerLines{});
      } else {
        work.begin();
        AsResident rest{lines};
        rest.had = other ? 0 : ~0u;  // units that all threads have
        each([&](unsigned, const auto& units, const auto& of) {
          if (units.used()) rest.had &= of.had;
        });
        run(rest);
      }
    }
    if (in_mailbox && shared->merge.payloads[0] == untouched) {
      ++by_index;
      events_by_index += shared->events;
    }
    by_rows += merges && shared->merge.count[0] == untouched;
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
  void compare_times(const FrameWork<A, Block, merges>& work, std::int32_t window) {
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
      if (merges && work.shared().rows.at) {
        trigger::set_hit_times(event, std::span(buffer(), shape().buffer_bytes()), e);
        copy_row<Block>(work.shared().rows, e, *sample);
        ++rows;
      } else {
        trigger::set_hit_times(event, payloads, built.opened, window);
        copy_payloads<Block>(work.shared(), *sample);
      }
      const stats::EventSample sampled = sampled_event(*sample, static_cast<std::uint32_t>(window));
      if (large && sample->merged_bytes == 0) event.clear_times();
      EXPECT_TRUE(std::ranges::equal(sampled.late, event.late));
      for (unsigned i = 0; i < built.hits; ++i) timed += sampled.late[i] != stats::EventSample::no_time;
      hits += built.hits;
    }
  }

 public:
  std::uint64_t events = 0, masked = 0, downscaled = 0, hits = 0, timed = 0;
  std::uint64_t by_index = 0, events_by_index = 0;  // frames built by their index, and their events
  std::uint64_t ahead_of_line = 0;       // frames whose fragments were joined before the event line
  std::uint64_t refused = 0;             // held frames that did not fit their event line
  std::uint64_t by_rows = 0;             // merged frames that MergedFrame answered
  std::uint64_t by_lines = 0, rows = 0;  // merged frames in the mailbox; events of merged frames

 private:
  struct Free {
    void operator()(std::byte* at) const { std::free(at); }
  };
  std::uint32_t seen_ = 0, event_bytes_ = 0;
  std::uint64_t n_ = 0;
  std::unique_ptr<std::byte, Free> input_;
  contract::Mailbox mailbox_;
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

inline trigger::Conditions random_conditions(std::mt19937& random, unsigned masked) {
  trigger::Conditions c;
  for (unsigned i = 0; i < masked; ++i) c.masked[random() % pm_count] = 1;
  for (auto& t0 : c.t0) t0 = static_cast<std::int16_t>(random() % 200) - 100;
  c.name = "random";
  return c;
}

}  // namespace nanet::gpu
