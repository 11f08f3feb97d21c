// SPDX-License-Identifier: Apache-2.0
// Tests of the queue monitor: events of a frame in either order, since its deadline may pass before it is
// closed. First with events written by the test, then with those of the simulated card.
#include "nanet/gateware/queue_monitor.hpp"

#include <memory>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gateware/fake_bus_test.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {
namespace {

using card::Outcome;
using contract::Event;
using contract::EventType;
namespace event_flag = contract::event_flag;

constexpr std::uint32_t buffers = 16;

// A monitor whose event queues are written by the test, with a fake card.
class Written {
 public:
  explicit Written(std::uint32_t devices = 1)
      : driver_(bus_),
        memory_(made(devices)),
        consumers_(views()),
        table(buffers, devices),
        monitor(driver_, consumers_, table, counters_) {
    monitor.observe(&seen);
    driver_.open({}, consumers_.views, 0, {});
    for (std::uint32_t d = 0; d < devices; ++d) {
      Event begins;
      begins.type = static_cast<std::uint8_t>(EventType::burst_begins);
      consumers_.events[d].write(begins);
    }
  }

  void received(std::uint64_t n) { write(EventType::receive_done, n, event_flag::timed_out); }
  void late(std::uint64_t n) { write(EventType::send_done, n, event_flag::late); }
  void answered(std::uint64_t n) { write(EventType::send_done, n, 0); }
  void overrun(std::uint64_t n) { write(EventType::error, n, event_flag::overrun); }
  // Finishes all events and returns the buffers of these numbers.
  void returned(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n < to; ++n) contract::return_buffer(consumers_.view_of(n), n);
    for (std::size_t d = 0; d < consumers_.views.size(); ++d)
      contract::release(*consumers_.views[d].finished, consumers_.events[d].written());
  }
  // Value of the return slot of n in the card's registers.
  std::uint32_t given_back(std::uint64_t n) {
    const std::size_t slots = table.slots();
    return bus_.read(static_cast<std::uint32_t>(offsetof(nanet_regs_t, returned) + 4 * (n & (slots - 1))));
  }
  void sender_passed(std::uint64_t numbers) {
    bus_.write(offsetof(nanet_regs_t, sender_next), static_cast<std::uint32_t>(numbers));
  }

  card::Passed seen;

 private:
  static std::vector<std::unique_ptr<contract::Memory>> made(std::uint32_t devices) {
    contract::Shape shape;
    shape.devices = devices;
    shape.segment_bytes = 1024;
    shape.buffers = shape.descriptors = buffers;
    shape.events = 8 * buffers;
    std::vector<std::unique_ptr<contract::Memory>> memory;
    for (std::uint32_t d = 0; d < devices; ++d) memory.push_back(std::make_unique<contract::Memory>(shape));
    return memory;
  }
  std::vector<contract::View> views() const {
    std::vector<contract::View> all;
    for (const auto& m : memory_) all.push_back(m->view());
    return all;
  }
  void write(EventType type, std::uint64_t n, std::uint16_t flags) {
    Event e;
    e.type = static_cast<std::uint8_t>(type);
    e.flags = flags;
    e.n = e.frame = static_cast<std::uint32_t>(n);
    e.bytes = 1;
    consumers_.events[consumers_.device_of(n)].write(e);
  }

  FakeBus bus_;
  Driver driver_;
  std::vector<std::unique_ptr<contract::Memory>> memory_;
  card::Consumers consumers_;
  card::Counters counters_;

 public:
  card::FrameTable table;
  QueueMonitor monitor;
};

using Outcomes = std::vector<std::pair<std::uint64_t, Outcome>>;

Outcomes outcomes(const card::Passed& seen) {
  Outcomes all;
  for (const auto& [n, outcome] : seen.all) all.emplace_back(n, outcome);
  return all;
}

TEST(QueueMonitor, SendDoneBeforeReceiveDone) {
  Written card;
  card.late(0);
  card.monitor.poll();
  EXPECT_EQ(card.table.next, 1);
  EXPECT_EQ(card.monitor.waiting(), 0);
  EXPECT_EQ(card.monitor.out(), 0);
  card.received(0);
  card.received(1);
  card.answered(1);
  card.monitor.poll();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {1, Outcome::answered}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
  EXPECT_EQ(card.monitor.out(), 2);
  EXPECT_TRUE(card.seen.late_answers.empty());
  card.returned(0, 2);
  card.monitor.poll();
  EXPECT_EQ(card.monitor.out(), 0);
  EXPECT_EQ(card.given_back(0), 1);
  EXPECT_EQ(card.given_back(1), 2);
  EXPECT_EQ(card.seen.late_answers, std::vector<std::uint64_t>{0});
}

// All in one poll, as after a pause of the host.
TEST(QueueMonitor, SendDoneBeforeReceiveDoneSeenTogether) {
  Written card;
  card.late(0);
  card.received(0);
  card.received(1);
  card.answered(1);
  card.returned(0, 2);
  card.monitor.poll();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {1, Outcome::answered}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
  EXPECT_EQ(card.monitor.out(), 0);
  EXPECT_EQ(card.seen.late_answers, std::vector<std::uint64_t>{0});
}

// A later frame is complete while an earlier one still waits for a board.
TEST(QueueMonitor, LaterFrameIsReceivedBefore) {
  Written card;
  card.received(1);
  card.late(0);
  card.received(0);
  card.answered(1);
  card.monitor.poll();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {1, Outcome::answered}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
  card.returned(0, 2);
  card.monitor.poll();
  EXPECT_EQ(card.monitor.out(), 0);
  EXPECT_EQ(card.seen.late_answers, std::vector<std::uint64_t>{0});
}

TEST(QueueMonitor, OverrunsBetween) {
  Written card;
  card.overrun(1);
  card.late(0);
  card.late(2);
  card.received(0);
  card.received(2);
  card.sender_passed(3);
  card.monitor.poll();
  card.monitor.pass_overruns();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {1, Outcome::overrun}, {2, Outcome::late}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
  card.returned(0, 1);
  card.returned(2, 3);
  card.monitor.poll();
  EXPECT_EQ(card.monitor.out(), 0);
  EXPECT_EQ(card.seen.late_answers, (std::vector<std::uint64_t>{0, 2}));
}

// Deadlines of later frames come before the event of the overrun.
TEST(QueueMonitor, OverrunReportedAfterLaterAnswers) {
  Written card;
  card.late(0);
  card.late(2);
  card.monitor.poll();
  EXPECT_EQ(card.table.next, 3);
  card.received(0);
  card.overrun(1);
  card.received(2);
  card.monitor.poll();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {2, Outcome::late}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
}

// Queues are read in turn: events of this queue come before earlier ones of another queue.
TEST(QueueMonitor, OtherQueueIsReadLater) {
  Written card(2);
  card.late(0);
  card.monitor.poll();
  card.late(2);
  card.received(0);
  card.monitor.poll();
  EXPECT_EQ(card.table.next, 1);
  card.received(1);
  card.received(2);
  card.monitor.poll();
  EXPECT_EQ(card.monitor.waiting(), 2);
  card.answered(1);
  card.monitor.poll();
  EXPECT_EQ(outcomes(card.seen), (Outcomes{{0, Outcome::late}, {1, Outcome::answered}, {2, Outcome::late}}));
  EXPECT_EQ(card.monitor.waiting(), 0);
  card.returned(0, 3);
  card.monitor.poll();
  EXPECT_EQ(card.monitor.out(), 0);
  EXPECT_EQ(card.seen.late_answers, (std::vector<std::uint64_t>{0, 2}));
}

// The next number of a buffer starts without state of the previous one, whatever the order of events.
TEST(QueueMonitor, LapsOfBuffers) {
  Written card;
  constexpr std::uint64_t laps = 8;
  Outcomes expected;
  std::vector<std::uint64_t> late;
  for (std::uint64_t n = 0; n < laps * buffers; ++n) {
    const std::uint64_t lap = n / buffers;
    if ((lap + n) % 3 == 0) {  // late, before it is closed
      card.late(n);
      if (n % 2) card.monitor.poll();
      card.received(n);
    } else {
      card.received(n);
      card.monitor.poll();
      ASSERT_EQ(card.table.next, n) << "passed before it is sent";
      (lap + n) % 3 == 1 ? card.late(n) : card.answered(n);
    }
    expected.emplace_back(n, (lap + n) % 3 == 2 ? Outcome::answered : Outcome::late);
    if (expected.back().second == Outcome::late) late.push_back(n);
    card.monitor.poll();
    ASSERT_EQ(card.table.next, n + 1);
    ASSERT_EQ(card.monitor.waiting(), 0);
    card.returned(n, n + 1);
    card.monitor.poll();
    ASSERT_EQ(card.monitor.out(), 0);
    ASSERT_EQ(card.given_back(n), n + 1);
  }
  EXPECT_EQ(outcomes(card.seen), expected);
  EXPECT_EQ(card.seen.late_answers, late);
}

// One board is silent, so frames close at their timeout plus a grace of 4096 cycles, 26 us. A deadline
// between the two comes first.
class DeadlineInGrace : public testing::TestWithParam<Nanoseconds> {};

TEST_P(DeadlineInGrace, EveryFrameIsPassed) {
  constexpr Frame frames = 60, first_incomplete = 5;
  card::ClopOptions c;
  c.rules.boards = 0xF;
  c.segment_bytes = 2048;
  c.buffers = 128;
  c.timeout = 30'000;
  c.deadline = GetParam();
  c.burst_silence = 100'000'000;
  c.destinations = {{0x0A000003, 58914}};
  SimulationOptions s;
  s.driver.log2_page = 12;
  card::FakeTransmit transmit;
  Simulation simulation(c, 0, transmit, s);
  card::Passed seen;
  simulation.stream().observe(&seen);

  const contract::View view = simulation.stream().view();
  std::uint64_t entries = 0;
  unsigned sent_first = 0;
  std::vector<bool> received(frames), late(frames);
  const auto work = [&](std::uint64_t cycles) {
    simulation.run(cycles);
    for (Event e; contract::poll_event(view, entries, e) == contract::Poll::event;) {
      contract::release(*view.finished, ++entries);
      if (e.type == static_cast<std::uint8_t>(EventType::send_done)) {
        late[e.n] = e.flags & event_flag::late;
        sent_first += !received[e.n];
      }
      if (e.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      received[e.n] = true;
      std::byte* const at = view.send_buffer(e.buffer);
      const std::size_t bytes = wire::mtp::encode(at, e.frame, nullptr, 0);
      contract::post(view, e.n, at, static_cast<std::uint32_t>(bytes), 0, e.buffer);
      contract::return_buffer(view, e.n);
    }
  };
  std::array<Sequence, 4> sequence{};
  const auto marker = [&](std::uint8_t flags, Frame frame) {
    for (BoardId b = 0; b < 4; ++b)
      simulation.datagram(b & 1, card::build_marker(flags, b, frame, sequence[b]++, card::first_burst));
  };
  marker(wire::mgp::flag::sob, 0);
  for (Frame frame = 0; frame < frames; ++frame) {
    for (BoardId b = 0; b < 4; ++b)
      if (b != 2 || frame < first_incomplete)
        simulation.datagram(b & 1, card::build({.board = b, .frame = frame}, sequence[b]++));
    work(1000);
  }
  marker(wire::mgp::flag::eob, frames - 1);
  simulation.drain();
  for (unsigned i = 0; i < 200 && !simulation.passed_all(); ++i) work(1000);
  simulation.read_counters();
  work(1000);  // events that arrived with the last number

  EXPECT_GT(sent_first, 0) << "the deadline never came first";
  EXPECT_TRUE(simulation.passed_all());
  EXPECT_EQ(simulation.waiting(), 0);
  EXPECT_EQ(simulation.out(), 0);
  ASSERT_EQ(seen.all.size(), frames);
  std::vector<std::uint64_t> late_numbers;
  for (Frame n = 0; n < frames; ++n) {
    EXPECT_EQ(seen.all[n].n, n);
    EXPECT_EQ(seen.all[n].outcome, late[n] ? Outcome::late : Outcome::answered) << n;
    if (late[n]) late_numbers.push_back(n);
  }
  std::sort(seen.late_answers.begin(), seen.late_answers.end());
  EXPECT_EQ(seen.late_answers, late_numbers);
  const card::Counters& counters = simulation.stream().counters();
  EXPECT_EQ(counters.frames_in, frames);
  EXPECT_EQ(counters.frames_out, frames);
  EXPECT_EQ(counters.frames_late, late_numbers.size());
  EXPECT_EQ(counters.answers_after_deadline, late_numbers.size());
}

INSTANTIATE_TEST_SUITE_P(JustAboveTheTimeout, DeadlineInGrace, testing::Values(31'000, 45'000),
                         [](const auto& deadline) { return std::to_string(deadline.param) + "_ns"; });

}  // namespace
}  // namespace nanet::gateware
