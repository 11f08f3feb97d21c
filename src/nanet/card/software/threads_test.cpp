// SPDX-License-Identifier: Apache-2.0
// Tests of the contract under load: the card in one thread, consumers in others that claim events, check
// every payload byte, post and return. Payloads are not atomic: ThreadSanitizer finds missing ordering.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/consumer.hpp"

namespace nanet::card {
namespace {

void work_through(std::uint32_t buffers, Frame frames, unsigned workers, bool keep_up) {
  ClopOptions options = rig_options(buffers);
  options.deadline = keep_up ? 0 : 20'000;
  options.timeout = 1'000'000'000;
  Rig rig(options);
  const auto& view = rig.views[0];
  contract::SharedReader reader;
  std::vector<std::uint32_t> done(view.shape.events);
  std::atomic<bool> ending{false};
  std::atomic<std::uint64_t> wrong{0}, received{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < workers; ++t)
    threads.emplace_back([&] {
      for (;;) {
        std::uint64_t k = 0, n = 0;
        Event e;
        const contract::Poll found = contract::take_entry<contract::HostAccess>(
            view, reader, done.data(), [&] { return ending.load(); }, [] { std::this_thread::yield(); }, k, e,
            n);
        if (found == contract::Poll::nothing) return;
        if (found != contract::Poll::event) {
          ++wrong;
          return;
        }
        if (e.type == static_cast<std::uint8_t>(EventType::receive_done)) {
          ++received;
          const auto& header = *reinterpret_cast<const contract::FrameHeader*>(view.buffer(e.buffer));
          if (header.frame != e.frame || header.complete != 0xF) ++wrong;
          for (BoardId b = 0; b < 4; ++b) {
            const auto want = build({.board = b, .frame = e.frame, .events = 2}, e.frame + 1);
            if (std::memcmp(view.segment(e.buffer, b), want.data(), want.size()) != 0) ++wrong;
          }
          std::byte* at = view.send_buffer(e.buffer);
          const wire::mtp::Primitive primitive{0x4001, static_cast<std::uint8_t>(e.frame), 0};
          contract::post(view, e.n, at,
                         static_cast<std::uint32_t>(wire::mtp::encode(at, e.frame, &primitive, 1)), 0,
                         e.buffer);
          contract::return_buffer(view, e.n);
        }
        contract::finish_entry<contract::HostAccess>(view, reader, done.data(), k);
      }
    });
  rig.sobs();
  for (Frame f = 0; f < frames; ++f) {
    // The buffer is returned, and all events except the last half of the buffers are finished.
    const auto blocked = [&] {
      if (f < buffers) return false;
      return contract::acquire(view.returned[f % buffers]) != f - buffers + 1 ||
             rig.stream.table().next + buffers <= f ||
             contract::acquire(*view.finished) + buffers < 1 + 2 * std::uint64_t{f};
    };
    while (keep_up && blocked()) {
      rig.send();
      std::this_thread::yield();
    }
    rig.now += 1000;
    for (BoardId b = 0; b < 4; ++b) rig.feed({.board = b, .frame = f, .events = 2});
    rig.send();
  }
  rig.eobs(frames - 1);
  rig.stream.receiver().expire(rig.now);
  rig.stream.receiver().drain(rig.now);
  while (!rig.stream.passed_all()) {
    rig.send();
    if (!keep_up) rig.now += 100;
    std::this_thread::yield();
  }
  ending = true;
  for (auto& t : threads) t.join();
  rig.stream.sender().reap_all();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(rig.balances(true));
  const Counters& c = rig.stream.counters();
  ASSERT_EQ(rig.transmit.sent.size(), frames);
  for (Frame f = 0; f < frames; ++f) {
    const auto& s = rig.transmit.sent[f];
    EXPECT_EQ(s.frame, f);
    EXPECT_EQ(s.bytes.size(), s.sub_id == 0xFF ? 8u : 16u);
    if (s.sub_id != 0xFF) {
      EXPECT_EQ(s.bytes[13], static_cast<std::byte>(f));
    }
  }
  if (keep_up) {
    EXPECT_EQ(received, frames);
    EXPECT_EQ(c.frames_answered, frames);
    EXPECT_EQ(rig.lost_or_bad(), 0u);
  }
}

TEST(Threads, ConsumersThatAreWaitedFor) {
  for (const unsigned workers : {1u, 2u, 4u}) work_through(16, 2000, workers, true);
}

TEST(Threads, ConsumersThatMayBeLateOrOverrun) {
  for (const unsigned workers : {1u, 3u}) work_through(8, 2000, workers, false);
}

}  // namespace
}  // namespace nanet::card
