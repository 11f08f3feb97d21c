// SPDX-License-Identifier: Apache-2.0
// Tests of the stops that reading and sending threads record: batches with constructed times and sizes, waits
// for the card's thread, slow sends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/software/batch_reader.hpp"
#include "nanet/card/software/transmit_thread.hpp"

namespace nanet::card {
namespace {

using Gap = std::pair<Nanoseconds, Nanoseconds>;

std::vector<Gap> listed(const stats::PollingStops& thread) {
  std::vector<Gap> all;
  for (const auto& gap : thread.record().listed()) all.emplace_back(gap.begin, gap.end);
  return all;
}

// Reads of a source, in order; afterwards it is empty and its time does not advance.
struct Script {
  struct Read {
    Nanoseconds before;
    std::size_t packets;
  };
  explicit Script(std::vector<Read> all) : reads(std::move(all)) {}
  std::vector<Read> reads;
  std::atomic<std::size_t> next{0}, empty{0};  // empty: reads after the last
};

class ScriptedBatch {
 public:
  using Source = Script*;
  static constexpr std::size_t most = 32, handed_at_once = 8, first_request = 1;
  explicit ScriptedBatch(std::size_t = most) {}
  bool read(Script* script, std::size_t index, std::size_t) noexcept {
    index_ = index;
    const std::size_t at = script->next;
    const bool more = at < script->reads.size();
    before_ = more ? script->reads[at].before : script->reads.back().before;
    packets_ = more ? script->reads[at].packets : 0;
    ++(more ? script->next : script->empty);
    return packets_ > 0;
  }
  std::size_t source() const noexcept { return index_; }
  std::size_t packets() const noexcept { return packets_; }
  Nanoseconds before() const noexcept { return before_; }
  bool emptied() const noexcept { return true; }
  std::size_t next_request(bool) const noexcept { return 1; }
  void validate(const wire::mgp::Rules&, SegmentsAhead*, SegmentsAhead::Lane&) noexcept {}
  void make_room_to_validate() {}
  void fetch(bool) const noexcept {}
  bool copied() const noexcept { return false; }
  void fetch_to_write() noexcept {}
  void release() noexcept {}

 private:
  std::size_t index_ = 0, packets_ = 0;
  Nanoseconds before_ = 0;
};

using Reader = BatchReader<ScriptedBatch>;
constexpr Nanoseconds us = 1'000;
Nanoseconds stamp(const ScriptedBatch& batch) noexcept {
  return batch.before();
}

TEST(PollingStops, OfAReadingThread) {
  Script script({{100 * us, 0}, {151 * us, 8}, {202 * us, 9}, {402 * us, 0}, {452 * us, 0}, {503 * us, 0}});
  stats::PollingThreads threads(-1);
  Reader reader({&script}, 1, {}, {}, nullptr, &threads);
  while (script.empty == 0) reader.round(stamp);
  ASSERT_EQ(threads.all().size(), 2u);
  // From 202 to 402: nine packets.
  EXPECT_EQ(listed(threads.all()[1]),
            (std::vector<Gap>{{100 * us, 151 * us}, {151 * us, 202 * us}, {452 * us, 503 * us}}));
  EXPECT_EQ(threads.all()[1].record().elapsed(), 203 * us);
  EXPECT_EQ(threads.all()[1].name(), "read 0");
}

TEST(PollingStops, OfAReadingThreadContainNoWaitForTheCardsThread) {
  std::vector<Script::Read> reads;
  for (Nanoseconds i = 0; i < 16; ++i) reads.push_back({(100 + i) * us, 1});
  reads.push_back({500 * us, 1});  // after the card's thread has emptied the ring
  reads.push_back({600 * us, 0});
  Script script(reads);
  stats::PollingThreads threads(-1);
  Reader reader({&script}, 1, {}, {}, nullptr, &threads);
  while (script.next < 16) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the thread finds the ring full
  ASSERT_EQ(script.next, 16u);
  while (script.empty == 0) reader.round(stamp);
  EXPECT_EQ(listed(threads.all()[1]), (std::vector<Gap>{{500 * us, 600 * us}}));
}

TEST(PollingStops, OfTheCardsThreadEndBeforeItsFirstBatch) {
  Script script({{100 * us, 0}, {151 * us, 3}, {300 * us, 9}, {500 * us, 0}});
  stats::PollingThreads threads(-1);
  Reader reader({&script}, 0, {}, {}, nullptr, &threads);
  reader.round(stamp);
  reader.round(stamp);
  threads.card().time(210 * us);  // the loop's time after a round
  reader.round(stamp);
  threads.card().time(400 * us);  // nine packets since 300
  reader.round(stamp);
  EXPECT_EQ(listed(threads.card()),
            (std::vector<Gap>{
                {100 * us, 151 * us}, {151 * us, 210 * us}, {210 * us, 300 * us}, {400 * us, 500 * us}}));
}

TEST(PollingStops, OfTheCardsThreadEndAtABacklogOfTheReadingThreads) {
  Script script({{100 * us, 8}, {101 * us, 8}, {102 * us, 8}});
  stats::PollingThreads threads(-1);
  Reader reader({&script}, 1, {}, {}, nullptr, &threads);
  while (script.empty == 0) std::this_thread::yield();
  const Nanoseconds began = os::monotonic_now() - 1'000 * us;
  threads.card().time(began);
  EXPECT_TRUE(reader.round(stamp));
  const Nanoseconds worked = os::monotonic_now();
  threads.card().time(worked + 1'000 * us);  // 24 packets since the backlog was found
  const auto gaps = listed(threads.card());
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].first, began);
  EXPECT_LE(gaps[0].second, worked);
}

// Sleeps 1 ms in each call that sends.
class SlowTransmit final : public Transmit {
 public:
  struct Call {
    std::size_t datagrams;
    Nanoseconds begin, end;
  };
  explicit SlowTransmit(std::vector<Call>& calls) : calls_(calls) {}
  std::size_t send(std::span<const Datagram> batch) noexcept override {
    const Nanoseconds begin = os::monotonic_now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    calls_.push_back({batch.size(), begin, os::monotonic_now()});
    return batch.size();
  }
  std::uint32_t destinations() const noexcept override { return 1; }

 private:
  std::vector<Call>& calls_;
};

TEST(PollingStops, OfTheSendingThreadContainAtMostEightDatagrams) {
  std::vector<SlowTransmit::Call> calls;
  stats::PollingThreads threads(-1);
  stats::PollingStops& sending = threads.add("send", -1);
  const std::array<std::byte, 8> bytes{};
  {
    TransmitThread transmit(std::make_unique<SlowTransmit>(calls), -1, &sending);
    std::vector<Datagram> batch(9, {bytes.data(), bytes.size(), 0});
    const auto looked = [&] {  // the thread has been idle since
      const Nanoseconds from = sending.record().elapsed();
      while (sending.record().elapsed() == from) std::this_thread::yield();
    };
    for (const std::size_t count : {1, 8, 9}) {
      looked();
      ASSERT_EQ(transmit.send(std::span(batch).first(count)), count);
      looked();
    }
  }
  ASSERT_EQ(calls.size(), 3u);
  const auto inside = [&](const SlowTransmit::Call& call) {
    for (const auto& [begin, end] : listed(sending))
      if (begin <= call.begin && call.end <= end) return true;
    return false;
  };
  EXPECT_TRUE(inside(calls[0]));
  EXPECT_TRUE(inside(calls[1]));
  EXPECT_EQ(calls[2].datagrams, 9u);
  EXPECT_FALSE(inside(calls[2]));
}

}  // namespace
}  // namespace nanet::card
