// SPDX-License-Identifier: Apache-2.0
// Tests of load shedding with a simulated clock: overload, recovery, cards without the host's clock; and of
// the account when executors skip frames.
#include "nanet/trigger/executors/load_shedder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::trigger {
namespace {

constexpr Nanoseconds deadline = 50'000'000, service = 200'000;

TEST(LoadShedder, KeepsFramesThatCanBeAnswered) {
  const LoadShedder shedder{deadline};
  std::uint64_t keep_from = 0;
  const FrameProgress progress{10, 20, 1'000'000};
  const auto skips = [&](std::uint64_t n, Nanoseconds waited) {
    return shedder.skips({n, 1'000, 1'000 + waited}, progress, service, keep_from);
  };
  EXPECT_TRUE(skips(9, 0));  // answered already
  EXPECT_FALSE(skips(10, 0));
  const Nanoseconds longest = deadline - LoadShedder::margin(deadline) - service - progress.lag;
  EXPECT_FALSE(skips(10, longest));
  EXPECT_TRUE(skips(10, longest + 1));
  EXPECT_FALSE(LoadShedder{}.skips({9, 0, deadline}, progress, service, keep_from));  // a replay
}

TEST(LoadShedder, ServiceTimeAboveTheDeadlineDoesNotSkipFreshFrames) {
  ServiceTime long_ago;
  for (int i = 0; i < 100; ++i) long_ago.add(10 * deadline);
  std::uint64_t keep_from = 0;
  const FrameProgress progress{0, 20, deadline};
  EXPECT_FALSE(LoadShedder{deadline}.skips({5, 1'000, 1'000}, progress, long_ago.expected(), keep_from));
  for (int i = 0; i < 100; ++i) long_ago.add(service);
  EXPECT_NEAR(static_cast<double>(long_ago.expected()), 2.0 * service, 0.02 * service);
}

TEST(LoadShedder, KeepsTheNewerHalfWithoutAClock) {
  const LoadShedder shedder{deadline};
  std::uint64_t keep_from = 0;
  const FrameProgress progress{100, 200, -1};
  const auto skips = [&](std::uint64_t n) { return shedder.skips({n, 0, 0}, progress, service, keep_from); };
  EXPECT_FALSE(skips(100));
  EXPECT_TRUE(skips(99));
  EXPECT_TRUE(skips(100));
  EXPECT_TRUE(skips(149));
  EXPECT_FALSE(skips(150));
}

// One server, frames at constant intervals, and a sender that answers header-only at the deadline or when a
// frame is skipped.
struct Server {
  explicit Server(Nanoseconds deadline_ns) : shedder{deadline_ns} {}

  // Runs until time `until`, with a frame every `interval`.
  void run(Nanoseconds until, Nanoseconds interval) {
    while (now < until) {
      for (; next <= now; next += interval) waiting.push_back({end++, next});
      while (!waiting.empty() && waiting.front().first < passed) waiting.pop_front();
      if (waiting.empty()) {
        now = next;
        continue;
      }
      const auto [n, first] = waiting.front();
      waiting.pop_front();
      std::uint64_t keep_from = 0;
      if (shedder.skips({n, first, now}, {passed, end, 0}, time.expected(), keep_from)) {
        late.push_back(first);
        passed = n + 1;
        continue;
      }
      now += service;
      time.add(service);
      passed = n + 1;
      (now <= first + shedder.deadline ? answered : late).push_back(first);
    }
  }
  std::size_t answered_between(Nanoseconds from, Nanoseconds to) const {
    return static_cast<std::size_t>(std::count_if(answered.begin(), answered.end(),
                                                  [&](Nanoseconds at) { return at >= from && at < to; }));
  }

  LoadShedder shedder;
  ServiceTime time;
  Nanoseconds now = 0, next = 0;
  std::uint64_t end = 0, passed = 0;
  std::deque<std::pair<std::uint64_t, Nanoseconds>> waiting;
  std::vector<Nanoseconds> answered, late;  // arrival times
};

TEST(LoadShedder, AnswersAtCapacityUnderOverload) {
  constexpr Nanoseconds second = 1'000'000'000;
  for (const Nanoseconds limit : {deadline, Nanoseconds{1'000'000}})
    for (const double load : {1.1, 1.5, 2.0, 10.0}) {
      Server server(limit);
      server.run(2 * second, static_cast<Nanoseconds>(static_cast<double>(service) / load));
      const double capacity = static_cast<double>(second) / service;
      EXPECT_GT(static_cast<double>(server.answered_between(second / 2, 3 * second / 2)), 0.95 * capacity)
          << load << " of capacity, deadline " << limit;
    }
}

TEST(LoadShedder, RecoversAtOnceWhenTheLoadFallsOrAfterAStop) {
  constexpr Nanoseconds second = 1'000'000'000;
  Server server(deadline);
  const Nanoseconds low = service * 10 / 8;
  server.run(second, service / 2);
  server.run(2 * second, low);
  server.now += second / 2;  // stopped
  server.run(4 * second, low);
  const auto late_between = [&](Nanoseconds from, Nanoseconds to) {
    return std::count_if(server.late.begin(), server.late.end(),
                         [&](Nanoseconds at) { return at >= from && at < to; });
  };
  EXPECT_EQ(late_between(second + 1'000'000, 2 * second - 1'000'000), 0);
  EXPECT_GT(late_between(2 * second, 5 * second / 2), 0);
  EXPECT_EQ(late_between(5 * second / 2 + 1'000'000, 4 * second), 0);
}

// A simulated card's clock stops while the executor works: its sender needs no turn in between.
TEST(InlineExecutor, LeavesTheSenderItsTurnOnlyIfDeadlinesGoOn) {
  for (const bool slices : {true, false}) {
    card::ClopOptions clop = Chain::options(1);
    clop.deadline = 16'000;  // half a microsecond for a slice, less than any frame takes
    clop.timeout = 8'000;
    Chain chain(clop, *rich::make_reconstructor("math", {}, rich::Geometry::make()), 1, {},
                [&](ExecutorOptions options, auto views, const auto& algorithm, auto& traces) {
                  options.slices = slices;
                  return make_cpu_executor(options, std::move(views), algorithm, traces);
                });
    for (Frame f = 0; f < 4; ++f)
      chain.packet(mgp_packet(0, f, f + 1, {{700, {{2}}, 0}}, wire::mgp::flag::last));
    chain.turn();
    EXPECT_EQ(chain.sent().size(), slices ? 1u : 4u);
  }
}

// The receive events carry stamps of the simulated clock, so every frame has waited for long.
TEST(LoadShedder, SkippedFramesAreAnsweredOnceAndTheAccountCloses) {
  constexpr Frame frames = 3000;
  for (const unsigned threads : {1u, 2u, 3u}) {
    card::ClopOptions clop = Chain::options(1);
    clop.deadline = 10'000'000;
    clop.timeout = 5'000'000;
    Chain chain(clop, *rich::make_reconstructor("math", {}, rich::Geometry::make()), threads);
    const auto send = [&](Frame f) {
      chain.packet(mgp_packet(0, f, f + 1, {{700, {{2}}, 0}}, wire::mgp::flag::last));
    };
    send(0);
    while (!chain.stream().passed_all()) chain.turn();  // from now on the executor has a clock
    for (Frame f = 1; f < frames; ++f) send(f);
    chain.drain();
    const Account account = chain.account();
    EXPECT_TRUE(account.balances());
    EXPECT_EQ(account.frames_in, frames);
    EXPECT_EQ(account.frames_late, frames - 1);
    EXPECT_EQ(account.events_built, 1u);
    EXPECT_EQ(account.answers_after_deadline, 0u);
    ASSERT_EQ(chain.sent().size(), frames);
    for (Frame f = 0; f < frames; ++f)
      EXPECT_EQ(wire::mgp::load<std::uint32_t>(chain.sent()[f].data()) & 0xFFFFFF, f);
  }
}

}  // namespace
}  // namespace nanet::trigger
