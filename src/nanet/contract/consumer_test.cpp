// SPDX-License-Identifier: Apache-2.0
// Tests of the consumer protocol on the host: order, laps, overruns, restarts, and out-of-order finishing by
// several threads. ThreadSanitizer checks for data races.
#include "nanet/contract/consumer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "nanet/contract/memory.hpp"
#include "nanet/contract/producer.hpp"

namespace nanet::contract {
namespace {

Shape small() {
  Shape shape;
  shape.buffers = shape.descriptors = 8;
  shape.events = 32;
  return shape;
}

Event received(std::uint64_t n) {
  Event event;
  event.type = static_cast<std::uint8_t>(EventType::receive_done);
  event.buffer = static_cast<std::uint32_t>(n % 8);
  event.n = static_cast<std::uint32_t>(n);
  return event;
}

TEST(Consumer, ReaderInOrderUnwrapsNumbersAndFinishes) {
  const Memory memory(small());
  const View& view = memory.view();
  EventWriter writer(view);
  constexpr std::uint64_t first = 0xFFFF'FFF0;  // the low word wraps
  OrderedReader reader(view, 0, first);
  Event event;
  EXPECT_EQ(reader.poll(event), Poll::nothing);
  for (std::uint64_t i = 0; i < 200; ++i) {
    writer.write(received(first + i));
    ASSERT_EQ(reader.poll(event), Poll::event);
    EXPECT_EQ(reader.n(), first + i);
    EXPECT_EQ(reader.next(), i + 1);
    EXPECT_EQ(HostAccess::acquire(*view.finished), i);
    reader.finish();
    EXPECT_EQ(HostAccess::acquire(*view.finished), i + 1);
    EXPECT_EQ(reader.poll(event), Poll::nothing);
  }
}

TEST(Consumer, LappedReadersStop) {
  const Memory memory(small());
  const View& view = memory.view();
  EventWriter writer(view);
  for (std::uint64_t n = 0; n < 33; ++n) writer.write(received(n));  // entry 0 is overwritten
  OrderedReader reader(view);
  Event event;
  EXPECT_EQ(reader.poll(event), Poll::overrun);
  EXPECT_EQ(reader.next(), 0u);
  SharedReader state;
  std::vector<std::uint32_t> done(view.shape.events);
  std::uint64_t k = 0, n = 0;
  const auto take = [&] {
    return take_entry<HostAccess>(view, state, done.data(), [] { return true; }, [] {}, k, event, n);
  };
  EXPECT_EQ(take(), Poll::overrun);
  EXPECT_EQ(state.overrun, 1u);
}

TEST(Consumer, EntriesFinishInAnyOrder) {
  const Memory memory(small());
  const View& view = memory.view();
  EventWriter writer(view);
  for (std::uint64_t n = 0; n < 4; ++n) writer.write(received(n));
  SharedReader state;
  std::vector<std::uint32_t> done(view.shape.events);
  std::uint64_t k = 0, n = 0;
  Event event;
  const auto take = [&] {
    return take_entry<HostAccess>(view, state, done.data(), [] { return true; }, [] {}, k, event, n);
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(take(), Poll::event);
    EXPECT_EQ(k, i);
  }
  EXPECT_EQ(take(), Poll::nothing);
  for (const std::uint64_t entry : {2u, 1u}) finish_entry<HostAccess>(view, state, done.data(), entry);
  EXPECT_EQ(HostAccess::acquire(*view.finished), 0u);
  finish_entry<HostAccess>(view, state, done.data(), 0);
  EXPECT_EQ(HostAccess::acquire(*view.finished), 3u);
  // Restart: entry 3 was claimed and is claimed again.
  state.claimed = state.finished;
  ASSERT_EQ(take(), Poll::event);
  EXPECT_EQ(k, 3u);
  finish_entry<HostAccess>(view, state, done.data(), k);
  // Restart after finished entries: they are skipped.
  writer.write(received(4));
  state.claimed = 1;
  ASSERT_EQ(take(), Poll::event);
  EXPECT_EQ(n, 4u);
}

TEST(Consumer, ThreadsShareAQueue) {
  constexpr std::uint64_t entries = 20'000;
  const Memory memory(small());
  const View& view = memory.view();
  SharedReader state;
  std::vector<std::uint32_t> done(view.shape.events);
  std::vector<std::uint32_t> taken(entries);
  std::atomic<bool> ending{false};
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < 3; ++t)
    readers.emplace_back([&] {
      for (;;) {
        std::uint64_t k = 0, n = 0;
        Event event;
        if (take_entry<HostAccess>(
                view, state, done.data(), [&] { return ending.load(); }, [] { std::this_thread::yield(); }, k,
                event, n) != Poll::event)
          return;
        ++taken[n];
        finish_entry<HostAccess>(view, state, done.data(), k);
      }
    });
  EventWriter writer(view);
  for (std::uint64_t n = 0; n < entries; ++n) {
    while (writer.free() == 0) std::this_thread::yield();
    writer.write(received(n));
  }
  ending = true;
  readers.clear();
  EXPECT_EQ(HostAccess::acquire(*view.finished), entries);
  EXPECT_EQ(state.overrun, 0u);
  for (const std::uint32_t count : taken) ASSERT_EQ(count, 1u);
}

}  // namespace
}  // namespace nanet::contract
