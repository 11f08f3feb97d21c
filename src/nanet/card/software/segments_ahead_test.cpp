// SPDX-License-Identifier: Apache-2.0
// Tests of segments that reading threads write to mailboxes: equal bytes, one content for each number,
// numbers that go without mailbox, and threads beside the card's.
#include "nanet/card/software/segments_ahead.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/software/mailbox_rig_test.hpp"
#include "nanet/contract/fragment_index.hpp"

namespace nanet::card {
namespace {

constexpr std::size_t readable_beyond = 64;

// A packet as a reading thread hands it over.
struct Handed {
  std::vector<std::byte> bytes;  // of the packet, and readable ones behind it
  std::vector<std::uint32_t> listed;
  wire::mgp::Checked checked;
  WrittenSegment written;
  std::span<const std::byte> datagram() const { return {bytes.data(), bytes.size() - readable_beyond}; }
};

class AheadRig : public MailboxRig {
 public:
  explicit AheadRig(const ClopOptions& options = rig_options()) : MailboxRig(options) {
    ahead = stream.write_ahead();
    EXPECT_NE(ahead, nullptr);
    for (auto& lane : lanes) ahead->add(lane);
    EXPECT_TRUE(stream.use_mailboxes({&mailbox, 1}));
  }
  // In the thread of a lane.
  Handed read(unsigned lane, std::vector<std::byte> bytes, const wire::mgp::Rules& rules = {}) {
    Handed h{std::move(bytes), std::vector<std::uint32_t>(wire::mgp::max_fragments), {}, {}};
    h.bytes.resize(h.bytes.size() + readable_beyond);
    EXPECT_TRUE(ahead->begin(lanes[lane]));
    h.checked = wire::mgp::validate(h.datagram(), rules, h.listed);
    h.written = ahead->write(lanes[lane], h.checked, h.datagram(), true);
    SegmentsAhead::end(lanes[lane]);
    return h;
  }
  // In the card's thread.
  void place(const Handed& h) { stream.receiver().checked_packet(h.datagram(), h.checked, h.written, now); }
  // Segment of a frame with mailbox, from the mailbox, as a consumer reads it; expects that it equals the
  // CLOP's, and so does its index.
  std::vector<std::byte> expect_equal(const Event& e, const contract::EventLine& line, unsigned b) const {
    const std::uint32_t bytes = header(e).board[b].bytes;
    EXPECT_EQ(line.bytes[b], bytes);
    auto got = segment(n_of(e), e.buffer, b, bytes);
    const std::byte* const clop = views[0].segment(e.buffer, b);
    EXPECT_EQ(got.size(), bytes);
    // Bytes behind the first packet, up to a multiple of 16, mean nothing.
    const std::size_t length = bytes ? wire::mgp::decode_header(clop).length : 0,
                      next = (length + 15) / 16 * 16;
    EXPECT_EQ(std::memcmp(got.data(), clop, length), 0);
    if (bytes > next) {
      EXPECT_EQ(std::memcmp(got.data() + next, clop + next, bytes - next), 0);
    }
    if (line.flags & contract::EventLine::indexed) {
      std::vector<std::uint32_t> entries(contract::index_entries);
      const std::uint32_t fragments = contract::index_fragments(clop, bytes, entries);
      EXPECT_EQ(line.bytes[contract::index_boards + b], fragments);
      for (std::uint32_t i = 0; i < fragments && i < contract::index_entries; ++i) {
        std::uint32_t unit[3];
        EXPECT_TRUE(contract::load_unit(
            mailbox.input + mailbox.shape.index(e.buffer, b) + contract::unit_bytes * (i / 3),
            contract::mailbox_mark(n_of(e)), reinterpret_cast<std::byte*>(unit)));
        EXPECT_EQ(unit[i % 3], entries[i]);
      }
    }
    return got;
  }

  SegmentsAhead* ahead = nullptr;
  SegmentsAhead::Lane lanes[2] = {SegmentsAhead::Lane(0), SegmentsAhead::Lane(1)};
};

Packet single(BoardId board, Frame frame) {
  return {.board = board, .frame = frame, .events = 1 + frame % 3, .hits = 1 + 2 * (frame % 5)};
}

TEST(SegmentsAhead, AreThoseOfTheCardsThread) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig(rig_options(64));
  rig.sobs();
  std::uint64_t k = 0;
  unsigned written = 0, frames = 0;
  for (Frame f = 0; f < 300; ++f) {
    for (BoardId b = 0; b < 4; ++b) {
      const Handed h = rig.read(b % 2, build(single(b, f), f + 1));
      written += h.written.n == f;
      rig.place(h);
    }
    for (const Event& e : rig.take(0)) {
      contract::EventLine line;
      ASSERT_TRUE(rig.line(k++, line));
      if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      ++frames;
      ASSERT_EQ(line.flags, contract::EventLine::segments | contract::EventLine::indexed);
      for (unsigned b = 0; b < 4; ++b) rig.expect_equal(e, line, b);
      rig.answer(e);
    }
    rig.send();
    rig.expire(rig.now);
  }
  EXPECT_EQ(frames, 300u);
  EXPECT_EQ(written, 1200u);
  rig.finish();
}

TEST(SegmentsAhead, OfJumboPacketsFillTheSegment) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig;
  rig.sobs();
  wire::mgp::Rules rules;
  rules.max_payload = 8972;
  for (BoardId b = 0; b < 4; ++b) {  // 251 fragments of 16 B
    const Handed h = rig.read(b % 2, build({.board = b, .frame = 0, .events = 251, .hits = 4}, 1), rules);
    EXPECT_TRUE(h.written.in_mailbox);
    EXPECT_EQ(h.written.units, contract::units_for(contract::mailbox_segment_bytes));
    rig.place(h);
  }
  unsigned frames = 0;
  for (const Event& e : rig.take(0)) {
    contract::EventLine line;
    if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
    ++frames;
    ASSERT_TRUE(rig.line(1, line));
    ASSERT_EQ(line.flags, contract::EventLine::segments | contract::EventLine::indexed);
    for (unsigned b = 0; b < 4; ++b)
      EXPECT_EQ(rig.expect_equal(e, line, b).size(), contract::mailbox_segment_bytes);
    rig.answer(e);
  }
  EXPECT_EQ(frames, 1u);
  rig.finish();
}

TEST(SegmentsAhead, WaitForTheBufferAndForTheBurst) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig(rig_options(8));
  const auto n_of = [&](BoardId b, Frame f, Sequence s) {
    return rig.read(0, build(single(b, f), s)).written.n;
  };
  EXPECT_EQ(n_of(0, 0, 1), WrittenSegment::none);  // no burst has begun
  rig.sobs();
  EXPECT_EQ(n_of(0, 1, 2), 1u);
  EXPECT_EQ(n_of(0, 1, 2), WrittenSegment::none);  // once for each number
  EXPECT_EQ(n_of(0, 0, 3), WrittenSegment::none);  // in ascending order
  EXPECT_EQ(n_of(0, 9, 4), WrittenSegment::none);  // the buffer is in use, as far as is known
  EXPECT_EQ(rig.read(0, build({.board = 1, .frame = 2, .burst = first_burst + 1}, 1)).written.n,
            WrittenSegment::none);
  EXPECT_EQ(rig.read(0, build({.board = 1, .frame = 2, .last = false}, 2)).written.n, WrittenSegment::none);
  rig.stream.use_mailboxes({});
  EXPECT_FALSE(rig.ahead->begin(rig.lanes[0]));
}

TEST(SegmentsAhead, ANumberWithAnotherContentGoesWithoutMailbox) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig;
  rig.sobs();
  std::uint64_t entries = 0;
  const auto flags_of = [&](Frame f, const std::vector<Handed>& packets) {
    for (const Handed& h : packets) rig.place(h);
    for (BoardId b = 1; b < 4; ++b) rig.place(rig.read(0, build(single(b, f), f + 1)));
    rig.expire(rig.now + 2000);
    std::uint32_t flags = ~0u;
    std::uint64_t k = entries;
    for (const Event& e : rig.take(0)) {
      contract::EventLine line;
      EXPECT_TRUE(rig.line(k++, line));
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) {
        EXPECT_EQ(e.frame, f);
        flags = line.flags;
        rig.answer(e);
      }
    }
    entries = k + rig.send();
    rig.take(0);
    return flags;
  };
  constexpr std::uint32_t all = contract::EventLine::segments | contract::EventLine::indexed;
  EXPECT_EQ(flags_of(0, {rig.read(0, build(single(0, 0), 1))}), all);
  // Refused for its sequence number, then another packet of the same frame.
  EXPECT_EQ(
      flags_of(1, {rig.read(0, build(single(0, 1), 1)), rig.read(0, build({.frame = 1, .hits = 7}, 2))}), 0u);
  EXPECT_EQ(flags_of(2, {rig.read(0, build(single(0, 2), 3))}), all);
  // By another thread, after the board's own has written the number; then both alone.
  const Handed own = rig.read(0, build(single(0, 3), 4));
  EXPECT_EQ(own.written.n, 3u);
  const Handed other = rig.read(1, build({.frame = 3, .hits = 9}, 4));
  EXPECT_TRUE(other.written.foreign);
  EXPECT_EQ(flags_of(3, {other}), 0u);
  rig.place(own);                                                      // after the frame
  EXPECT_EQ(flags_of(4, {rig.read(1, build(single(0, 4), 5))}), all);  // the card's thread writes it
  const Handed late = rig.read(0, build(single(0, 5), 6));
  EXPECT_EQ(late.written.n, WrittenSegment::none);  // shared boards are not written ahead
  EXPECT_EQ(flags_of(5, {late}), all);
  EXPECT_EQ(flags_of(6, {}), 0u);  // incomplete: the missing packet may come
  rig.stream.use_mailboxes({});
  rig.finish();
}

// Bytes of a segment's packets; those between them mean nothing.
std::vector<std::byte> packets_of(const std::byte* segment, std::uint32_t bytes) {
  std::vector<std::byte> all;
  for (std::uint32_t at = 0; at < bytes;) {
    const std::uint32_t length = wire::mgp::decode_header(segment + at).length;
    all.insert(all.end(), segment + at, segment + at + length);
    at += (length + 15) / 16 * 16;
  }
  return all;
}

// Random packets, some of them hostile: CLOP and event are those of a card without reading threads; and
// whatever a consumer has seen in a segment with the mark of n is what n has in the end, if n's event line
// announces it.
TEST(SegmentsAhead, KeepTheirContentUnderHostilePackets) {
  if (!contract::has_mailbox) GTEST_SKIP();
  std::mt19937 random(3);
  unsigned with = 0, without = 0;
  for (unsigned round = 0; round < 40; ++round) {
    AheadRig rig(rig_options(16));
    MailboxRig plain(rig_options(16));
    rig.sobs();
    plain.sobs();
    std::uint64_t k = 0;
    std::array<Sequence, 4> next{1, 1, 1, 1};
    std::map<std::pair<std::uint64_t, unsigned>, std::vector<std::byte>> seen;
    std::vector<Handed> way[2];  // handed over and not yet placed
    for (Frame f = 0; f < 120; ++f) {
      for (BoardId b = 0; b < 4; ++b) {
        const unsigned extra = random() % 8 == 0 ? 1 + random() % 2 : 0;
        for (unsigned i = 0; i <= extra; ++i) {
          Packet p = single(b, f);
          if (i < extra) p.frame += random() % 3;  // a false one first
          p.hits = 1 + 2 * (random() % 5);
          if (random() % 50 == 0) p.last = false;
          const Sequence s = i < extra && random() % 2 ? next[b] - random() % 2 : next[b]++;
          const unsigned lane = random() % 200 == 0 ? 1 - b % 2 : b % 2;
          way[lane].push_back(rig.read(lane, build(p, s)));
          const Handed& h = way[lane].back();
          if (h.written.n == WrittenSegment::none) continue;
          const std::uint32_t buffer = rig.views[0].buffer_of(h.written.n);
          seen[{h.written.n, b}] =
              rig.segment(h.written.n, buffer, b, static_cast<std::uint32_t>(h.datagram().size() / 16 * 16));
        }
      }
      for (auto& lane : way) {
        while (!lane.empty() && (lane.size() > 6 || random() % 4)) {
          rig.place(lane.front());
          const Handed& h = lane.front();
          plain.stream.receiver().checked_packet(h.datagram(), h.checked, WrittenSegment{}, plain.now);
          lane.erase(lane.begin());
        }
      }
      rig.expire(rig.now + 300);
      plain.expire(plain.now + 300);
      const auto expected = plain.take(0);
      std::size_t i = 0;
      for (const Event& e : rig.take(0)) {
        contract::EventLine line;
        ASSERT_TRUE(rig.line(k++, line));
        ASSERT_LT(i, expected.size());
        const Event& other = expected[i++];
        ASSERT_EQ(std::memcmp(&e, &other, sizeof e), 0);
        if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
        for (unsigned b = 0; b < 4; ++b) {
          const std::uint32_t bytes = plain.header(other).board[b].bytes;
          ASSERT_EQ(rig.header(e).board[b].bytes, bytes);
          EXPECT_EQ(packets_of(rig.views[0].segment(e.buffer, b), bytes),
                    packets_of(plain.views[0].segment(e.buffer, b), bytes));
        }
        plain.answer(other);
        if (line.flags & contract::EventLine::segments) {
          ++with;
          for (unsigned b = 0; b < 4; ++b) {
            const auto got = rig.expect_equal(e, line, b);
            const auto before = seen.find({rig.n_of(e), b});
            if (before == seen.end()) continue;
            ASSERT_LE(before->second.size(), got.size());
            EXPECT_TRUE(std::equal(before->second.begin(), before->second.end(), got.begin()));
          }
        } else {
          ++without;
        }
        rig.answer(e);
      }
      k += rig.send();
      rig.take(0);
      plain.send();
      plain.take(0);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with, 500u);
  EXPECT_GT(without, 100u);
}

// A board's frame has not come in time, and its buffer gets the next number: the thread that still writes the
// old one keeps the card from using the buffer, and one that has not begun writes nothing.
TEST(SegmentsAhead, ABufferIsNotUsedWhileItsLastNumberIsBeingWritten) {
  if (!contract::has_mailbox) GTEST_SKIP();
  constexpr Frame buffers = 8;
  AheadRig rig(rig_options(buffers));
  rig.sobs();
  const auto frame_without_board_0 = [&](Frame f) {
    for (BoardId b = 1; b < 4; ++b) rig.place(rig.read(1, build(single(b, f), f + 1)));
    rig.expire(rig.now + 2000);
    bool used = false;
    for (const Event& e : rig.take(0)) {
      if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      EXPECT_EQ(e.frame, f);
      used = true;
      rig.answer(e);
    }
    rig.send();
    rig.take(0);
    return used;
  };
  for (Frame f = 0; f + 1 < buffers; ++f) EXPECT_TRUE(frame_without_board_0(f));
  // The thread of board 0 is stopped while it writes frame 7.
  const Handed in_time = rig.read(0, build(single(0, buffers - 1), buffers));
  EXPECT_EQ(in_time.written.n, buffers - 1);
  EXPECT_TRUE(rig.ahead->begin(rig.lanes[0]));
  for (Frame f = buffers - 1; f < 2 * buffers - 1; ++f) EXPECT_TRUE(frame_without_board_0(f));
  EXPECT_FALSE(frame_without_board_0(2 * buffers - 1));  // an overrun
  SegmentsAhead::end(rig.lanes[0]);
  for (Frame f = 2 * buffers; f < 4 * buffers; ++f) EXPECT_TRUE(frame_without_board_0(f));
  // Late: the numbers after these have had the buffers.
  EXPECT_EQ(rig.read(0, build(single(0, 2 * buffers), 2 * buffers + 1)).written.n, WrittenSegment::none);
  rig.stream.use_mailboxes({});
  rig.finish();
}

// As the card's thread itself, which may still read the segments for the passing of a number.
TEST(SegmentsAhead, WaitUntilTheLastNumberOfABufferHasPassed) {
  if (!contract::has_mailbox) GTEST_SKIP();
  constexpr Frame buffers = 8;
  AheadRig rig(rig_options(buffers));
  rig.sobs();
  for (Frame f = 0; f < 2; ++f)
    for (BoardId b = 0; b < 4; ++b) rig.place(rig.read(0, build(single(b, f), f + 1)));
  for (const Event& e : rig.take(0))
    if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) rig.answer(e);
  EXPECT_EQ(rig.read(0, build(single(0, buffers), buffers + 1)).written.n, WrittenSegment::none);
  rig.send();
  rig.expire(rig.now);
  EXPECT_EQ(rig.read(0, build(single(0, buffers + 1), buffers + 2)).written.n, buffers + 1);
  rig.stream.use_mailboxes({});
  rig.finish();
}

// A board sends frames beyond the end of its burst: the numbers belong to the next one.
TEST(SegmentsAhead, NumbersWrittenForTheLastBurstGoWithoutMailbox) {
  if (!contract::has_mailbox) GTEST_SKIP();
  constexpr std::uint8_t second = first_burst + 1;
  AheadRig rig(rig_options(16));
  rig.sobs();
  for (BoardId b = 0; b < 4; ++b) rig.place(rig.read(0, build(single(b, 0), 1)));
  EXPECT_EQ(rig.read(0, build(single(0, 2), 2)).written.n, 2u);  // not placed
  std::map<std::uint64_t, std::uint32_t> flags;
  std::uint64_t k = 0;
  const auto serve = [&] {
    for (const Event& e : rig.take(0)) {
      contract::EventLine line;
      ASSERT_TRUE(rig.line(k++, line));
      if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      flags[rig.n_of(e)] = line.flags;
      rig.answer(e);
    }
    k += rig.send();
    rig.take(0);
    rig.expire(rig.now);
  };
  serve();
  rig.eobs(0);
  rig.sobs(second);
  std::vector<Handed> sent;
  for (Frame f = 0; f < 3; ++f)
    for (BoardId b = 0; b < 4; ++b) {
      Packet p = single(b, f);
      p.burst = second;
      p.hits = 9;
      sent.push_back(rig.read(0, build(p, f + 1)));
      rig.place(sent.back());
    }
  for (const Handed& h : sent) {
    const wire::mgp::Header header = h.checked.header;
    const std::byte* const segment =
        rig.views[0].segment(rig.views[0].buffer_of(1 + header.frame), header.board);
    EXPECT_EQ(std::memcmp(segment, h.bytes.data(), header.length), 0);
  }
  serve();
  constexpr std::uint32_t all = contract::EventLine::segments | contract::EventLine::indexed;
  ASSERT_EQ(flags.size(), 4u);
  EXPECT_EQ(flags[0], all);
  EXPECT_EQ(flags[1], 0u);  // of the second burst
  EXPECT_EQ(flags[2], 0u);
  EXPECT_EQ(flags[3], all);
  rig.stream.use_mailboxes({});
  rig.finish();
}

TEST(SegmentsAhead, UnseenPacketsEndTheWriting) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig;
  rig.sobs();
  EXPECT_EQ(rig.read(0, build(single(0, 0), 1)).written.n, 0u);
  rig.ahead->distrust();
  EXPECT_EQ(rig.read(0, build(single(0, 1), 2)).written.n, WrittenSegment::none);
  rig.stream.use_mailboxes({});
  rig.finish();
}

TEST(SegmentsAhead, ThreadsReadWhileTheCardPlaces) {
  if (!contract::has_mailbox) GTEST_SKIP();
  AheadRig rig(rig_options(64));
  rig.now = 1'000'000'000;
  rig.sobs();
  constexpr Frame frames = 4000;
  std::mutex mutex;
  std::vector<Handed> ring[2];
  std::atomic<Frame> placed{0};
  std::vector<std::jthread> threads;
  for (unsigned lane = 0; lane < 2; ++lane)
    threads.emplace_back([&, lane] {
      for (Frame f = 0; f < frames; ++f) {
        while (f > placed.load() + 40) std::this_thread::yield();
        for (BoardId b = static_cast<BoardId>(lane); b < 4; b = static_cast<BoardId>(b + 2)) {
          Handed h = rig.read(lane, build(single(b, f), f + 1));
          const std::scoped_lock lock(mutex);
          ring[lane].push_back(std::move(h));
        }
      }
    });
  std::uint64_t k = 0, got = 0, with = 0;
  while (got < frames) {
    for (auto& lane : ring) {
      std::vector<Handed> some;
      {
        const std::scoped_lock lock(mutex);
        some.swap(lane);
      }
      for (const Handed& h : some) rig.place(h);
    }
    for (const Event& e : rig.take(0)) {
      contract::EventLine line;
      ASSERT_TRUE(rig.line(k++, line));
      if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      ++got;
      if (line.flags & contract::EventLine::segments) {
        ++with;
        for (unsigned b = 0; b < 4; ++b) rig.expect_equal(e, line, b);
      }
      rig.answer(e);
    }
    k += rig.send();
    rig.take(0);
    rig.expire(rig.now);
    placed = static_cast<Frame>(got);
  }
  threads.clear();
  EXPECT_EQ(with, frames);
  rig.stream.use_mailboxes({});
  rig.finish();
}

}  // namespace
}  // namespace nanet::card
