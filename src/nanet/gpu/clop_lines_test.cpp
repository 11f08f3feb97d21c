// SPDX-License-Identifier: Apache-2.0
// Device library with a mailbox, a host thread per block: the event line, segments and answers as lines, what
// the CLOP gives where lines are missing, laps, and the card's datapath at full speed.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gpu/frames_test.hpp"
#include "nanet/gpu/host_clop_test.hpp"

namespace nanet::gpu {
namespace {

using contract::EventLine;
using contract::EventType;

struct Free {
  void operator()(std::byte* at) const { std::free(at); }
};
using Bytes = std::unique_ptr<std::byte, Free>;
Bytes aligned(std::size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  Bytes made(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  std::memset(made.get(), 0, bytes);
  return made;
}

constexpr std::uint32_t stride = 2048;

contract::Shape small() {
  contract::Shape s;
  s.gather = contract::Gather::frame;
  s.boards = 3;
  s.segment_bytes = 4096;
  s.buffers = s.descriptors = 16;
  s.events = 64;
  return s;
}

// A card that writes the lines and the CLOP, each with its own bytes, so that a test sees which were read.
class Card {
 public:
  Card() : memory(small()), consumer(memory.view()) {
    const auto shape = contract::MailboxShape::of(small());
    input_ = aligned(shape.input_bytes());
    answers_ = aligned(shape.answer_bytes());
    mailbox = {shape, input_.get(), answers_.get()};
    lines = contract::MailboxWriter(mailbox);
    consumer.clop.mailbox = mailbox;
    room = aligned(std::size_t{stride} * 3);
  }
  // Bytes of a board: in the mailbox, or in the CLOP.
  static std::byte expected(std::uint64_t n, unsigned b, std::uint32_t i, bool in_lines) {
    return static_cast<std::byte>(n * 31 + b * 7 + i + (in_lines ? 0 : 128));
  }
  // Writes the CLOP of n with these lengths.
  void fill(std::uint64_t n, const std::array<std::uint16_t, 3>& bytes) {
    const contract::View& view = memory.view();
    const std::uint32_t buffer = view.buffer_of(n);
    auto& header = *reinterpret_cast<contract::FrameHeader*>(view.buffer(buffer));
    for (unsigned b = 0; b < 3; ++b) {
      header.board[b].bytes = bytes[b];
      for (std::uint32_t i = 0; i < bytes[b] && i < 4096; ++i)
        view.segment(buffer, b)[i] = expected(n, b, i, false);
    }
  }
  // Writes the segments of n to the mailbox, but for `missing` units at their end.
  void segments(std::uint64_t n, const std::array<std::uint16_t, 3>& bytes, std::uint32_t missing = 0) {
    for (unsigned b = 0; b < 3; ++b) {
      std::vector<std::byte> data(bytes[b] + 16);
      for (std::uint32_t i = 0; i < bytes[b]; ++i) data[i] = expected(n, b, i, true);
      const std::uint32_t written = bytes[b] - std::min<std::uint32_t>(bytes[b], 12 * missing);
      lines.segment(n, memory.view().buffer_of(n), b, data.data(), 0, written, true);
    }
  }
  contract::Event event(std::uint64_t n) const {
    contract::Event e;
    e.type = static_cast<std::uint8_t>(EventType::receive_done);
    e.buffer = memory.view().buffer_of(n);
    e.frame = static_cast<std::uint32_t>(n) + 5;
    e.time_ns = 0x123456789ABC + n;
    e.flags = contract::event_flag::complete;
    e.n = static_cast<std::uint32_t>(n);
    return e;
  }
  static EventLine line(const std::array<std::uint16_t, 3>& bytes,
                        std::uint32_t flags = EventLine::segments) {
    EventLine made;
    for (unsigned b = 0; b < 3; ++b) made.bytes[b] = bytes[b];
    made.flags = flags;
    return made;
  }
  // Event line of entry k without the queue entry.
  void line_alone(std::uint64_t k, const contract::Event& e, const EventLine& rest, std::uint32_t ahead = 0) {
    lines.event(e, contract::entry_index(small(), k), contract::entry_lap(small(), k) + ahead, rest);
  }
  // Queue entry and line.
  void announce(const contract::Event& e, const EventLine& rest) {
    contract::EventWriter& w = *writer;
    w.write(e, rest);
  }
  void expect(const Work& work, unsigned b, std::uint32_t bytes, bool in_lines) {
    const Payload p = payload(consumer.clop, work, b);
    ASSERT_EQ(p.bytes, bytes);
    for (std::uint32_t i = 0; i < bytes; ++i)
      ASSERT_EQ(p.at[i], expected(work.n, b, i, in_lines)) << b << ' ' << i;
  }

  contract::Memory memory;
  HostClop consumer;
  contract::Mailbox mailbox;
  contract::MailboxWriter lines;
  std::unique_ptr<contract::EventWriter> writer = [this] {
    auto made = std::make_unique<contract::EventWriter>(memory.view());
    return made;
  }();
  Bytes room;

 private:
  Bytes input_, answers_;
};

class Lines : public testing::Test {
 protected:
  void SetUp() override {
    if (!contract::has_mailbox) GTEST_SKIP() << "mailboxes are for x86-64";
    card = std::make_unique<Card>();
    card->writer->attach(card->lines);
  }
  bool poll() { return gpu::poll(card->consumer.clop, work); }
  void receive(std::uint32_t at_most = stride) {
    gpu::receive(card->consumer.clop, work, card->room.get(), at_most);
  }
  std::unique_ptr<Card> card;
  Work work;
};

TEST_F(Lines, GiveEventAndSegmentsBeforeTheQueueEntry) {
  for (std::uint64_t n = 0; n < 40; ++n) {
    const std::array<std::uint16_t, 3> bytes = {static_cast<std::uint16_t>(16 * (n + 1)), 0, 2016};
    card->fill(n, bytes);
    card->segments(n, bytes);
    card->line_alone(n, card->event(n), Card::line(bytes));
    ASSERT_TRUE(poll());
    EXPECT_EQ(work.n, n);
    EXPECT_EQ(work.k, n);
    EXPECT_EQ(work.buffer, n % 16);
    EXPECT_EQ(work.frame, n + 5);
    EXPECT_EQ(work.time_ns, 0x123456789ABC + n);
    EXPECT_EQ(work.flags, contract::event_flag::complete);
    receive();
    for (unsigned b = 0; b < 3; ++b) card->expect(work, b, bytes[b], true);
    release(card->consumer.clop, work);
  }
  EXPECT_EQ(card->consumer.state.finished, 40u);
}

TEST_F(Lines, PayloadsOfTheClopWaitForTheQueueEntry) {
  card->fill(0, {64, 32, 16});
  card->line_alone(0, card->event(0), Card::line({64, 32, 16}, 0));
  ASSERT_TRUE(poll());
  std::atomic<bool> announced{false};
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    announced = true;
    card->announce(card->event(0), Card::line({64, 32, 16}, 0));
  });
  const Payload p = payload(card->consumer.clop, work, 1);
  EXPECT_TRUE(announced);
  EXPECT_EQ(p.at, card->memory.view().segment(0, 1));
  EXPECT_EQ(p.bytes, 32u);
}

// Each has a reason to read the CLOP.
TEST_F(Lines, TheClopReplacesLinesThatAreNotThere) {
  const std::array<std::uint16_t, 3> bytes = {480, 16, 1024};
  const struct {
    const char* reason;
    std::array<std::uint16_t, 3> in_line;
    std::uint32_t flags, missing;
  } cases[] = {
      {"the card wrote no segments", bytes, 0, 0},
      {"the last unit is missing", bytes, EventLine::segments, 1},
      {"all units are missing", bytes, EventLine::segments, 1000},
      {"lengths beyond any segment", {65535, 16, 65535}, EventLine::segments, 0},
      {"a length beyond the mailbox", {480, 2032, 1024}, EventLine::segments, 0},
  };
  std::uint64_t n = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.reason);
    card->fill(n, bytes);
    card->segments(n, bytes, c.missing);
    card->announce(card->event(n), Card::line(c.in_line, c.flags));
    ASSERT_TRUE(poll());
    receive();
    EXPECT_EQ(work.copy, card->room.get());
    for (unsigned b = 0; b < 3; ++b) card->expect(work, b, bytes[b], false);
    release(card->consumer.clop, work);
    ++n;
  }
}

TEST_F(Lines, LongSegmentsStayInTheClop) {
  card->fill(0, {4096, 16, 65535});  // the last one is not possible
  card->announce(card->event(0), Card::line({4096, 16, 65535}, 0));
  ASSERT_TRUE(poll());
  receive();
  EXPECT_EQ(work.copy, nullptr);
  EXPECT_EQ(payload(card->consumer.clop, work, 0).at, card->memory.view().segment(0, 0));
  EXPECT_EQ(payload(card->consumer.clop, work, 0).bytes, 4096u);
  EXPECT_EQ(payload(card->consumer.clop, work, 2).bytes, 4096u);
  release(card->consumer.clop, work);
  // A smaller stride than the segments of the mailbox.
  card->fill(1, {48, 48, 64});
  card->segments(1, {48, 48, 64});
  card->announce(card->event(1), Card::line({48, 48, 64}));
  ASSERT_TRUE(poll());
  receive(48);
  EXPECT_EQ(work.copy, nullptr);
  card->expect(work, 2, 64, false);
}

TEST_F(Lines, OtherEventsAreFinished) {
  contract::Event other = card->event(0);
  for (const EventType type : {EventType::burst_begins, EventType::send_done, EventType::error}) {
    other.type = static_cast<std::uint8_t>(type);
    card->announce(other, {});
  }
  card->announce(card->event(0), Card::line({0, 0, 0}));
  ASSERT_TRUE(poll());
  EXPECT_EQ(work.k, 3u);
  EXPECT_EQ(contract::acquire(*card->memory.view().finished), 3u);
}

TEST_F(Lines, ALaterLapInOneUnitEndsTheReader) {
  for (unsigned u = 0; u < contract::units_per_line; ++u) {
    Card overtaken;
    overtaken.line_alone(0, overtaken.event(0), Card::line({16, 16, 16}));
    std::array<std::byte, 16> data{};
    contract::store_unit(overtaken.mailbox.input + 16 * u, data.data(), 2);
    EXPECT_FALSE(gpu::poll(overtaken.consumer.clop, work)) << u;
    EXPECT_EQ(overtaken.consumer.state.overrun, 1u);
  }
}

TEST_F(Lines, AnIncompleteLineIsNoEvent) {
  for (unsigned u = 0; u < contract::units_per_line; ++u) {
    Card unfinished;
    unfinished.line_alone(0, unfinished.event(0), Card::line({16, 16, 16}));
    std::array<std::byte, 16> data{};
    contract::store_unit(unfinished.mailbox.input + 16 * u, data.data(), 0);
    unfinished.consumer.stop();
    EXPECT_FALSE(gpu::poll(unfinished.consumer.clop, work)) << u;
    EXPECT_EQ(unfinished.consumer.state.overrun, 0u);
  }
}

TEST_F(Lines, AnswersAreUnitsAndDescriptor) {
  std::mt19937 random(5);
  alignas(4) std::array<std::byte, 1476> data;
  for (auto& b : data) b = static_cast<std::byte>(random());
  const contract::View& view = card->memory.view();
  std::array<std::byte, contract::send_buffer_bytes + contract::unit_data_bytes> got;
  std::uint64_t n = 0;
  for (const std::uint32_t bytes : {1u, 2u, 3u, 4u, 8u, 11u, 12u, 13u, 76u, 1471u, 1472u}) {
    card->announce(card->event(n), Card::line({0, 0, 0}));
    ASSERT_TRUE(poll());
    got.fill(std::byte{0xEE});
    EXPECT_EQ(card->lines.answer(n, work.buffer, got.data()), 0u);
    answer(card->consumer.clop, work, data.data(), bytes);
    ASSERT_EQ(card->lines.answer(n, work.buffer, got.data()), bytes);
    EXPECT_EQ(std::memcmp(got.data(), data.data(), bytes), 0);
    for (std::size_t i = bytes; i % contract::unit_data_bytes; ++i) EXPECT_EQ(got[i], std::byte{0}) << bytes;
    contract::Descriptor d;
    ASSERT_TRUE(contract::posted(view, n, d));
    EXPECT_EQ(d.bytes, bytes);
    EXPECT_EQ(d.destination, 0u);
    EXPECT_EQ(std::memcmp(view.send_buffer(work.buffer), data.data(), bytes), 0);
    release(card->consumer.clop, work);
    ++n;
  }
}

TEST_F(Lines, AnswersThatLinesCannotCarryAreDescriptorsAlone) {
  alignas(4) std::array<std::byte, 2000> data{};
  const contract::View& view = card->memory.view();
  std::array<std::byte, contract::send_buffer_bytes + contract::unit_data_bytes> got;
  const auto next = [&](std::uint64_t n) {
    card->announce(card->event(n), Card::line({0, 0, 0}));
    ASSERT_TRUE(poll());
  };
  contract::Descriptor d;
  next(0);  // to the second endpoint
  answer(card->consumer.clop, work, data.data(), 8, 1);
  EXPECT_EQ(card->lines.answer(0, work.buffer, got.data()), 0u);
  ASSERT_TRUE(contract::posted(view, 0, d));
  EXPECT_EQ(d.destination, 1u);
  release(card->consumer.clop, work);
  next(1);  // too long: the card refuses the descriptor, and the send buffer's neighbour is untouched
  view.send_buffer(2)[0] = std::byte{0x55};
  answer(card->consumer.clop, work, data.data(), 2000);
  EXPECT_EQ(card->lines.answer(1, work.buffer, got.data()), 0u);
  ASSERT_TRUE(contract::posted(view, 1, d));
  EXPECT_EQ(d.bytes, 2000u);
  EXPECT_EQ(view.send_buffer(2)[0], std::byte{0x55});
  release(card->consumer.clop, work);
  // A number whose mark would be 0: neither segments nor answer.
  const std::uint64_t last = 0xFFFFFFFF;
  card->consumer.state.reference = last;
  card->fill(last, {16, 16, 16});
  next(last);
  EXPECT_EQ(work.n, last);
  receive();
  card->expect(work, 0, 16, false);
  answer(card->consumer.clop, work, data.data(), 8);
  EXPECT_EQ(card->lines.answer(last, work.buffer, got.data()), 0u);
  EXPECT_TRUE(contract::posted(view, last, d));
}

TEST_F(Lines, ReceiveCopiesWithoutAMailbox) {
  card->consumer.clop.mailbox = {};
  card->fill(0, {160, 0, 2032});
  card->announce(card->event(0), {});
  ASSERT_TRUE(poll());
  receive();
  EXPECT_EQ(work.copy, card->room.get());
  card->expect(work, 0, 160, false);
  card->expect(work, 1, 0, false);
  card->expect(work, 2, 2032, false);
  std::uint32_t sum = 77;
  answer(card->consumer.clop, work, &sum, sizeof sum);
  contract::Descriptor d;
  ASSERT_TRUE(contract::posted(card->memory.view(), 0, d));
  EXPECT_EQ(d.bytes, 4u);
}

// The card's datapath in one thread, blocks in others; every byte is compared. With ThreadSanitizer: the
// bytes of the CLOP, which replace the lines of long frames, are not atomic.
TEST(LinesUnderLoad, EveryFrameIsReadAndAnsweredOnce) {
  if (!contract::has_mailbox) GTEST_SKIP() << "mailboxes are for x86-64";
  constexpr Frame frames = 3000;
  constexpr std::uint32_t buffers = 16;
  card::ClopOptions options = card::rig_options(buffers);
  options.deadline = 0;
  options.timeout = 1'000'000'000;
  card::Rig rig(options);
  const contract::View& view = rig.views[0];
  const auto shape = contract::MailboxShape::of(view.shape);
  const Bytes input = aligned(shape.input_bytes()), answers = aligned(shape.answer_bytes());
  const contract::Mailbox mailbox{shape, input.get(), answers.get()};
  ASSERT_TRUE(rig.stream.use_mailboxes({&mailbox, 1}));
  HostClop consumer(view);
  consumer.clop.mailbox = mailbox;
  const TestFrames all(frames);
  std::atomic<std::uint64_t> wrong{0}, received{0};
  consumer.start(3, [&](const Clop& clop) {
    Work work;
    const Bytes room = aligned(4 * std::size_t{4096});
    while (poll(clop, work)) {
      ++received;
      receive(clop, work, room.get(), 4096);
      for (BoardId b = 0; b < 4; ++b) {
        const Payload p = payload(clop, work, b);
        std::size_t at = 0;
        for (const auto& want : all.packets(work.frame, b)) {
          if (at + want.size() > p.bytes || std::memcmp(p.at + at, want.data(), want.size()) != 0) ++wrong;
          at += (want.size() + 15) / 16 * 16;
        }
        if (at != p.bytes || (work.copy == nullptr) != (at > 4096)) ++wrong;
      }
      alignas(4) std::array<std::byte, 64> out;
      const wire::mtp::Primitive primitive{0x4001, static_cast<std::uint8_t>(work.frame), 0};
      answer(clop, work, out.data(),
             static_cast<std::uint32_t>(wire::mtp::encode(out.data(), work.frame, &primitive, 1)));
      release(clop, work);
    }
  });
  all.pass(rig);
  consumer.stop();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(received, frames);
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  EXPECT_EQ(consumer.state.overrun, 0u);
  EXPECT_EQ(rig.stream.counters().frames_answered, frames);
  ASSERT_EQ(rig.transmit.sent.size(), frames);
  for (Frame f = 0; f < frames; ++f) {
    ASSERT_EQ(rig.transmit.sent[f].frame, f);
    ASSERT_EQ(rig.transmit.sent[f].bytes.size(), 16u);
    EXPECT_EQ(rig.transmit.sent[f].bytes[13], static_cast<std::byte>(f));
  }
}

}  // namespace
}  // namespace nanet::gpu
