// SPDX-License-Identifier: Apache-2.0
// Ports of a torus of cards, without libfabric: order and flow control of packets, PUT and GET, stale keys,
// the end of the torus.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "nanet/fabric/backend.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/torus/card/server.hpp"

namespace nanet::fabric::testing {
namespace {

using torus::Nack;
using torus::card::Server;
using torus::card::ServerOptions;

constexpr Nanoseconds patience = 20'000'000'000;

// What a port delivers.
struct Inbox final : Receiver {
  void receive(unsigned, Address from, const Packet& packet, const std::byte* payload) override {
    packets.push_back(packet);
    sources.push_back(from);
    bytes.assign(payload, payload + packet.bytes);
  }
  void transferred(std::uint64_t token, Direct result) override { ended.emplace_back(token, result); }
  void lost(int e) override { error = e; }

  std::vector<Packet> packets;
  std::vector<Address> sources;
  std::vector<std::byte> bytes;  // of the last packet
  std::vector<std::pair<std::uint64_t, Direct>> ended;
  int error = 0;
};

class CardTest : public ::testing::Test {
 protected:
  CardTest() : path_("/dev/shm/nanet-torus-card-" + std::to_string(getpid())) {
    ServerOptions o;
    o.path = path_;
    o.model.lattice.size = {2, 2, 1};
    // Simulated cards instead of software: gateware/sim/torus_cards.cpp.
    if (const char* const program = std::getenv("NANET_TEST_TORUS_CARDS")) o.program = program;
    server_ = std::make_unique<Server>(o);
    thread_ = std::thread([this] {
      while (!stop_) server_->run(10'000'000);
    });
    node_ = open_card_node(path_.c_str(), "/dev/shm", true);
    a_ = node_->open(nullptr);
    b_ = node_->open(nullptr);
    int error = 0;
    to_b_ = a_->open(b_->address(), error);
    EXPECT_NE(to_b_, nullptr) << error;
  }
  ~CardTest() override {
    to_b_.reset();
    a_.reset();
    b_.reset();
    end_torus();
  }
  void end_torus() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  // Polls both ports until the condition holds.
  bool until(const std::function<bool()>& condition) {
    for (const Nanoseconds end = os::monotonic_now() + patience; !condition();) {
      a_->poll(at_a_);
      b_->poll(at_b_);
      if (os::monotonic_now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool send(std::size_t payload, std::uint64_t tag) {
    std::byte* const at = to_b_->reserve(payload);
    if (at == nullptr) return false;
    Packet p;
    p.bytes = static_cast<std::uint32_t>(payload);
    p.tag = tag;
    std::memcpy(at, &p, sizeof p);
    for (std::size_t i = 0; i < payload; ++i) at[sizeof p + i] = static_cast<std::byte>(i * 3 + tag);
    to_b_->commit();
    return true;
  }

  std::string path_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Port> a_, b_;
  std::unique_ptr<Channel> to_b_;
  Inbox at_a_, at_b_;
};

TEST_F(CardTest, PacketsOfEverySizeArriveInOrder) {
  std::uint64_t tag = 0;
  for (const std::size_t bytes : {0, 1, 112, 113, 192, 4016, 4017, 8096, 8192}) {
    ASSERT_TRUE(until([&] { return send(bytes, tag); })) << bytes;
    ++tag;
    ASSERT_TRUE(until([&] { return at_b_.packets.size() == tag; })) << bytes;
    EXPECT_EQ(at_b_.packets.back().tag, tag - 1);
    EXPECT_TRUE(at_b_.sources.back() == a_->address());
    ASSERT_EQ(at_b_.bytes.size(), bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(at_b_.bytes[i], static_cast<std::byte>(i * 3 + tag - 1));
  }
}

TEST_F(CardTest, AReceiverThatDoesNotPollStopsItsSender) {
  std::uint64_t sent = 0;
  const Nanoseconds end = os::monotonic_now() + patience;
  while (send(8192, sent) && os::monotonic_now() < end) ++sent;
  EXPECT_GT(sent, 0u);
  EXPECT_LE(sent, 16u / 3);  // 16 slots, three for each packet
  for (int k = 0; k < 100; ++k) a_->poll(at_a_);
  EXPECT_FALSE(send(8192, sent));
  while (sent < 600) {
    const std::size_t bytes = sent % 5 * 2000;
    ASSERT_TRUE(until([&] { return send(bytes, sent); }));
    ++sent;
  }
  ASSERT_TRUE(until([&] { return at_b_.packets.size() == sent; }));
  for (std::uint64_t k = 0; k < sent; ++k) EXPECT_EQ(at_b_.packets[k].tag, k);
  EXPECT_EQ(server_->totals().refused[static_cast<std::size_t>(Nack::no_slot)], 0u);
}

TEST_F(CardTest, ExposedBuffersAreReadWithoutTheirOwner) {
  std::vector<std::byte> from(1'000'000), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 5 >> 4);
  const iovec parts[2] = {{from.data(), 300'001}, {from.data() + 300'001, from.size() - 300'001}};
  Span spans[2];
  ASSERT_TRUE(b_->expose(parts, 2, spans));
  const iovec local{to.data(), to.size()};
  ASSERT_EQ(to_b_->copy_from(&local, 1, spans, 2, 5), Direct::pending);
  ASSERT_TRUE(until([&] { return !at_a_.ended.empty(); }));
  EXPECT_EQ(at_a_.ended.front(), (std::pair<std::uint64_t, Direct>{5, Direct::done}));
  EXPECT_EQ(to, from);
  b_->conceal(spans, 2);
  ASSERT_EQ(to_b_->copy_from(&local, 1, spans, 2, 6), Direct::pending);
  ASSERT_TRUE(until([&] { return at_a_.ended.size() == 2; }));
  EXPECT_EQ(at_a_.ended.back(), (std::pair<std::uint64_t, Direct>{6, Direct::unavailable}));
  EXPECT_GE(server_->totals().refused[static_cast<std::size_t>(Nack::out_of_range)], 1u);
}

TEST_F(CardTest, KeysOpenMemoryUntilTheyAreWithdrawn) {
  std::vector<std::byte> memory(10'000), local(10'000, std::byte{9});
  Registration r;
  r.key = 42;
  r.base = r.begin = reinterpret_cast<std::uint64_t>(memory.data());
  r.bytes = memory.size();
  r.write = true;
  b_->publish(r);
  std::uint64_t token = 0;
  const auto put = [&](std::size_t bytes) {
    const iovec from{local.data(), bytes};
    return to_b_->rma(true, &from, 1, 42, 100, bytes, token);
  };
  // The first use reads the directory of keys.
  ASSERT_TRUE(until([&] { return put(5000) == Direct::pending; }));
  ASSERT_TRUE(until([&] { return at_a_.ended.size() == 1; }));
  EXPECT_EQ(at_a_.ended.back().second, Direct::done);
  EXPECT_EQ(memory[99], std::byte{0});
  EXPECT_EQ(memory[100], std::byte{9});
  EXPECT_EQ(memory[5099], std::byte{9});
  EXPECT_EQ(memory[5100], std::byte{0});
  // The target decides about reads, which the registration does not permit, and about wrong ranges.
  const iovec to{local.data(), 8};
  EXPECT_EQ(to_b_->rma(false, &to, 1, 42, 0, 8, 1), Direct::unavailable);
  EXPECT_EQ(to_b_->rma(true, &to, 1, 42, 9'993, 8, 1), Direct::unavailable);
  b_->withdraw(42);
  const std::vector<std::byte> before = memory;
  ASSERT_EQ(put(100), Direct::pending);
  ASSERT_TRUE(until([&] { return at_a_.ended.size() == 2; }));
  EXPECT_EQ(at_a_.ended.back().second, Direct::unavailable);
  EXPECT_EQ(memory, before);
}

TEST_F(CardTest, AnAbandonedTransferLeavesTheMemoryAlone) {
  constexpr std::size_t bytes = 8'000'000;  // not over before it is abandoned
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  const iovec part{from.data(), from.size()}, local{to.data(), to.size()};
  Span span;
  ASSERT_TRUE(b_->expose(&part, 1, &span));
  ASSERT_EQ(to_b_->copy_from(&local, 1, &span, 1, 5), Direct::pending);
  a_->abandon(5);
  // A second transfer ends behind the first one.
  std::vector<std::byte> other(100);
  const iovec second{other.data(), other.size()};
  ASSERT_EQ(to_b_->copy_from(&second, 1, &span, 1, 6), Direct::pending);
  ASSERT_TRUE(until([&] { return !at_a_.ended.empty(); }));
  EXPECT_EQ(at_a_.ended.front(), (std::pair<std::uint64_t, Direct>{6, Direct::done}));
  EXPECT_EQ(to.back(), std::byte{0});
}

TEST_F(CardTest, TheEndOfTheTorusIsReported) {
  EXPECT_TRUE(to_b_->alive());
  end_torus();
  EXPECT_FALSE(to_b_->alive());
  ASSERT_TRUE(until([&] { return at_a_.error != 0 && at_b_.error != 0; }));
  EXPECT_EQ(at_a_.error, ENETDOWN);
  int error = 0;
  EXPECT_EQ(a_->open(b_->address(), error), nullptr);
  EXPECT_EQ(error, ENETDOWN);
  EXPECT_THROW(node_->open(nullptr), std::system_error);
}

TEST_F(CardTest, AClosedPortIsNoPeer) {
  const Address gone = b_->address();
  b_.reset();
  for (const Nanoseconds end = os::monotonic_now() + patience; to_b_->alive() && os::monotonic_now() < end;)
    std::this_thread::yield();
  EXPECT_FALSE(to_b_->alive());
  int error = 0;
  EXPECT_EQ(a_->open(gone, error), nullptr);
  EXPECT_EQ(error, EHOSTUNREACH);
  b_ = node_->open(&gone);  // another owner of the port
  EXPECT_TRUE(b_->address() == gone);
  to_b_ = a_->open(gone, error);
  ASSERT_NE(to_b_, nullptr);
  ASSERT_TRUE(send(10, 3));
  EXPECT_TRUE(until([&] { return at_b_.packets.size() == 1; }));
}

}  // namespace
}  // namespace nanet::fabric::testing
