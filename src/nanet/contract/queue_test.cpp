// SPDX-License-Identifier: Apache-2.0
// Tests of event queue, send ring and return slots: many laps, promises, a lapped reader, numbers near the
// ends of 32 bits, and threads (ThreadSanitizer finds races).
#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "nanet/contract/memory.hpp"
#include "nanet/contract/producer.hpp"

namespace nanet::contract {
namespace {

Shape small() {
  Shape s;
  s.buffers = 8;
  s.descriptors = 8;
  s.events = 32;
  s.segment_bytes = 64;
  return s;
}

Event numbered(std::uint32_t i) {
  Event e;
  e.type = 1;
  e.stream = 9;
  e.flags = static_cast<std::uint16_t>(i);
  e.buffer = i ^ 0x55;
  e.bytes = i * 3;
  e.frame = i * 7;
  e.time_ns = std::uint64_t{i} << 33;
  e.n = i;
  return e;
}

TEST(EventQueue, ManyLapsAreReadInOrder) {
  const Memory memory(small());
  EventWriter writer(memory.view());
  std::uint64_t next = 0;
  Event e;
  EXPECT_EQ(poll_event(memory.view(), 0, e), Poll::nothing);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    writer.write(numbered(i));
    if (i % 7) continue;
    while (poll_event(memory.view(), next, e) == Poll::event) {
      const Event want = numbered(static_cast<std::uint32_t>(next));
      EXPECT_EQ(e.flags, want.flags);
      EXPECT_EQ(e.buffer, want.buffer);
      EXPECT_EQ(e.bytes, want.bytes);
      EXPECT_EQ(e.frame, want.frame);
      EXPECT_EQ(e.time_ns, want.time_ns);
      EXPECT_EQ(e.n, want.n);
      EXPECT_EQ(e.stream, 9);
      EXPECT_EQ(e.lap, next / 32 + 1);
      release(*memory.view().finished, ++next);
    }
    EXPECT_EQ(next, i + 1);
    EXPECT_EQ(writer.free(), 32u);
  }
}

TEST(EventQueue, EntryIsValidOnlyWithItsLap) {
  const Memory memory(small());
  EventWriter writer(memory.view());
  Event e;
  for (std::uint32_t i = 0; i < 32; ++i) writer.write(numbered(i));
  EXPECT_EQ(poll_event(memory.view(), 31, e), Poll::event);
  EXPECT_EQ(poll_event(memory.view(), 32, e), Poll::nothing);  // its entry still holds lap 1
  EXPECT_EQ(memory.view().queue[31].lap, 1u);
}

TEST(EventQueue, LappedReaderIsReported) {
  const Memory memory(small());
  EventWriter writer(memory.view());
  Event e;
  for (std::uint32_t i = 0; i < 33; ++i) writer.write(numbered(i));
  EXPECT_EQ(poll_event(memory.view(), 0, e), Poll::overrun);
  EXPECT_EQ(poll_event(memory.view(), 1, e), Poll::event);
  EXPECT_EQ(poll_event(memory.view(), 32, e), Poll::event);
}

TEST(EventQueue, FreeEntriesFollowWhatTheConsumerFinished) {
  const Memory memory(small());
  EventWriter writer(memory.view());
  for (std::uint32_t i = 0; i < 16; ++i) writer.write(numbered(i));
  EXPECT_EQ(writer.free(), 16u);
  EXPECT_FALSE(writer.less_than_half_free());
  writer.write(numbered(16));
  EXPECT_TRUE(writer.less_than_half_free());
  release(*memory.view().finished, std::uint64_t{1});
  EXPECT_FALSE(writer.less_than_half_free());
}

TEST(EventQueue, PromisedEntriesAreReserved) {
  const Memory memory(small());
  EventWriter writer(memory.view());
  writer.promise(30);
  EXPECT_EQ(writer.room(), 2u);
  writer.write(numbered(0));
  writer.write(numbered(1));
  EXPECT_EQ(writer.room(), 0u);
  for (std::uint32_t i = 2; i < 32; ++i) writer.write_promised(numbered(i));
  EXPECT_EQ(writer.free(), 0u);
  Event e;
  for (std::uint64_t k = 0; k < 32; ++k) EXPECT_EQ(poll_event(memory.view(), k, e), Poll::event);
}

TEST(SendRing, DescriptorsOfOneLapAreNotThoseOfTheNext) {
  const Memory memory(small());
  const View& v = memory.view();
  Descriptor d;
  for (std::uint64_t n = 0; n < 100; ++n) {
    EXPECT_FALSE(posted(v, n, d));
    post(v, n, v.send_buffer(v.buffer_of(n)), static_cast<std::uint32_t>(n + 8), 1,
         static_cast<std::uint32_t>(n * 5));
    ASSERT_TRUE(posted(v, n, d));
    EXPECT_EQ(d.address, reinterpret_cast<std::uintptr_t>(v.send_buffer(v.buffer_of(n))));
    EXPECT_EQ(d.bytes, n + 8);
    EXPECT_EQ(d.destination, 1u);
    EXPECT_EQ(d.token, n * 5);
    EXPECT_EQ(*v.doorbell, n);
    EXPECT_FALSE(posted(v, n + 8, d));
    if (n >= 8) {
      EXPECT_FALSE(posted(v, n - 8, d));
    }
  }
}

TEST(ReturnSlots, HoldTheNextNumberAndDifferFromNeverHandedOut) {
  const Memory memory(small());
  const View& v = memory.view();
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(v.returned[i], 0u);
  return_buffer(v, 0);
  EXPECT_EQ(v.returned[0], 1u);
  return_buffer(v, (std::uint64_t{5} << 32) + 11);
  EXPECT_EQ(v.returned[3], 12u);
}

TEST(Numbers, LowWordsAreUnwrappedToTheNearest) {
  const std::uint64_t top = std::uint64_t{3} << 32;
  EXPECT_EQ(unwrap_counter(5, top - 3), top + 5);
  EXPECT_EQ(unwrap_counter(0xFFFFFFFE, top + 3), top - 2);
  EXPECT_EQ(unwrap_counter(7, 7), 7u);
  for (const std::uint64_t reference : {std::uint64_t{1} << 31, top + 12345})
    for (const std::int64_t off : {-2'000'000'000LL, -1LL, 0LL, 1LL, 2'000'000'000LL})
      EXPECT_EQ(unwrap_counter(static_cast<std::uint32_t>(reference + off), reference), reference + off);
}

// The writer fills a payload, then writes the event. Readers claim entries, check the payload, post and
// return. The payload is not atomic: only the lap words order it.
TEST(HandOver, PayloadArrivesWithItsEventAndReturnsWithItsBuffer) {
  const Memory memory(small());
  const View& v = memory.view();
  constexpr std::uint64_t total = 4000;
  std::atomic<std::uint64_t> claim{0}, wrong{0};
  const auto consume = [&] {
    for (;;) {
      const std::uint64_t k = claim.fetch_add(1, std::memory_order_relaxed);
      if (k >= total) return;
      Event e;
      while (poll_event(v, k, e) != Poll::event) std::this_thread::yield();
      std::byte* at = v.buffer(e.buffer);
      for (int i = 0; i < 256; ++i)
        if (at[i] != static_cast<std::byte>(e.n + static_cast<unsigned>(i))) ++wrong;
      std::memset(v.send_buffer(e.buffer), static_cast<int>(e.n & 0xFF), 64);
      post(v, k, v.send_buffer(e.buffer), 64);
      return_buffer(v, k);
    }
  };
  std::thread first(consume), second(consume);
  EventWriter writer(v);
  std::uint64_t sent = 0;
  const auto send = [&] {
    Descriptor d;
    while (sent < writer.written() && posted(v, sent, d)) {
      const auto* bytes = reinterpret_cast<const std::byte*>(d.address);
      for (unsigned i = 0; i < d.bytes; ++i)
        if (bytes[i] != static_cast<std::byte>(sent)) ++wrong;
      release(*v.finished, ++sent);
    }
  };
  for (std::uint64_t n = 0; n < total; ++n) {
    while (n >= 8 &&
           (acquire(v.returned[v.buffer_of(n)]) != static_cast<std::uint32_t>(n - 8 + 1) || sent <= n - 8)) {
      send();
      std::this_thread::yield();
    }
    std::byte* at = v.buffer(v.buffer_of(n));
    for (int i = 0; i < 256; ++i) at[i] = static_cast<std::byte>(n + static_cast<unsigned>(i));
    Event e = numbered(static_cast<std::uint32_t>(n));
    e.buffer = v.buffer_of(n);
    writer.write(e);
    send();
  }
  while (sent < total) {
    send();
    std::this_thread::yield();
  }
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace nanet::contract
