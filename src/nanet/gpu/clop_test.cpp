// SPDX-License-Identifier: Apache-2.0
// Device library with a host thread per block: over a socket card, and with a queue written by the test.
#include "nanet/gpu/clop.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <numeric>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gpu/host_clop_test.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {
namespace {

// Answers each buffer with the sums of the bytes of its payloads.
void sums(const Clop& clop) {
  Work work;
  while (poll(clop, work)) {
    std::byte* const out = send_buffer(clop, work);
    for (unsigned i = 0; i < payloads(clop); ++i) {
      const Payload p = payload(clop, work, i);
      std::uint32_t sum = 0;
      for (std::uint32_t b = 0; b < p.bytes; ++b) sum += static_cast<std::uint32_t>(p.at[b]);
      wire::mgp::store(out + std::size_t{4} * i, sum);
    }
    post(clop, work, 4 * payloads(clop));
    release(clop, work);
  }
}

std::uint32_t sum_of(const trigger::Bytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0u,
                         [](std::uint32_t sum, std::byte b) { return sum + static_cast<std::uint32_t>(b); });
}

TEST(DeviceClop, AnswersPacketsOverUdpAndStartsAgain) {
  const os::Fd answers = os::open_udp_receiver({.address = 0x7F000001, .port = 0});
  card::ClopOptions options;
  options.listen = {{.address = 0x7F000001, .port = 0}};
  options.destinations = {os::local_endpoint(answers.get())};
  options.gather = contract::Gather::packets;
  options.packets = 2;
  options.buffers = 512;  // more than the packets sent, so that slow blocks cause no loss
  options.timeout = 20'000'000'000;
  options.deadline = 0;
  options.burst_silence = 200'000'000'000;
  const auto nic = card::open_card("socket");
  card::Clop& clop = nic->register_clop(options);
  nic->start();
  const os::Fd board = os::open_udp_sender(clop.local());
  HostClop consumer(clop.view());
  std::mt19937 random(3);
  Sequence sequence = 1;
  for (unsigned round = 0; round < 3; ++round) {
    consumer.start(3, sums);
    for (unsigned batch = 0; batch < 30; ++batch) {
      std::vector<std::uint32_t> expected;
      for (unsigned p = 0; p < 10; ++p) {
        const auto packet = trigger::mgp_packet(0, sequence, sequence, trigger::random_events(random, 0, 15),
                                                wire::mgp::flag::last);
        ++sequence;
        expected.push_back(sum_of(packet));
        ASSERT_EQ(send(board.get(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
      }
      for (unsigned a = 0; a < 5; ++a) {
        pollfd wait{answers.get(), POLLIN, 0};
        std::array<std::byte, 64> answer;
        ASSERT_EQ(::poll(&wait, 1, 20'000), 1);
        ASSERT_EQ(recv(answers.get(), answer.data(), answer.size(), 0), 8);
        EXPECT_EQ(wire::mgp::load<std::uint32_t>(answer.data()), expected[2 * a]);
        EXPECT_EQ(wire::mgp::load<std::uint32_t>(answer.data() + 4), expected[2 * a + 1]);
      }
    }
    consumer.stop();
  }
  consumer.start(2, sums);
  nic->stop();
  consumer.stop();
  EXPECT_EQ(consumer.state.overrun, 0u);
  EXPECT_EQ(clop.counters().frames_answered, 450u);
  EXPECT_EQ(clop.counters().frames_late, 0u);
  EXPECT_EQ(contract::acquire(*clop.view().finished), consumer.state.finished);
  EXPECT_GE(consumer.state.finished, 2 * 450u);  // receive and send done of each
}

contract::Shape small() {
  contract::Shape s;
  s.gather = contract::Gather::frame;
  s.boards = 2;
  s.segment_bytes = 256;
  s.buffers = s.descriptors = 16;
  s.events = 64;
  return s;
}

TEST(DeviceClop, ManyBlocksFinishInAnyOrderAndNothingIsLeft) {
  const contract::Memory memory(small());
  const contract::View& view = memory.view();
  HostClop consumer(view);
  consumer.state.reference = 5'000'000'000;  // numbers beyond 32 bits
  std::vector<std::uint32_t> seen(40'000, 0);
  consumer.start(4, [&](const Clop& clop) {
    Work work;
    while (poll(clop, work)) {
      ++seen[work.n - 5'000'000'000];
      post(clop, work, 8);
      release(clop, work);
    }
  });
  contract::EventWriter writer(view);
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    const std::uint64_t n = 5'000'000'000 + i;
    // As the card: reuses a buffer only after its return.
    const auto back = [&] {
      return i < 16 ||
             contract::acquire(view.returned[view.buffer_of(n)]) == static_cast<std::uint32_t>(n - 15);
    };
    while (writer.free() < 4 || !back()) std::this_thread::yield();
    contract::Event e;
    e.type = static_cast<std::uint8_t>(contract::EventType::receive_done);
    e.buffer = view.buffer_of(n);
    e.frame = static_cast<std::uint32_t>(i);
    e.n = static_cast<std::uint32_t>(n);
    writer.write(e);
    if (i % 3 == 0) {  // of another type
      e.type = static_cast<std::uint8_t>(contract::EventType::send_done);
      writer.write(e);
    }
  }
  consumer.stop();
  EXPECT_EQ(consumer.state.overrun, 0u);
  EXPECT_EQ(contract::acquire(*view.finished), writer.written());
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1u) << i;
  for (std::uint64_t n = 5'000'040'000 - 16; n < 5'000'040'000; ++n) {
    EXPECT_EQ(contract::acquire(view.returned[view.buffer_of(n)]), static_cast<std::uint32_t>(n + 1));
    contract::Descriptor d;
    ASSERT_TRUE(contract::posted(view, n, d));
    EXPECT_EQ(d.bytes, 8u);
    EXPECT_EQ(d.address, reinterpret_cast<std::uintptr_t>(view.send_buffer(view.buffer_of(n))));
  }
}

TEST(DeviceClop, StopsWhereTheCardHasLappedIt) {
  const contract::Memory memory(small());
  HostClop consumer(memory.view());
  contract::EventWriter writer(memory.view());
  for (unsigned i = 0; i < 70; ++i) writer.write({});  // no entry is finished
  Work work;
  EXPECT_FALSE(poll(consumer.clop, work));
  EXPECT_EQ(consumer.state.overrun, 1u);
}

TEST(DeviceClop, PayloadsStayInsideTheBuffer) {
  const contract::Memory memory(small());
  const contract::View& view = memory.view();
  HostClop consumer(view);
  Work work;
  work.buffer = 3;
  auto& header = *reinterpret_cast<contract::FrameHeader*>(view.buffer(3));
  header.board[0].bytes = 96;
  header.board[1].bytes = 65535;
  EXPECT_EQ(payloads(consumer.clop), 2u);
  EXPECT_EQ(payload(consumer.clop, work, 0).at, view.segment(3, 0));
  EXPECT_EQ(payload(consumer.clop, work, 0).bytes, 96u);
  EXPECT_EQ(payload(consumer.clop, work, 1).at, view.segment(3, 1));
  EXPECT_EQ(payload(consumer.clop, work, 1).bytes, 256u);

  // A merged buffer has rows, no packets.
  EXPECT_EQ(consumer.state.merged, 0u);
  header.layout = contract::Layout::merged;
  EXPECT_EQ(payload(consumer.clop, work, 0).bytes, 0u);
  EXPECT_EQ(consumer.state.merged, 1u);
  alignas(16) std::array<std::byte, 512> copy{};
  receive(consumer.clop, work, copy.data(), 256);
  EXPECT_EQ(payload(consumer.clop, work, 1).bytes, 0u);
  work.copy = nullptr;

  contract::Shape shape = small();
  shape.gather = contract::Gather::packets;
  shape.packets = 3;
  const contract::Memory packets(shape);
  HostClop other(packets.view());
  const std::uint32_t length = 65535;
  std::memcpy(packets.view().buffer(3) + 2 * shape.slot_bytes + 4, &length, 4);
  EXPECT_EQ(payloads(other.clop), 3u);
  EXPECT_EQ(payload(other.clop, work, 1).bytes, 0u);
  EXPECT_EQ(payload(other.clop, work, 2).bytes, shape.slot_bytes);
  EXPECT_EQ(payload(other.clop, work, 2).at, packets.view().buffer(3) + 2 * shape.slot_bytes);
}

}  // namespace
}  // namespace nanet::gpu
