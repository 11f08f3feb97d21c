// SPDX-License-Identifier: Apache-2.0
// Tests of boards in final mode: answers at t + L by the board's clock, every bad trigger, and a whole run.
#include "nanet/readout/final_boards.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/readout/readout.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {
namespace {

namespace trigger = wire::trigger;
using Bytes = std::vector<std::byte>;

std::optional<Bytes> read(int fd) {
  Bytes bytes(65536);
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(n));
  return bytes;
}

// Two boards whose clock has periods of a millisecond and stands at period 100 000; L is 60 000 periods.
class FinalBoardsTest : public testing::Test {
 protected:
  static constexpr double period = 1e6;
  static constexpr Timestamp latency = 60'000;

  FinalBoardsTest()
      : farm(os::open_udp_receiver({0x7F000001, 0}, {})),
        boards({{{0x7F000001, 0}, {0x7F000001, 0}}, os::local_endpoint(farm.get()), latency}, 2, period, 1000,
               {}),
        sob(os::monotonic_now() - 100'000 * Nanoseconds{1'000'000}) {
    for (unsigned b = 0; b < 2; ++b) {
      to.push_back(os::open_udp_sender(boards.listening()[b]));
      boards.begin(b, 7, sob);
    }
  }
  void send(unsigned board, std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(to[board].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void send(unsigned board, std::uint8_t burst, std::uint32_t sequence,
            std::vector<trigger::Trigger> triggers) {
    std::array<std::byte, trigger::max_bytes> bytes;
    const std::size_t size =
        trigger::encode(bytes.data(), {0, burst, 0, sequence, triggers.at(0).timestamp >> 8}, triggers);
    send(board, std::span(bytes).first(size));
  }
  // One round at a period of the clock; the events that it answers.
  std::vector<wire::mep::Event> round(Timestamp at) {
    boards.round(sob + static_cast<Nanoseconds>(at * period) + 1000);
    std::vector<wire::mep::Event> all;
    while (auto packet = read(farm.get())) {
      packets.push_back(std::move(*packet));
      std::array<wire::mep::Event, wire::mep::max_events> events;
      const auto decoded = wire::mep::decode(packets.back(), 2, events.data());
      EXPECT_EQ(decoded.refusal, wire::mep::Refusal::none);
      all.insert(all.end(), events.begin(), events.begin() + decoded.count);
    }
    return all;
  }
  // Keeps an event of one hit at each of the times.
  void keep(unsigned board, std::vector<Timestamp> times) {
    std::array<std::byte, 1472> bytes;
    wire::mgp::Header header;
    header.board = static_cast<BoardId>(board);
    header.frame = times.at(0) >> 8;
    wire::mgp::PacketWriter writer(bytes.data(), bytes.size(), header);
    const std::array<std::uint16_t, 1> hit = {wire::mgp::hit_word(static_cast<PmId>(512 * board), 0)};
    for (const Timestamp t : times) ASSERT_TRUE(writer.add(t, 9, hit, 1));
    boards.keep(board, {bytes.data(), writer.finish()});
  }

  const FinalTiming& timing() {
    taken = std::make_unique<FinalTiming>();
    boards.timing(*taken);
    return *taken;
  }

  os::Fd farm;
  FinalBoards boards;
  Nanoseconds sob;
  std::vector<os::Fd> to;
  std::vector<Bytes> packets;
  std::unique_ptr<FinalTiming> taken;
};

TEST_F(FinalBoardsTest, AnswerLeavesWhenTheBoardsClockReachesTPlusL) {
  keep(1, {90'000, 90'001, 90'002, 90'010});
  send(1, 7, 0, {{90'001, 3, 0, 41}});
  EXPECT_TRUE(round(100'000).empty());
  EXPECT_TRUE(round(150'000).empty());
  const auto events = round(150'001);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].number, 41U);
  EXPECT_EQ(events[0].timestamp, 90'001U);
  // The fragments of the period and of its neighbours, as they were sent.
  ASSERT_EQ(events[0].data.size(), 30U);
  EXPECT_EQ(wire::mgp::load<std::uint32_t>(events[0].data.data()), 90'000U);
  EXPECT_EQ(wire::mgp::load<std::uint32_t>(events[0].data.data() + 20), 90'002U);
  EXPECT_TRUE(round(300'000).empty());
  const FinalCounts counts = boards.counts(1);
  EXPECT_EQ(counts.triggers, (ttc::LatencyTable::Counts{1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(counts.packets, 1U);
  EXPECT_EQ(timing().slack.count(), 1U);
  EXPECT_GT(boards.slack_min(), 0);
  EXPECT_EQ(boards.counts(0).datagrams, 0U);
}

TEST_F(FinalBoardsTest, BadTriggersAreCountedAndNotAnswered) {
  send(0, 7, 0, {{1'000, 1, 0, 0}});        // t + L has passed
  send(0, 7, 1, {{999'936, 1, 0, 1}});      // still to come
  send(0, 8, 2, {{90'112, 1, 0, 2}});       // another burst
  send(0, 7, 3, {{90'113, 1, 0, 3}});       // in time, without a fragment
  send(0, 7, 3, {{90'113, 2, 0, 3}});       // the same again
  send(0, 7, 9, {{90'114, 1, 0, 0xFFFF}});  // after five lost datagrams; the number steps back
  send(0, Bytes(5));                        // hostile
  std::vector<Timestamp> answered;
  for (const auto& event : round(400'000)) answered.push_back(event.timestamp);
  EXPECT_EQ(answered, (std::vector<Timestamp>{90'113, 90'114}));
  const FinalCounts counts = boards.counts(0);
  EXPECT_EQ(counts.triggers, (ttc::LatencyTable::Counts{6, 2, 1, 1, 1, 1, 0}));
  EXPECT_TRUE(counts.triggers.balanced());
  EXPECT_EQ(counts.datagrams, 7U);
  EXPECT_EQ(counts.lost, 5U);
  EXPECT_EQ(counts.out_of_order, 1U);
  EXPECT_EQ(counts.refused[static_cast<std::size_t>(trigger::Refusal::short_header)], 1U);
  EXPECT_EQ(counts.empty, 2U);
  EXPECT_EQ(timing().late_by.count(), 1U);
}

TEST_F(FinalBoardsTest, ANewBurstFlushesTriggersThatWait) {
  keep(0, {90'000});
  send(0, 7, 0, {{90'000, 1, 0, 0}});
  round(100'001);
  boards.begin(0, 8, sob);
  EXPECT_TRUE(round(400'000).empty());
  EXPECT_EQ(boards.counts(0).triggers.flushed, 1U);
}

TEST(FinalBoards, AddressesAreOnePerBoard) {
  EXPECT_THROW(FinalBoards({{{0x7F000001, 0}}, {0x7F000001, 9}, 1000}, 4, 25.0, 1000, {}),
               std::invalid_argument);
  EXPECT_THROW(FinalBoards({{{0x7F000001, 0}}, {0x7F000001, 9}, 0}, 1, 25.0, 1000, {}),
               std::invalid_argument);
}

// The test triggers on the first fragment of each packet. Every trigger is answered with this fragment or
// counted late, however slow the host is.
TEST(FinalBoards, WholeRunAnswersOrCountsEveryTrigger) {
  const os::Fd socket = os::open_udp_receiver({0x7F000001, 0}, {.buffer_bytes = 32 << 20});
  const os::Fd farm = os::open_udp_receiver({0x7F000001, 0}, {.buffer_bytes = 32 << 20});
  ReadoutOptions options;
  options.nodes = {{os::local_endpoint(socket.get())}};
  options.pool_frames = 40;
  options.burst_frames = 60;
  options.speed = 0.01;
  options.events = 8000;  // two bursts and a part
  options.burst_gap_s = 0.2;
  options.threads = 2;
  options.final.listen.assign(4, {0x7F000001, 0});
  options.final.farm = os::local_endpoint(farm.get());
  options.final.latency = static_cast<Timestamp>(0.1 * options.speed * 1e9 / period_ns);
  Readout readout(options);
  std::vector<os::Fd> boards;
  for (const auto& endpoint : readout.final_boards()->listening())
    boards.push_back(os::open_udp_sender(endpoint));
  std::array<std::uint32_t, 4> number{}, sequence{};
  std::array<std::uint32_t, 4> during{};  // triggers sent during the run; a stopped host sends some after it
  std::map<std::pair<unsigned, std::uint32_t>, Bytes> wanted;  // board, number -> fragment
  std::uint64_t answered = 0, wrong = 0;
  const auto take = [&](const Bytes& answer) {
    std::array<wire::mep::Event, wire::mep::max_events> events;
    const auto decoded = wire::mep::decode(answer, 4, events.data());
    ASSERT_EQ(decoded.refusal, wire::mep::Refusal::none);
    for (unsigned i = 0; i < decoded.count; ++i) {
      const auto found = wanted.find({decoded.board, events[i].number});
      ASSERT_NE(found, wanted.end());    // triggered, and not answered before
      const auto data = events[i].data;  // not std::ranges::search: clang 14 cannot compile it
      wrong +=
          std::search(data.begin(), data.end(), found->second.begin(), found->second.end()) == data.end();
      wanted.erase(found);
      ++answered;
    }
  };
  readout.start();
  while (true) {
    const bool done = !readout.running();
    const auto packet = read(socket.get());
    const auto answer = read(farm.get());
    if (answer) take(*answer);
    if (packet) {
      const auto header = wire::mgp::decode_header(packet->data());
      wire::mgp::Fragment f;
      if (header.has(wire::mgp::flag::sob | wire::mgp::flag::eob) ||
          !wire::mgp::FragmentReader(packet->data(), packet->size(), header).next(f))
        continue;
      const unsigned b = header.board;
      std::array<std::byte, trigger::max_bytes> bytes;
      const trigger::Trigger one{f.timestamp, 1, f.fine, static_cast<std::uint16_t>(number[b])};
      const auto size =
          trigger::encode(bytes.data(), {0, header.burst, 0, sequence[b]++, header.frame}, {&one, 1});
      ASSERT_EQ(::send(boards[b].get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
      wanted[{b, number[b]++}] = Bytes(f.hits - 8, f.hits + 2 * f.stored);
      if (readout.running()) during[b] = number[b];
    }
    if (packet || answer) continue;
    if (done) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  readout.join();
  while (const auto answer = read(farm.get())) take(*answer);
  std::uint64_t overwritten = 0;  // where the host stopped the answers for long
  for (unsigned b = 0; b < 4; ++b) overwritten += readout.final_boards()->counts(b).overwritten;
  EXPECT_LE(wrong, overwritten);
  ttc::LatencyTable::Counts all;
  for (unsigned b = 0; b < 4; ++b) {
    const FinalCounts counts = readout.final_boards()->counts(b);
    EXPECT_TRUE(counts.triggers.balanced());
    EXPECT_EQ(counts.triggers.early, 0U) << "a frame left before its end";
    EXPECT_EQ(counts.lost, 0U);
    EXPECT_GE(counts.triggers.triggers, during[b]);
    EXPECT_LE(counts.triggers.triggers, number[b]);
    all.answered += counts.triggers.answered;
  }
  EXPECT_EQ(all.answered, answered);
  EXPECT_GT(answered, 0U);
}

}  // namespace
}  // namespace nanet::readout
