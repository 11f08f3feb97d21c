// SPDX-License-Identifier: Apache-2.0
// Tests of the application library over sockets on 127.0.0.1: all calls, both gather modes, several ports,
// trains, and an overflowing socket buffer. With and without the card's thread.
#include "nanet/card/card.hpp"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include "nanet/card/registry.hpp"
#include "nanet/card/socket/socket_reader.hpp"
#include "nanet/card/software/mailbox_rig_test.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::card {
namespace {

constexpr Nanoseconds patience = 20'000'000'000;

// Network around a card: one sending socket per listening socket, and the receiver of the answers.
class Network {
 public:
  explicit Network(ClopOptions options, std::size_t ports = 1)
      : answers_(os::open_udp_receiver({0x7F000001, 0})) {
    options.listen.assign(ports, {0x7F000001, 0});
    options.destinations = {os::local_endpoint(answers_.get())};
    card = open_card("socket");
    clop = &card->register_clop(options);
    for (std::size_t p = 0; p < ports; ++p) boards_.push_back(os::open_udp_sender(clop->local(p)));
  }
  void send(std::span<const std::byte> bytes, std::size_t port = 0) {
    ASSERT_EQ(::send(boards_[port].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void train(std::span<const std::byte> bytes, int segment) {
    ASSERT_EQ(setsockopt(boards_[0].get(), IPPROTO_UDP, 103 /* UDP_SEGMENT */, &segment, sizeof segment), 0);
    send(bytes);
  }
  bool trains() const { return os::supports_segmentation(boards_[0].get()); }
  // The next answer: frame and sub ID; nullopt if none arrives.
  std::optional<std::pair<Frame, int>> answer() {
    pollfd wait{answers_.get(), POLLIN, 0};
    std::array<std::byte, 2000> bytes;
    if (poll(&wait, 1, 20'000) != 1 || recv(answers_.get(), bytes.data(), bytes.size(), 0) < 8)
      return std::nullopt;
    return std::pair{wire::mgp::load<std::uint32_t>(bytes.data()) & 0xFFFFFF, static_cast<int>(bytes[7])};
  }
  // Waits for the next event of a type and skips others.
  bool next(Event& e, EventType type) {
    while (clop->wait(e, patience))
      if (e.type == static_cast<std::uint8_t>(type)) return true;
    return false;
  }
  void reply(const Event& e) {
    const auto out = clop->send_buffer(e);
    clop->post(e, static_cast<std::uint32_t>(wire::mtp::encode(out.data(), e.frame, nullptr, 0)));
    clop->give_back(e);
  }
  void drive_until_passed() {
    while (!card->passed_all()) {
      card->receive();
      card->send();
    }
  }

  std::unique_ptr<Card> card;
  Clop* clop;

 private:
  os::Fd answers_;
  std::vector<os::Fd> boards_;
};

// Timeouts long enough for slow machines.
ClopOptions patient(std::uint32_t buffers = 64) {
  ClopOptions o;
  o.buffers = buffers;
  o.timeout = patience;
  o.deadline = 0;
  o.burst_silence = 10 * patience;
  return o;
}

void echo_frames(bool thread, unsigned threads = 1, stats::PollingThreads* stops = nullptr) {
  ClopOptions options = patient();
  options.threads = threads;
  options.stops = stops;
  Network net(options, 2);
  if (thread) net.card->start();
  EXPECT_EQ(net.card->running(), thread);
  for (BoardId b = 0; b < 4; ++b) net.send(build_marker(mgp_flag::sob, b, 0, 0, 1), b % 2);
  for (Frame f = 0; f < 150; ++f) {
    std::vector<std::vector<std::byte>> sent;
    for (BoardId b = 0; b < 4; ++b) {
      sent.push_back(build({.board = b, .frame = f, .burst = 1, .events = 1 + f % 9}, f + 1));
      net.send(sent.back(), b % 2);
      auto wrong = sent.back();
      wrong[2] = std::byte{9};
      net.send(b ? wrong : std::vector<std::byte>{}, b % 2);
    }
    Event e;
    ASSERT_TRUE(net.next(e, EventType::receive_done));
    ASSERT_EQ(e.frame, f);
    ASSERT_EQ(e.flags, event_flag::complete);
    ASSERT_EQ(net.clop->payloads(e), 4u);
    for (unsigned b = 0; b < 4; ++b) {
      const auto payload = net.clop->payload(e, b);
      ASSERT_EQ(payload.size(), (sent[b].size() + 15) / 16 * 16);
      ASSERT_EQ(std::memcmp(payload.data(), sent[b].data(), sent[b].size()), 0);
    }
    EXPECT_THROW((void)net.clop->payload(e, 4), std::out_of_range);
    EXPECT_EQ(net.clop->frame_header(e).complete, 0xF);
    net.reply(e);
    if (!thread) net.drive_until_passed();
    EXPECT_EQ(net.answer(), (std::pair<Frame, int>{f, 0}));
  }
  if (thread) {
    EXPECT_THROW(net.card->register_clop(patient()), std::logic_error);
    EXPECT_THROW(net.card->deregister_clop(*net.clop), std::logic_error);
    net.card->stop();
  }
  EXPECT_FALSE(net.card->running());
  const Counters& c = net.clop->counters();
  EXPECT_EQ(c.frames_answered, 150u);
  EXPECT_EQ(c.packets_used, 600u);
  EXPECT_EQ(c.burst_markers, 4u);
  EXPECT_EQ(c.bad[static_cast<std::size_t>(wire::mgp::Refusal::short_header)], 150u);
  EXPECT_EQ(c.bad[static_cast<std::size_t>(wire::mgp::Refusal::bad_version)], 450u);
  EXPECT_EQ(c.packets_in, 1204u);
  for (const auto& l : c.lost) EXPECT_EQ(l, 0u);
  net.card->deregister_clop(*net.clop);
  EXPECT_TRUE(net.card->passed_all());
}

TEST(Card, FramesEchoedInTheCallersThread) {
  echo_frames(false);
}
TEST(Card, FramesEchoedWithTheCardsThread) {
  echo_frames(true);
}
// Memory of a GPU, as seen by a card.
class FarAllocator final : public os::RegionAllocator {
 public:
  std::byte* allocate(std::size_t) override { throw std::logic_error("cannot be filled"); }
  void free(std::byte*, std::size_t) noexcept override {}
  bool cpu_accessible() const noexcept override { return false; }
};
TEST(Card, MemoryThatACpuCannotReachIsRefused) {
  FarAllocator allocator;
  ClopOptions options = patient();
  options.allocator = &allocator;
  EXPECT_THROW(open_card("socket")->register_clop(options), std::invalid_argument);
}
TEST(Card, UnknownCardIsRefusedWithTheKnownOnes) {
  try {
    open_card("abacus");
    ADD_FAILURE() << "an abacus was opened";
  } catch (const std::invalid_argument& refusal) {
    EXPECT_EQ(std::string(refusal.what()), "card = abacus is unknown; cards of this build: socket, xdp");
  }
  EXPECT_EQ(card_names(), (std::vector<std::string>{"socket", "xdp"}));
}
TEST(Card, ARegisteredCardIsOpened) {
  bool opened = false;
  register_card("test", {.open =
                             [&] {
                               opened = true;
                               return open_card("socket");
                             },
                         .open_playback = {}});
  EXPECT_EQ(open_card("test")->name(), "socket");
  EXPECT_TRUE(opened);
}
TEST(Card, FramesEchoedWithThreadsBeside) {
  echo_frames(false, 2);
  echo_frames(false, 3);
  echo_frames(true, 3);
  echo_frames(false, 4);
  echo_frames(true, 10);
}

TEST(Card, ThreadsBesideRecordTheirStops) {
  stats::PollingThreads stops(-1);
  echo_frames(true, 4, &stops);
  std::vector<std::string> names;
  for (const stats::PollingStops& thread : stops.all()) {
    names.push_back(thread.name());
    EXPECT_EQ(thread.cpu(), -1);
    Nanoseconds sum = 0, last = 0;
    for (const auto& [begin, end] : thread.record().listed()) {
      EXPECT_GT(end - begin, stats::PollingStops::least);
      EXPECT_GE(begin, last);
      last = end;
      sum += end - begin;
    }
    EXPECT_LE(sum, thread.record().elapsed());
    // The tests do not drive the card's own record.
    if (names.size() > 1) {
      EXPECT_GT(thread.record().elapsed(), 0);
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"card", "send", "read 0", "read 1"}));
}

TEST(Card, PacketsEchoed) {
  for (const bool thread : {false, true}) {
    ClopOptions options = patient();
    options.gather = contract::Gather::packets;
    options.packets = 5;
    Network net(options);
    if (thread) net.card->start();
    for (unsigned round = 0; round < 100; ++round) {
      std::vector<std::vector<std::byte>> sent;
      for (unsigned i = 0; i < 5; ++i) {
        sent.push_back(build({.frame = round, .burst = 1, .events = 1 + i}, 5 * round + i + 1));
        net.send(sent.back());
      }
      Event e;
      ASSERT_TRUE(net.next(e, EventType::receive_done));
      ASSERT_EQ(net.clop->payloads(e), 5u);
      for (unsigned i = 0; i < 5; ++i) {
        const auto payload = net.clop->payload(e, i);
        ASSERT_EQ(std::vector(payload.begin(), payload.end()), sent[i]);
      }
      net.reply(e);
      if (!thread) net.drive_until_passed();
      ASSERT_EQ(net.answer(), (std::pair<Frame, int>{round, 0}));
    }
    net.card->stop();
    EXPECT_EQ(net.clop->counters().frames_answered, 100u);
  }
}

TEST(Card, TrainsAreTakenApart) {
  Network net(patient());
  if (!net.trains()) GTEST_SKIP() << "kernel without UDP_SEGMENT";
  net.send(build_marker(mgp_flag::sob, 0, 0, 0, 1));
  constexpr int segment = 200;
  std::vector<std::byte> train;
  for (Frame f = 0; f < 5; ++f)
    for (BoardId b = 0; b < 4; ++b) {
      auto bytes =
          build({.board = b, .frame = f, .burst = 1, .flags = mgp_flag::padded, .events = 1u + b}, f + 1);
      bytes.resize(f == 4 && b == 3 ? bytes.size() : segment);  // the last packet of a train may be short
      train.insert(train.end(), bytes.begin(), bytes.end());
    }
  net.train(train, segment);
  for (Frame f = 0; f < 5; ++f) {
    Event e;
    ASSERT_TRUE(net.next(e, EventType::receive_done));
    EXPECT_EQ(e.frame, f);
    EXPECT_EQ(e.flags, event_flag::complete);
    net.reply(e);
  }
  net.drive_until_passed();
  EXPECT_EQ(net.clop->counters().packets_in, 21u);
  EXPECT_EQ(net.clop->counters().packets_used, 20u);
}

TEST(Card, AnswersDoNotWaitForTheRestOfWhatWasRead) {
  Network net(patient());
  for (BoardId b = 0; b < 4; ++b) net.send(build_marker(mgp_flag::sob, b, 0, 0, 1));
  for (BoardId b = 0; b < 4; ++b) net.send(build({.board = b, .frame = 0, .burst = 1}, 1));
  Event e;
  ASSERT_TRUE(net.next(e, EventType::receive_done));
  net.reply(e);
  // Packets of one frame, enough that the card polls for answers meanwhile; none has flag `last`.
  for (unsigned i = 0; i < 8; ++i) net.send(std::vector<std::byte>{});
  while (net.card->receive()) {
  }
  EXPECT_EQ(net.answer(), (std::pair<Frame, int>{0, 0}));
  EXPECT_TRUE(net.card->passed_all());
}

TEST(Card, EmptyDatagramIsAPacketAndRefused) {
  Network net(patient());
  net.send({});
  while (net.clop->counters().packets_in == 0) net.card->receive();
  EXPECT_EQ(net.clop->counters().bad[0], 1u);
}

TEST(Card, KernelOverflowIsCounted) {
  ClopOptions options = patient();
  options.socket_buffer_bytes = 2048;
  Network net(options);
  for (unsigned i = 0; i < 100; ++i)
    net.send(build({.frame = i, .burst = 1, .events = 20, .hits = 20}, i + 1));
  while (net.card->receive()) {
  }
  net.send(build({.frame = 100, .burst = 1}, 101));  // the count travels with the next datagram
  while (net.card->receive()) {
  }
  const Counters& c = net.clop->counters();
  const std::uint64_t overflow = c.lost[static_cast<std::size_t>(Lost::socket_overflow)];
  EXPECT_GT(overflow, 0u);
  EXPECT_EQ(c.packets_in + overflow, 101u);
  EXPECT_EQ(c.lost[static_cast<std::size_t>(Lost::missing)], overflow);
}

TEST(Card, UnansweredFramesAreLateAndStopReturns) {
  ClopOptions options = patient();
  options.timeout = 1'000'000;
  options.deadline = 100'000;
  Network net(options);
  net.card->start();
  net.send(build_marker(mgp_flag::sob, 0, 0, 0, 1));
  net.send(build({.frame = 2, .burst = 1}, 1));
  for (Frame f = 0; f < 3; ++f) EXPECT_EQ(net.answer(), (std::pair<Frame, int>{f, 0xFF}));
  net.card->stop();
  EXPECT_EQ(net.clop->counters().frames_late, 3u);
  EXPECT_EQ(net.clop->counters().frames_incomplete, 3u);
}

TEST(Card, StartsAgainAndRefusesASecondThread) {
  Network net(patient());
  for (int i = 0; i < 2; ++i) {
    net.card->start();
    EXPECT_THROW(net.card->start(), std::logic_error);
    net.card->stop();
    net.card->stop();
  }
  EXPECT_THROW(net.card->start(100'000), std::system_error);  // no such core: reported to the caller
  EXPECT_FALSE(net.card->running());
}

TEST(Card, TwoClopsOfOneCardAreTwoStreams) {
  Network net(patient());
  ClopOptions options = patient();
  options.listen = {{0x7F000001, 0}};
  Clop& second = net.card->register_clop(options);
  const os::Fd board = os::open_udp_sender(second.local());
  const auto bytes = build({.frame = 9, .burst = 1}, 1);
  ASSERT_EQ(::send(board.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  Event e;
  ASSERT_TRUE(second.wait(e, patience));
  EXPECT_EQ(e.type, static_cast<std::uint8_t>(EventType::burst_begins));
  EXPECT_EQ(e.stream, 1);
  EXPECT_FALSE(net.clop->poll(e));
  net.card->deregister_clop(*net.clop);
  EXPECT_EQ(second.counters().packets_in, 1u);
  EXPECT_FALSE(second.poll(e));
}

TEST(Card, LappedReaderGetsAnException) {
  Network net(patient());
  const auto& view = net.clop->view();
  contract::EventWriter writer(view);  // a faulty card
  for (std::uint32_t i = 0; i < 2 * view.shape.events; ++i) writer.write(Event{});
  Event e;
  EXPECT_THROW(net.clop->poll(e), std::runtime_error);
}

TEST(Card, UnknownKindsAndTakenPortsAreRefused) {
  EXPECT_THROW((void)open_card("pcie"), std::invalid_argument);
  Network net(patient());
  ClopOptions options = patient();
  options.listen = {net.clop->local()};
  EXPECT_THROW(net.card->register_clop(options), std::system_error);
  options.listen = {{0x7F000001, 0}};
  options.buffers = 100;
  EXPECT_THROW(net.card->register_clop(options), std::invalid_argument);
}

TEST(SocketCard, ReadingThreadsWriteTheMailbox) {
  if (!contract::has_mailbox) GTEST_SKIP();
  ClopOptions options = patient();
  options.threads = 4;
  Network net(options, 2);
  Stream& stream = net.card->stream(*net.clop);
  const contract::View view = stream.views()[0];
  const auto shape = contract::MailboxShape::of(view.shape);
  const Lines input = lines(shape.input_bytes()), answers = lines(shape.answer_bytes());
  const contract::Mailbox mailbox{shape, input.get(), answers.get()};
  ASSERT_TRUE(stream.use_mailboxes({&mailbox, 1}));
  net.card->start();
  for (BoardId b = 0; b < 4; ++b) net.send(build_marker(mgp_flag::sob, b, 0, 0, 1), b % 2);
  // Reading threads write no frame before the card's thread has begun its burst.
  Event begins;
  ASSERT_TRUE(net.next(begins, EventType::burst_begins));
  std::uint64_t k = 0;
  for (Frame f = 0; f < 150; ++f) {
    std::vector<std::vector<std::byte>> sent;
    for (BoardId b = 0; b < 4; ++b) {
      sent.push_back(build({.board = b, .frame = f, .burst = 1, .events = 1 + f % 9}, f + 1));
      net.send(sent.back(), b % 2);
    }
    Event e;
    ASSERT_TRUE(net.next(e, EventType::receive_done));
    contract::EventLine line;
    for (bool found = false; !found; ++k) {
      auto* const to = reinterpret_cast<std::byte*>(&line);
      for (unsigned u = 0; u < contract::units_per_line; ++u)
        ASSERT_TRUE(contract::load_unit(
            input.get() + contract::line_bytes * (k & (view.shape.events - 1)) + contract::unit_bytes * u,
            static_cast<std::uint32_t>(k / view.shape.events) + 1, to + contract::unit_data_bytes * u));
      Event event;
      std::memcpy(&event, line.event.data(), sizeof line.event);
      found = event.type == static_cast<std::uint8_t>(EventType::receive_done) && event.frame == f;
    }
    ASSERT_TRUE(line.flags & contract::EventLine::segments) << f;
    for (unsigned b = 0; b < 4; ++b) {
      ASSERT_EQ(line.bytes[b], (sent[b].size() + 15) / 16 * 16);
      std::byte unit[contract::unit_data_bytes];
      for (std::uint32_t u = 0; u < sent[b].size() / sizeof unit; ++u) {
        ASSERT_TRUE(contract::load_unit(input.get() + shape.segment(e.buffer, b) + contract::unit_bytes * u,
                                        contract::mailbox_mark(f), unit));
        ASSERT_EQ(std::memcmp(unit, sent[b].data() + sizeof unit * u, sizeof unit), 0);
      }
    }
    net.reply(e);
    EXPECT_EQ(net.answer(), (std::pair<Frame, int>{f, 0}));
  }
  net.card->stop();
  stream.use_mailboxes({});
}

TEST(SocketBatch, ValidationListsTheFragmentsOfEveryDatagram) {
  const auto receiver = os::open_udp_receiver({0x7F000001, 0});
  const auto sender = os::open_udp_sender(os::local_endpoint(receiver.get()));
  for (unsigned p = 0; p < 3; ++p) {
    std::array<std::byte, 1472> bytes;
    wire::mgp::Header header;
    header.frame = 5;
    wire::mgp::PacketWriter writer(bytes.data(), bytes.size(), header);
    const std::array<std::uint16_t, 2> hits{3, 4};
    for (unsigned i = 0; i < 2 * p; ++i)
      writer.add(5u << 8 | p, static_cast<FineTime>(i), std::span(hits).first(i % 3), 2);
    ASSERT_GT(::send(sender.get(), bytes.data(), writer.finish(), 0), 0);
  }
  SocketBatch batch(8);
  batch.make_room_to_validate();
  pollfd wait{receiver.get(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 20'000), 1);
  ASSERT_TRUE(batch.read(receiver.get(), 0, 8));
  ASSERT_EQ(batch.messages(), 3u);
  SegmentsAhead::Lane lane(0);
  batch.validate({}, nullptr, lane);
  for (unsigned p = 0; p < 3; ++p) {
    const wire::mgp::Checked& checked = batch.validated(p)->checked;
    ASSERT_EQ(checked.refusal, wire::mgp::Refusal::none);
    ASSERT_EQ(checked.fragments, 2 * p);
    ASSERT_NE(checked.index, nullptr);
    std::uint32_t offset = 16;
    for (unsigned i = 0; i < 2 * p; ++i) {
      EXPECT_EQ(checked.index[i], (p << 8 | i) << 16 | offset);
      offset += 8 + 2 * (i % 3);
    }
  }
}

}  // namespace
}  // namespace nanet::card
