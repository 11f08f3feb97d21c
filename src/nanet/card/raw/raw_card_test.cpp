// SPDX-License-Identifier: Apache-2.0
// Tests of the raw card with sources that replay given frames: payloads reach the receiver, other frames are
// counted by reason, drops are counted as lost, and answers leave through the port's transmit path.
#include "nanet/card/raw/raw_card.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {
namespace {

constexpr wire::Endpoint board{0x0A000001, 4000}, trigger{0x0A000002, 58913};

struct Double final : FrameSource {
  std::mutex mutex;  // of `waiting`, for reading threads
  std::deque<std::vector<std::byte>> waiting;
  std::deque<std::vector<std::byte>> taken;
  std::uint64_t dropped = 0;
  std::atomic<std::uint64_t> returned{0};
  Nanoseconds stamp = 0;

  std::size_t take(std::span<Arrival> out, std::vector<std::byte>&) noexcept override {
    const std::lock_guard lock(mutex);
    std::size_t count = 0;
    for (; count < out.size() && !waiting.empty(); ++count) {
      taken.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    for (std::size_t i = 0; i < count; ++i) out[i] = {taken[taken.size() - count + i], stamp};
    return count;
  }
  void give_back(std::size_t frames) noexcept override {
    returned += frames;
    taken.erase(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(frames));
  }
  int wait_fd() const noexcept override { return -1; }
  std::uint64_t drops() noexcept override { return dropped; }
  double backlog() const noexcept override { return waiting.empty() ? 0.0 : 0.5; }
};

struct Sent final : Transmit {
  explicit Sent(std::vector<std::vector<std::byte>>& to) : out(to) {}
  std::size_t send(std::span<const Datagram> batch) noexcept override {
    for (const Datagram& d : batch) out.emplace_back(d.data, d.data + d.bytes);
    return batch.size();
  }
  std::uint32_t destinations() const noexcept override { return 1; }
  std::vector<std::vector<std::byte>>& out;
};

class RawCards : public ::testing::Test {
 protected:
  explicit RawCards(unsigned threads = 1)
      : card_("double", [this](const ClopOptions&, Counters* const&) {
          RawPort port;
          for (std::size_t i = 0; i < 2; ++i) {
            auto source = std::make_unique<Double>();
            source_[i] = source.get();
            port.sources.push_back(std::move(source));
          }
          port.transmit = std::make_unique<Sent>(sent_);
          port.local = {trigger};
          return port;
        }) {
    ClopOptions options;
    options.buffers = 64;
    options.timeout = timeout;
    options.burst_silence = 1'000'000'000'000;
    options.deadline = 0;
    options.threads = threads;
    clop_ = &card_.register_clop(options);
  }
  static std::vector<std::byte> frame(std::span<const std::byte> payload, wire::Endpoint to = trigger) {
    std::vector<std::byte> out(wire::udp_frame_overhead + payload.size());
    wire::build_udp_frame(out.data(), board, to, payload);
    return out;
  }
  const Counters& counters() const { return clop_->counters(); }

  static constexpr Nanoseconds timeout = 10'000'000'000;
  std::vector<std::vector<std::byte>> sent_;
  std::array<Double*, 2> source_{};
  RawCard card_;
  Clop* clop_ = nullptr;
};

TEST_F(RawCards, FramesOfBothQueuesBecomeOneFrameWithAnAnswer) {
  for (unsigned b = 0; b < 4; ++b) {
    const auto id = static_cast<BoardId>(b);
    auto& queue = source_[b % 2]->waiting;
    queue.push_back(frame(build_marker(mgp_flag::sob, id, 0, 0, first_burst)));
    queue.push_back(frame(build({.board = id}, 1)));
  }
  Event event;
  ASSERT_TRUE(clop_->wait(event, 5'000'000'000));
  while (event.type != static_cast<std::uint8_t>(EventType::receive_done))
    ASSERT_TRUE(clop_->wait(event, 5'000'000'000));
  EXPECT_EQ(counters().packets_in, 8U);
  EXPECT_EQ(source_[0]->returned + source_[1]->returned, 8U);
  const auto out = clop_->send_buffer(event);
  clop_->post(event, static_cast<std::uint32_t>(wire::mtp::encode(out.data(), event.frame, nullptr, 0)));
  clop_->give_back(event);
  card_.send();
  ASSERT_EQ(sent_.size(), 1U);
}

TEST_F(RawCards, AFrameTimesOutWhileItsQueueIsNeverEmpty) {
  Double& queue = *source_[0];
  // Long past: a card that looked at the clock alone would close at once.
  queue.stamp = os::monotonic_now() - 2 * timeout;
  queue.waiting.push_back(frame(build_marker(mgp_flag::sob, 0, 0, 0, first_burst)));
  queue.waiting.push_back(frame(build({}, 1)));
  const std::vector<std::byte> other(60);
  const auto fill = [&] { queue.waiting.insert(queue.waiting.end(), 64, other); };
  fill();
  card_.receive();
  EXPECT_EQ(counters().frames_incomplete, 0U);
  queue.stamp += timeout + 1;
  fill();
  card_.receive();
  EXPECT_EQ(counters().frames_incomplete, 1U);
}

TEST_F(RawCards, OtherFramesAreCountedByReasonAndNeverEnterTheAccount) {
  auto damaged = frame(build({}, 0));
  damaged.back() ^= std::byte{1};
  source_[0]->waiting.push_back(std::move(damaged));
  source_[0]->waiting.push_back(std::vector<std::byte>(20));
  auto other = frame(build({}, 0));
  other[12] = std::byte{0x86};  // IPv6
  source_[1]->waiting.push_back(std::move(other));
  card_.receive();
  const auto counted = card_.not_mgp();
  EXPECT_EQ(counted[static_cast<std::size_t>(wire::NotMgp::bad_checksum)], 1U);
  EXPECT_EQ(counted[static_cast<std::size_t>(wire::NotMgp::not_ipv4)], 2U);
  EXPECT_EQ(counters().packets_in, 0U);
  EXPECT_EQ(source_[0]->returned + source_[1]->returned, 3U);
}

TEST_F(RawCards, DropsOfAQueueAreLostPacketsOnce) {
  source_[0]->dropped = 7;
  card_.receive();
  card_.drain();
  EXPECT_EQ(counters().lost[static_cast<std::size_t>(Lost::ring_overflow)], 7U);
  source_[0]->dropped = 9;
  card_.drain();
  EXPECT_EQ(counters().lost[static_cast<std::size_t>(Lost::ring_overflow)], 9U);
}

TEST_F(RawCards, BacklogIsThatOfTheFullestQueue) {
  EXPECT_EQ(card_.backlog(), 0.0);
  source_[1]->waiting.emplace_back(60);
  EXPECT_EQ(card_.backlog(), 0.5);
}

// One reading thread per queue.
class ReadingThreads : public RawCards {
 protected:
  ReadingThreads() : RawCards(4) {}
  // Drives the card until a condition holds.
  template <class F>
  void until(const F& condition) {
    while (!condition()) {
      card_.receive();
      std::this_thread::yield();
    }
  }
  void push(unsigned queue, std::vector<std::byte> bytes) {
    const std::lock_guard lock(source_[queue]->mutex);
    source_[queue]->waiting.push_back(std::move(bytes));
  }
};

TEST_F(ReadingThreads, FramesOfAllQueuesArriveInOrderAndTheirMemoryReturns) {
  constexpr std::uint64_t packets = 2'000;  // per board: many times the ring of a thread
  for (unsigned b = 0; b < 4; ++b) {
    const auto id = static_cast<BoardId>(b);
    push(b % 2, frame(build_marker(mgp_flag::sob, id, 0, 0, first_burst)));
  }
  until([&] { return counters().packets_in == 4; });
  Event event;
  for (Frame n = 0; n < packets; ++n) {
    for (unsigned b = 0; b < 4; ++b)
      push(b % 2, frame(build({.board = static_cast<BoardId>(b), .frame = n}, n + 1)));
    if (n % 16) continue;
    until([&] { return counters().packets_in == 4 * (n + 2); });
    while (clop_->poll(event)) {
      if (event.type != static_cast<std::uint8_t>(EventType::receive_done)) continue;
      clop_->post(event, 0);
      clop_->give_back(event);
    }
    card_.send();
  }
  until([&] { return counters().packets_in == 4 * (packets + 1); });
  until([&] { return source_[0]->returned + source_[1]->returned == 4 * (packets + 1); });
  EXPECT_EQ(counters().packets_used, 4 * packets);  // without the markers
  EXPECT_EQ(clop_->counters().frames_incomplete, 0U);
}

TEST_F(ReadingThreads, OtherFramesAreCountedByReason) {
  auto damaged = frame(build({}, 0));
  damaged.back() ^= std::byte{1};
  push(0, std::move(damaged));
  push(1, std::vector<std::byte>(20));
  const auto count = [&](wire::NotMgp reason) { return card_.not_mgp()[static_cast<std::size_t>(reason)]; };
  until([&] { return count(wire::NotMgp::bad_checksum) == 1 && count(wire::NotMgp::not_ipv4) == 1; });
  EXPECT_EQ(counters().packets_in, 0U);
}

TEST_F(ReadingThreads, DrainWaitsForWhatTheQueuesHold) {
  push(0, frame(build_marker(mgp_flag::sob, 0, 0, 0, first_burst)));
  card_.drain();
  EXPECT_EQ(counters().packets_in, 1U);
}

}  // namespace
}  // namespace nanet::card
