// SPDX-License-Identifier: Apache-2.0
// Randomised test of the account: after every step the counters balance. After a drain every frame was
// answered once, in order, and covered by one receive event or overrun.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/os/sanitizer_test.hpp"

namespace nanet::card {
namespace {

struct Scenario {
  std::uint32_t buffers;
  std::uint32_t devices;
  std::uint8_t boards;
  contract::Gather gather;
  bool replay;
};

class Chaos {
 public:
  Chaos(const Scenario& scenario, unsigned seed)
      : scenario_(scenario), random_(seed), rig_(options(scenario), scenario.replay) {
    held_.resize(scenario.devices);
  }

  void run(unsigned steps) {
    start_burst();
    for (unsigned i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      ASSERT_TRUE(rig_.balances()) << "step " << i;
    }
    rig_.transmit.limit = 1000;
    rig_.stream.receiver().expire(rig_.now);
    rig_.stream.receiver().drain(rig_.now);
    for (int i = 0; i < 100'000 && !(rig_.stream.passed_all() && i > 3); ++i) {
      for (std::size_t d = 0; d < scenario_.devices; ++d) read(d), answer_all(d);
      rig_.now += 5000;
      rig_.stream.receiver().expire(rig_.now);
      rig_.send();
    }
    for (std::size_t d = 0; d < scenario_.devices; ++d) read(d), answer_all(d);
    rig_.stream.sender().reap_all();
    ASSERT_TRUE(rig_.balances(true));
    check();
  }

 private:
  static ClopOptions options(const Scenario& s) {
    ClopOptions o = rig_options(s.buffers);
    o.devices = s.devices;
    o.rules.boards = s.boards;
    o.gather = s.gather;
    o.packets = 3;
    o.deadline = s.buffers <= 16 ? 20'000 : 30'000;
    o.timeout = 8'000;
    o.segment_bytes = 512;
    o.rules.max_frames = 100'000;
    return o;
  }
  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }
  std::vector<BoardId> ids() const {
    if (scenario_.boards == 0) return {merged_board};
    std::vector<BoardId> all;
    for (BoardId b = 0; b < 4; ++b)
      if (scenario_.boards >> b & 1) all.push_back(b);
    return all;
  }
  BoardId any_board() {
    const auto all = ids();
    return all[roll(static_cast<unsigned>(all.size()))];
  }
  void emit(std::vector<std::byte> bytes) {
    if (roll(50) == 0) return;  // lost
    if (roll(40) == 0) {
      delayed_.push_back(std::move(bytes));
      return;
    }
    if (roll(60) == 0 && !bytes.empty())
      bytes[roll(static_cast<unsigned>(bytes.size()))] ^= static_cast<std::byte>(1u << roll(8));
    if (roll(300) == 0) bytes.resize(roll(static_cast<unsigned>(bytes.size()) + 1));
    rig_.raw(bytes);
    if (roll(30) == 0) rig_.raw(bytes);
    if (!delayed_.empty() && roll(10) == 0) {
      const std::size_t i = roll(static_cast<unsigned>(delayed_.size()));
      rig_.raw(delayed_[i]);
      delayed_.erase(delayed_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  void start_burst() {
    burst_ = static_cast<std::uint8_t>(burst_ + 1 + (roll(10) == 0 ? roll(140) : 0));
    frame_ = 0;
    for (const BoardId b : ids()) {
      sequence_[b] = 1;
      if (roll(5)) emit(build_marker(mgp_flag::sob, b, 0, 0, burst_));
    }
  }
  void send_frame(Frame f) {
    for (const BoardId b : ids()) {
      if (roll(200) == 0) dead_[b] = !dead_[b];
      if (dead_[b]) continue;
      const unsigned packets = 1 + (roll(4) == 0 ? roll(3) : 0);
      for (unsigned i = 0; i < packets; ++i)
        emit(build({.board = b,
                    .frame = f,
                    .burst = burst_,
                    .index = i,
                    .last = i + 1 == packets,
                    .events = roll(4)},
                   sequence_[b]++));
    }
  }
  void step() {
    switch (roll(24)) {
      case 0:
        rig_.now += roll(20'000);
        break;
      case 1:
        if (roll(6) == 0) frame_ += roll(6000);  // all boards jump
        break;
      case 2: {  // one board jumps
        const BoardId b = any_board();
        sequence_[b] += roll(2) ? roll(10'000) : 0;
        emit(build({.board = b, .frame = std::min<Frame>(frame_ + roll(5000), 99'999), .burst = burst_},
                   sequence_[b]++));
        break;
      }
      case 3:  // a board reboots
        if (roll(10) == 0) {
          const BoardId b = any_board();
          if (roll(2)) emit(build_marker(mgp_flag::sob, b, 0, 0, burst_));
          sequence_[b] = 1;
        }
        break;
      case 4:
        if (roll(12) == 0) {
          for (const BoardId b : ids())
            if (roll(8))
              emit(build_marker(mgp_flag::eob, b, frame_ ? frame_ - 1 + (roll(20) == 0) : 0, sequence_[b]++,
                                burst_));
          start_burst();
        }
        break;
      case 5: {  // noise
        std::vector<std::byte> bytes(roll(100));
        for (auto& byte : bytes) byte = static_cast<std::byte>(roll(256));
        rig_.raw(bytes);
        break;
      }
      case 6:
        if (roll(20) == 0) rig_.now += 120'000;  // silence
        break;
      case 7:
        stalled_ = roll(4) == 0;
        break;
      case 8:
        rig_.transmit.limit = roll(4) ? 1000 : roll(3);
        break;
      default:
        if (frame_ < 99'000) send_frame(frame_++);
    }
    rig_.now += roll(3000);
    if (roll(2)) rig_.stream.receiver().expire(rig_.now - static_cast<Nanoseconds>(roll(500)));
    for (std::size_t d = 0; d < scenario_.devices; ++d) {
      if (stalled_) continue;
      read(d);
      std::shuffle(held_[d].begin(), held_[d].end(), random_);
      while (!held_[d].empty() && roll(8)) answer_one(d);
    }
    if (roll(3)) rig_.send();
  }
  void read(std::size_t d) {
    for (const Event& e : rig_.take(d)) {
      if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) {
        held_[d].push_back(e);
        const std::uint64_t n = rig_.n_of(e);
        EXPECT_TRUE(covered_.insert(n).second) << n;
        if (scenario_.gather == contract::Gather::frame) {
          EXPECT_EQ(rig_.header(e, d).frame, e.frame);
        }
      }
      if (e.type == static_cast<std::uint8_t>(EventType::error) &&
          scenario_.gather == contract::Gather::frame) {
        for (std::uint32_t i = 0; i < e.bytes; ++i)
          EXPECT_TRUE(covered_.insert(rig_.n_of(e) + std::uint64_t{i} * scenario_.devices).second);
      }
      if (e.type == static_cast<std::uint8_t>(EventType::send_done)) {
        EXPECT_TRUE(done_.insert(rig_.n_of(e)).second);
      }
      if (e.type == static_cast<std::uint8_t>(EventType::burst_begins)) ++begins_;
      if (e.type == static_cast<std::uint8_t>(EventType::burst_ends)) ++ends_;
    }
  }
  void answer_one(std::size_t d) {
    rig_.answer(held_[d].back(), d);
    held_[d].pop_back();
  }
  void answer_all(std::size_t d) {
    while (!held_[d].empty()) answer_one(d);
  }
  void check() {
    const Counters& c = rig_.stream.counters();
    // A reader that stalls over many bursts and jumps may miss their events, which is counted. Ordinary
    // queues are long enough.
    const bool all_told = c.events_dropped == 0;
    EXPECT_TRUE(all_told || scenario_.buffers < 2048);
    if (all_told) {
      EXPECT_EQ(covered_.size(), c.frames_in);
    }
    EXPECT_EQ(done_.size(), c.frames_in - c.frames_overrun);
    std::vector<std::uint64_t> passed;
    for (const auto& entry : rig_.observer.all) {
      EXPECT_TRUE(passed.empty() || entry.n > passed.back());
      passed.push_back(entry.n);
      EXPECT_TRUE(!all_told || covered_.count(entry.n));
    }
    EXPECT_EQ(passed.size(), c.frames_in);
    if (scenario_.replay) {
      EXPECT_EQ(c.frames_late, c.frames_overrun);
    }
    if (scenario_.gather == contract::Gather::frame) {
      if (all_told) {
        EXPECT_EQ(begins_, c.bursts * scenario_.devices);
        EXPECT_EQ(ends_, begins_);
      }
      EXPECT_TRUE(rig_.stream.frame_receiver()->idle());
    }
    EXPECT_GE(rig_.missing(), 0);
  }

  Scenario scenario_;
  std::mt19937 random_;
  Rig rig_;
  std::uint8_t burst_ = 100;
  Frame frame_ = 0;
  std::map<BoardId, Sequence> sequence_;
  std::map<BoardId, bool> dead_;
  std::vector<std::vector<std::byte>> delayed_;
  std::vector<std::vector<Event>> held_;
  std::set<std::uint64_t> covered_, done_;
  std::uint64_t begins_ = 0, ends_ = 0;
  bool stalled_ = false;
};

class Account : public ::testing::TestWithParam<Scenario> {};

TEST_P(Account, BalancesForAnyTraffic) {
  for (unsigned seed = 1; seed <= test_rounds(12u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos(GetParam(), seed).run(3000);
    if (HasFailure()) return;
  }
}

constexpr auto by_frame = contract::Gather::frame;
constexpr auto by_packet = contract::Gather::packets;
INSTANTIATE_TEST_SUITE_P(
    Scenarios, Account,
    ::testing::Values(Scenario{8, 1, 0xF, by_frame, false}, Scenario{64, 1, 0xF, by_frame, false},
                      Scenario{2048, 1, 0xF, by_frame, false}, Scenario{16, 2, 0xF, by_frame, false},
                      Scenario{32, 1, 0, by_frame, false}, Scenario{32, 1, 0b101, by_frame, false},
                      Scenario{4096, 1, 0xF, by_frame, true}, Scenario{16, 1, 0xF, by_packet, false},
                      Scenario{16, 2, 0xF, by_packet, false}));

}  // namespace
}  // namespace nanet::card
