// SPDX-License-Identifier: Apache-2.0
// Network interfaces in software: transfers between two ports, and every refusal by its name.
#include "nanet/torus/card/interface.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "nanet/contract/consumer.hpp"

namespace nanet::torus::card {
namespace {

constexpr std::uint16_t a_domain = 1024, b_domain = 1025;  // epoch 1 of ports 0 and 1

// Two ports on neighbouring nodes of a ring.
class InterfaceTest : public ::testing::Test {
 protected:
  struct Side {
    std::vector<std::byte> file;
    PortMemory memory;
    std::uint32_t posted = 0;
    std::uint64_t next_event = 0;
  };

  InterfaceTest() : model_(options()), carrier_(model_, options().lattice), shape_(Shape::of(4)) {
    interfaces_ = std::make_unique<Interfaces>(carrier_, options().lattice, shape_, totals_);
    for (unsigned k = 0; k < 2; ++k) {
      Side& s = side_[k];
      s.file.resize(Offsets(shape_).bytes + 64);
      void* at = s.file.data();
      std::size_t room = s.file.size();
      s.memory = PortMemory(static_cast<std::byte*>(std::align(64, Offsets(shape_).bytes, at, room)), shape_);
      s.memory.header->posted = 4;
      interfaces_->attach(
          k, k == 0 ? a_domain : b_domain, s.memory,
          DomainMemory(s.memory, static_cast<std::uint32_t>(getpid()), Offsets(shape_).bytes));
    }
  }
  static ModelOptions options() {
    ModelOptions o;
    o.lattice.size = {4, 1, 1};
    return o;
  }

  void enter(unsigned side, unsigned entry, const void* at, std::uint64_t window, std::size_t bytes,
             std::uint8_t rights) {
    PortMemory& m = side_[side].memory;
    m.places[entry] = reinterpret_cast<std::uint64_t>(at);
    m.table[entry].address = window;
    m.table[entry].bytes = bytes;
    m.table[entry].rights = rights;
    m.table[entry].valid = 1;
    m.header->table_used = std::max(m.header->table_used, entry + 1);
  }
  // Posts a descriptor of side 0 to side 1.
  void post(PutDescriptor d) {
    Side& s = side_[0];
    d.local_domain = a_domain;
    d.message = s.posted;
    d.lap = s.posted / put_entries_count + 1;
    s.memory.ring[s.posted % put_entries_count] = d;
    s.memory.header->doorbell = ++s.posted;
  }
  static PutDescriptor to_b(PacketType type, std::uint32_t bytes) {
    PutDescriptor d;
    d.type = static_cast<std::uint8_t>(type);
    d.remote_domain = b_domain;
    d.node = Node{1, 0, 0}.packed();
    d.bytes = bytes;
    d.flags = put_flag::completed | put_flag::ack;
    d.local_address = 1 << 20;
    d.remote_address = 1 << 20;
    return d;
  }
  void run() {
    std::vector<Arrival> arrivals;
    for (bool any = true; any;) {
      any = interfaces_->transmit();
      arrivals.clear();
      any |= carrier_.step(4096, arrivals);
      for (const Arrival& a : arrivals) interfaces_->receive(a);
      any |= !arrivals.empty();
    }
  }
  // Next event of a side; type 0: none.
  contract::Event event(unsigned side) {
    contract::Event e;
    Side& s = side_[side];
    if (contract::poll_event(s.memory.view, s.next_event, e) != contract::Poll::event) return {};
    ++s.next_event;
    return e;
  }
  void expect(unsigned side, EventType type, Nack reason = Nack::none) {
    const contract::Event e = event(side);
    EXPECT_EQ(e.type, static_cast<std::uint8_t>(type));
    EXPECT_EQ(e.flags, static_cast<std::uint16_t>(reason));
  }
  void expect_no_event(unsigned side) { EXPECT_EQ(event(side).type, 0u); }
  std::uint64_t refused(Nack reason) const { return totals_.refused[static_cast<std::size_t>(reason)]; }
  // A packet from node 0 arrives at node 1.
  void arrive(Header h, std::vector<Word> payload, std::uint32_t damage = 0) {
    h.to = {1, 0, 0};
    Footer f;
    f.message = 77;
    const Word header = encode_header(h);
    const Word footer = sealed_footer(header, payload, f);
    if (damage > 0) payload[0].low ^= damage;
    interfaces_->receive(1, header, payload, footer);
  }
  // So does a PUT that its source could not read.
  void arrive_unread(std::uint8_t flags) {
    Header h = header(PacketType::put, 16);
    h.to = {1, 0, 0};
    Footer f;
    f.message = 77;
    f.flags = flags;
    const Word word = encode_header(h);
    const std::vector<Word> payload(1);
    Word footer = sealed_footer(word, payload, f);
    footer.high ^= 0xFFFF'FFFF'0000'0000;
    interfaces_->receive(1, word, payload, footer);
    run();
  }
  static Header header(PacketType type, std::uint16_t length) {
    Header h;
    h.type = static_cast<std::uint8_t>(type);
    h.channel = b_domain;
    h.length = length;
    h.address = type == PacketType::send ? 0 : 1 << 20;
    return h;
  }
  // The refusal is counted, and its NACK becomes an event of the sender.
  void expect_refused(Nack reason) {
    EXPECT_EQ(refused(reason), 1u) << name(reason);
    run();
    expect(0, EventType::failed, reason);
  }

  Totals totals_;
  Model model_;
  Carrier carrier_;
  Shape shape_;
  std::unique_ptr<Interfaces> interfaces_;
  Side side_[2];
};

TEST_F(InterfaceTest, PutAndGetMoveRegisteredMemory) {
  std::vector<std::byte> from(20'000), to(20'000), back(20'000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 >> 3);
  enter(0, 0, from.data(), 1 << 20, from.size(), 0);
  enter(0, 1, back.data(), 1 << 22, back.size(), 0);
  enter(1, 0, to.data(), 1 << 20, to.size(), right::remote_write | right::remote_read);
  PutDescriptor put = to_b(PacketType::put, 15'000);
  put.remote_address += 100;
  put.flags |= put_flag::notify;
  post(put);
  run();
  EXPECT_TRUE(std::equal(from.begin(), from.begin() + 15'000, to.begin() + 100));
  expect(1, EventType::put_arrived);
  expect(0, EventType::completed);
  PutDescriptor get = to_b(PacketType::get, 9'000);
  get.local_address = 1 << 22;
  get.remote_address += 1'100;
  post(get);
  run();
  EXPECT_TRUE(std::equal(from.begin() + 1'000, from.begin() + 10'000, back.begin()));
  const contract::Event e = event(0);
  EXPECT_EQ(e.type, static_cast<std::uint8_t>(EventType::completed));
  EXPECT_EQ(e.n, 1u);
  // Four packets and their DONE; a GET and three packets of data.
  EXPECT_EQ(totals_.packets, 4u + 4 + 1 + 3);
  EXPECT_EQ(totals_.unexpected, 0u);
}

TEST_F(InterfaceTest, SendsFillSlotsInOrderUntilNoneIsLeft) {
  std::vector<std::byte> from(4096, std::byte{5});
  enter(0, 0, from.data(), 1 << 20, from.size(), 0);
  for (int k = 0; k < 5; ++k) post(to_b(PacketType::send, 4096));
  run();
  for (std::uint32_t k = 0; k < 4; ++k) {
    const contract::Event e = event(1);
    EXPECT_EQ(e.type, static_cast<std::uint8_t>(EventType::send_arrived));
    EXPECT_EQ(e.buffer, k);
    EXPECT_EQ(e.bytes, 4096u);
    EXPECT_EQ(side_[1].memory.slots[4096 * k + 4095], std::byte{5});
  }
  EXPECT_EQ(refused(Nack::no_slot), 1u);
  for (int k = 0; k < 4; ++k) expect(0, EventType::completed);
  expect(0, EventType::failed, Nack::no_slot);
}

TEST_F(InterfaceTest, DamagedAndForeignPacketsAreRefusedByName) {
  std::vector<std::byte> memory(64);
  enter(1, 0, memory.data(), 1 << 20, 32, right::remote_write);
  enter(1, 1, memory.data() + 32, 1 << 21, 32, right::remote_read);
  const std::vector<Word> one(1);
  arrive(header(PacketType::put, 16), one, 1);
  expect_refused(Nack::bad_crc);
  arrive_unread(0);
  expect_no_event(0);
  EXPECT_EQ(refused(Nack::bad_crc), 2u);
  arrive_unread(footer_flag::ack);
  run();
  expect(0, EventType::failed, Nack::bad_crc);
  arrive(header(PacketType::put, 32), one);
  expect_refused(Nack::bad_length);
  arrive(header(static_cast<PacketType>(13), 16), one);
  expect_refused(Nack::bad_type);
  Header h = header(PacketType::put, 16);
  h.channel = b_domain + 1024;  // of an earlier owner of the port
  arrive(h, one);
  expect_refused(Nack::bad_domain);
  h = header(PacketType::put, 16);
  h.address += 17;
  arrive(h, one);
  expect_refused(Nack::out_of_range);
  h.address = 1 << 21;
  arrive(h, one);
  expect_refused(Nack::no_right);
  h = header(PacketType::put, 16);
  h.intra = 1;
  arrive(h, one);
  expect_refused(Nack::bad_port);
  h = header(PacketType::put, 16);
  h.out_of_lattice = true;
  arrive(h, one);
  expect_refused(Nack::out_of_lattice);
  h = header(PacketType::get, 16);
  h.address = (1 << 21) + 8;
  arrive(h, {encode_extension({1 << 20, a_domain, 25})});
  EXPECT_EQ(refused(Nack::out_of_range), 2u);
  // A requester outside the lattice gets neither data nor an answer.
  h.to = {1, 0, 0};
  h.address = 1 << 21;
  Footer f;
  f.source = {4, 0, 0};
  const std::vector<Word> request{encode_extension({1 << 20, a_domain, 16})};
  const Word word = encode_header(h);
  interfaces_->receive(1, word, request, sealed_footer(word, request, f));
  run();
  EXPECT_EQ(refused(Nack::out_of_lattice), 2u);
  for (const std::byte b : memory) EXPECT_EQ(b, std::byte{0});
}

TEST_F(InterfaceTest, WrongDescriptorsFailAtTheSender) {
  std::vector<std::byte> from(64);
  enter(0, 0, from.data(), 1 << 20, from.size(), 0);
  post(to_b(PacketType::done, 16));
  post(to_b(PacketType::send, 4097));
  PutDescriptor d = to_b(PacketType::put, 16);
  d.node = Node{4, 0, 0}.packed();
  post(d);
  post(to_b(PacketType::put, 65));  // beyond the registered memory
  run();
  expect(0, EventType::failed, Nack::bad_type);
  expect(0, EventType::failed, Nack::bad_length);
  expect(0, EventType::failed, Nack::out_of_lattice);
  expect(0, EventType::failed, Nack::out_of_range);
  EXPECT_EQ(totals_.packets, 0u);
}

TEST_F(InterfaceTest, TooLongInlinePayloadsAreSkipped) {
  std::vector<std::byte> to(64);
  enter(1, 0, to.data(), 1 << 20, to.size(), right::remote_write);
  PutDescriptor good = to_b(PacketType::put, 16);
  good.flags |= put_flag::inline_payload;
  PutDescriptor bad = good;
  // Behind a doorbell for all: the payload has the entries of its bytes.
  bad.bytes = 257;
  post(bad);
  PutDescriptor payload;
  payload.local_address = 0x0101010101010101;
  for (int k = 0; k < 5; ++k) post(payload);
  post(good);
  post(payload);
  run();
  // More bytes than entries posted: the ring goes on behind the doorbell.
  bad.bytes = 0xFFFF'FFFF;
  post(bad);
  post(payload);
  run();
  post(good);
  post(payload);
  run();
  for (int k = 0; k < 2; ++k) {
    expect(0, EventType::failed, Nack::bad_length);
    expect(0, EventType::completed);
  }
  expect_no_event(0);
  EXPECT_EQ(refused(Nack::bad_length), 2u);
  EXPECT_EQ(totals_.packets, 4u);
}

TEST_F(InterfaceTest, MemoryThatGoesDuringAGetFailsItAtTheRequester) {
  std::vector<std::byte> from(100'000), to(100'000);
  enter(0, 0, to.data(), 1 << 20, to.size(), 0);
  enter(1, 0, from.data(), 1 << 20, from.size(), right::remote_read);
  post(to_b(PacketType::get, 100'000));
  std::vector<Arrival> arrivals;
  // The GET and one packet of data arrive.
  while (totals_.packets < 2) {
    interfaces_->transmit();
    carrier_.step(64, arrivals);
    for (const Arrival& a : arrivals) interfaces_->receive(a);
    arrivals.clear();
  }
  side_[1].memory.table[0].valid = 0;
  run();
  expect(0, EventType::failed, Nack::out_of_range);
  expect_no_event(0);
}

TEST_F(InterfaceTest, WhatAClosedPortWouldAnswerFails) {
  std::vector<std::byte> from(64);
  enter(0, 0, from.data(), 1 << 20, from.size(), 0);
  interfaces_->detach(1);
  post(to_b(PacketType::put, 16));
  run();
  expect(0, EventType::failed, Nack::bad_port);
  EXPECT_TRUE(interfaces_->drained(0));
}

}  // namespace
}  // namespace nanet::torus::card
