// SPDX-License-Identifier: Apache-2.0
// Cases of RDMA between nodes, for threads (rdma_test.cpp) and for GPUs (rdma_gpu_test.cu). A Machine has
// nodes, memory, and runs a script per block.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "nanet/gpu/rdma/node_memory.hpp"
#include "nanet/gpu/rdma/script_test.hpp"

namespace nanet::gpu::cases {

using Bytes = std::vector<std::byte>;
using Call = Step::Call;
using torus::EventType;
using torus::Nack;
using torus::PacketType;
namespace flag = torus::put_flag;

inline constexpr std::uint32_t last_mark = 0xFFFF'FFFF;

struct Block {
  unsigned node = 0;
  std::vector<Step> steps;
};

inline Step put_step(std::uint16_t node, RdmaKey key, std::uint64_t offset, std::byte* local,
                     std::uint32_t bytes, std::uint8_t flags = 0) {
  Step s;
  s.call = Call::put;
  s.node = node;
  s.key = key;
  s.offset = offset;
  s.local = local;
  s.bytes = bytes;
  s.flags = flags;
  return s;
}
inline Step signal_step(std::uint16_t node, RdmaKey key, std::uint64_t offset, std::byte* local,
                        std::uint32_t bytes, std::uint32_t immediate, std::uint8_t flags = 0) {
  Step s = put_step(node, key, offset, local, bytes, flags);
  s.call = Call::put_signal;
  s.immediate = immediate;
  return s;
}
inline Step get_step(std::uint16_t node, RdmaKey key, std::uint64_t offset, std::byte* local,
                     std::uint32_t bytes, std::uint8_t flags = 0) {
  Step s = put_step(node, key, offset, local, bytes, flags);
  s.call = Call::get;
  return s;
}
inline Step post_step(const torus::PutDescriptor& d, std::byte* payload) {
  Step s;
  s.call = Call::post;
  s.descriptor = d;
  s.local = payload;
  return s;
}
inline Step step(Call call) {
  Step s;
  s.call = call;
  return s;
}
inline Step until_step(std::uint32_t immediate) {
  Step s = step(Call::wait_until);
  s.immediate = immediate;
  return s;
}

inline Bytes random_bytes(std::mt19937& random, std::size_t n) {
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// Puts and gets of all sizes and alignments leave the bytes that the same copies in order leave, and no
// others.
template <class Machine>
void transfers_of_all_sizes_and_alignments(unsigned count, std::uint32_t largest) {
  RdmaOptions options;
  options.entries = 32;
  options.copy_engine_from = 50'000;
  Machine machine(options);
  const std::size_t size = largest + 4096;
  std::byte* const here = machine.allocate(0, size);
  std::byte* const there = machine.allocate(1, size);
  machine.register_memory(0, here, size);
  const RdmaKey key = machine.register_memory(1, there, size);
  std::mt19937 random(5);
  Bytes mine = random_bytes(random, size), other = random_bytes(random, size);
  machine.write(here, mine);
  machine.write(there, other);
  machine.start();
  std::vector<Step> steps;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t limits[] = {16, 200, 5000, largest};
    auto bytes = static_cast<std::uint32_t>(random() % (limits[random() % 4] + 1));
    const auto from = static_cast<std::uint32_t>(random() % (size - bytes));
    auto to = static_cast<std::uint32_t>(random() % (size - bytes));
    if (random() % 3 == 0)
      to = std::min<std::uint32_t>((to & ~15u) | (from & 15u), static_cast<std::uint32_t>(size - bytes));
    switch (random() % 3) {
      case 0:
        steps.push_back(get_step(1, key, to, here + from, bytes));
        std::memcpy(mine.data() + from, other.data() + to, bytes);
        break;
      case 1:
        bytes %= torus::max_inline_bytes + 1;
        // Read when posted, after the gets before it.
        steps.push_back(step(Call::quiet));
        steps.push_back(put_step(1, key, to, here + from, bytes, flag::inline_payload));
        std::memcpy(other.data() + to, mine.data() + from, bytes);
        break;
      default:
        steps.push_back(put_step(1, key, to, here + from, bytes));
        std::memcpy(other.data() + to, mine.data() + from, bytes);
    }
  }
  steps.push_back(step(Call::quiet));
  const auto outcomes = machine.run({{0, steps}});
  EXPECT_EQ(outcomes[0].back().yes, 1u);
  EXPECT_TRUE(machine.read(here, size) == mine);
  EXPECT_TRUE(machine.read(there, size) == other);
  EXPECT_EQ(machine.counters(0).messages,
            std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.call != Call::quiet; }));
}

// Every field of the events, at both ends.
template <class Machine>
void events_have_their_fields() {
  Machine machine{RdmaOptions{}};
  std::byte* const here = machine.allocate(0, 16384);
  std::byte* const there = machine.allocate(1, 16384);
  machine.register_memory(0, here, 16384);
  const RdmaKey key = machine.register_memory(1, there, 16384);
  machine.start();
  const auto offset = static_cast<std::uint32_t>(4096 - reinterpret_cast<std::uintptr_t>(there) % 4096);
  const auto outcomes = machine.run(
      {{0,
        {signal_step(1, key, offset, here, 4196, 77, flag::completed | flag::ack), step(Call::wait),
         put_step(1, key, 0, here, 8), get_step(1, key, 0, here, 12, flag::completed), step(Call::wait),
         signal_step(1, key, offset, here, 4096, 78), signal_step(1, key, 0, nullptr, 0, 79),
         step(Call::quiet)}},
       {1, {step(Call::wait), step(Call::wait), step(Call::wait)}}});
  const RdmaEvent& put_done = outcomes[0][1].event;
  EXPECT_EQ(put_done.type, EventType::completed);
  EXPECT_EQ(put_done.reason, Nack::none);
  EXPECT_EQ(put_done.operation, PacketType::put);
  EXPECT_EQ(put_done.bytes, 4196u);
  EXPECT_EQ(put_done.node, 1u);
  EXPECT_EQ(put_done.domain, Machine::Nodes::domain(1));
  EXPECT_EQ(put_done.message, outcomes[0][0].message);
  EXPECT_GT(put_done.time_ns, 0u);
  const RdmaEvent& get_done = outcomes[0][4].event;  // the put before it has no event
  EXPECT_EQ(get_done.type, EventType::completed);
  EXPECT_EQ(get_done.operation, PacketType::get);
  EXPECT_EQ(get_done.bytes, 12u);
  EXPECT_EQ(get_done.message, outcomes[0][3].message);
  EXPECT_EQ(outcomes[0].back().yes, 1u);
  const std::uint32_t immediates[] = {77, 78, 79}, last_packets[] = {100, 4096, 0};
  for (unsigned i = 0; i < 3; ++i) {
    const RdmaEvent& arrived = outcomes[1][i].event;
    EXPECT_EQ(arrived.type, EventType::put_arrived) << i;
    EXPECT_EQ(arrived.immediate, immediates[i]);
    EXPECT_EQ(arrived.bytes, last_packets[i]);
    EXPECT_EQ(arrived.node, 0u);
    EXPECT_EQ(arrived.domain, Machine::Nodes::domain(1));
  }
  EXPECT_EQ(outcomes[1][0].event.message, outcomes[0][0].message);
}

// Each fault ends with its reason, moves no byte, and leaves the other operations alone.
template <class Machine>
void faults_have_names() {
  Machine machine{RdmaOptions{}};
  constexpr std::size_t size = 8192;
  std::byte* const here = machine.allocate(0, 3 * size);
  std::byte* const there = machine.allocate(1, 6 * size);  // with gaps between the buffers
  machine.register_memory(0, here, size);
  const RdmaKey key = machine.register_memory(1, there + size, size);
  const RdmaKey readable = machine.register_memory(1, there + 3 * size, size, torus::right::remote_read);
  const RdmaKey writable = machine.register_memory(1, there + 5 * size, size, torus::right::remote_write);
  const RdmaKey gone = machine.register_memory(1, there, 64);
  Bytes source(3 * size, std::byte{0xA5}), target(6 * size, std::byte{0x3C});
  machine.write(here, source);
  machine.write(there, target);
  machine.start();
  machine.unregister_memory(1, gone);
  const auto raw = [&](auto change) {
    torus::PutDescriptor d;
    d.local_address = reinterpret_cast<std::uintptr_t>(here);
    d.remote_address = key & 0xFFFF'FFFF'FFFF;
    d.remote_domain = static_cast<std::uint16_t>(key >> 48);
    d.local_domain = Machine::Nodes::domain(0);
    d.node = 1;
    d.bytes = 64;
    d.type = 1;
    change(d);
    return post_step(d, here);
  };
  using D = torus::PutDescriptor;
  const std::vector<std::pair<Step, Nack>> faults = {
      {put_step(1, gone, 0, here, 8), Nack::out_of_range},
      {put_step(1, key, size - 7, here, 8), Nack::out_of_range},
      {put_step(1, key, size + 1, here, 0), Nack::out_of_range},
      {put_step(1, key, ~std::uint64_t{0}, here, 8), Nack::out_of_range},  // one byte before it
      {get_step(1, key, 1, here, size), Nack::out_of_range},
      {put_step(1, key, 0, here, 0xFFFF'FFFF), Nack::out_of_range},
      {put_step(1, key, std::uint64_t{1} << 48, here, 8), Nack::out_of_range},
      {put_step(1, key, 0, here + size - 4, 8), Nack::out_of_range},  // local
      {get_step(1, key, 0, here + 2 * size, 8), Nack::out_of_range},  // local
      {put_step(1, readable, 0, here, 8), Nack::no_right},
      {put_step(1, readable, 0, here, 0), Nack::no_right},
      {get_step(1, writable, 0, here, 8), Nack::no_right},
      {put_step(1, key ^ std::uint64_t{0x4000} << 48, 0, here, 8), Nack::bad_domain},
      {put_step(2, key, 0, here, 8), Nack::out_of_lattice},
      {put_step(1 << 6, key, 0, here, 8), Nack::out_of_lattice},
      {get_step(1, key, 0, here, 8, flag::inline_payload), Nack::bad_length},
      {raw([](D& d) { d.type = 0; }), Nack::bad_type},
      {raw([](D& d) { d.type = 4; }), Nack::bad_type},
      {raw([](D& d) { d.type = 255; }), Nack::bad_type},
      {raw([](D& d) { d.type = 5; }), Nack::bad_port},
      {raw([](D& d) { d.port = 16; }), Nack::bad_port},
      {raw([](D& d) { d.local_domain = 999; }), Nack::bad_domain},
      {raw([](D& d) { d.local_address = std::uint64_t{1} << 60; }), Nack::out_of_range},
  };
  std::vector<Step> steps;
  for (const auto& [fault, reason] : faults) {
    steps.push_back(fault);
    steps.push_back(step(Call::wait));
  }
  steps.push_back(step(Call::quiet));
  // Not posted.
  steps.push_back(put_step(1, key, 0, here, torus::max_inline_bytes + 1, flag::inline_payload));
  steps.push_back(step(Call::quiet));
  steps.push_back(signal_step(1, writable, 0, here, 8, last_mark));
  steps.push_back(step(Call::quiet));
  const auto outcomes = machine.run({{0, steps}, {1, {until_step(last_mark)}}});
  std::map<Nack, std::uint64_t> wanted;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const RdmaEvent& e = outcomes[0][2 * i + 1].event;
    EXPECT_EQ(e.type, EventType::failed) << i;
    EXPECT_EQ(e.reason, faults[i].second) << i << ": " << torus::name(e.reason);
    EXPECT_EQ(e.message, outcomes[0][2 * i].message) << i;
    ++wanted[faults[i].second];
  }
  const std::size_t end = 2 * faults.size();
  EXPECT_EQ(outcomes[0][end].yes, 0u);      // operations were refused,
  EXPECT_EQ(outcomes[0][end + 2].yes, 0u);  // one was not posted,
  EXPECT_EQ(outcomes[0][end + 4].yes, 1u);  // none since
  EXPECT_EQ(outcomes[1].size(), 1u);        // no event of a refused operation
  std::memset(target.data() + 5 * size, 0xA5, 8);
  EXPECT_TRUE(machine.read(here, source.size()) == source);
  EXPECT_TRUE(machine.read(there, target.size()) == target);
  const RdmaCounters counters = machine.counters(0);
  for (unsigned r = 0; r < torus::nack_reasons; ++r)
    EXPECT_EQ(counters.refused[r], wanted[static_cast<Nack>(r)]) << torus::name(static_cast<Nack>(r));
  EXPECT_EQ(counters.messages, 1u);
}

// Rings and queues of eight entries turn many times; payload in the ring that looks like laps is no
// descriptor.
template <class Machine>
void rings_wrap_around(unsigned rounds) {
  RdmaOptions options;
  options.entries = options.events = 8;
  Machine machine(options);
  std::byte* const here = machine.allocate(0, 256);
  std::byte* const there = machine.allocate(1, 256);
  const RdmaKey mine = machine.register_memory(0, here, 256), key = machine.register_memory(1, there, 256);
  std::vector<std::uint32_t> laps(64);
  for (unsigned i = 0; i < 64; ++i) laps[i] = 1 + i % 2 + rounds / 16 * (i / 16);
  machine.write(here, Bytes(reinterpret_cast<const std::byte*>(laps.data()),
                            reinterpret_cast<const std::byte*>(laps.data() + 64)));
  machine.start();
  std::vector<Step> a, b;
  for (unsigned i = 0; i < rounds; ++i) {
    const auto in_ring = i % 5 == 0 ? std::uint8_t{0} : flag::inline_payload;
    a.push_back(signal_step(1, key, 0, here, 4 * (1 + i % 48), i, in_ring));
    a.push_back(step(Call::wait));
    b.push_back(step(Call::wait));
    b.push_back(signal_step(0, mine, 252, nullptr, 0, i, in_ring));
  }
  const auto outcomes = machine.run({{0, a}, {1, b}});
  for (unsigned i = 0; i < rounds; ++i) {
    ASSERT_EQ(outcomes[0][2 * i + 1].event.immediate, i);
    ASSERT_EQ(outcomes[1][2 * i].event.immediate, i);
  }
  EXPECT_EQ(machine.counters(0).messages, rounds);
}

// A node that reads no events delays the others once, and loses only its own.
template <class Machine>
void a_node_that_does_not_read_stops_only_its_own_events() {
  RdmaOptions options;
  options.gpus = {0, 0, 0};
  options.events = 16;
  options.buffers = 32;
  options.patience = 3'000'000;
  Machine machine(options);
  std::byte* const here = machine.allocate(0, 64);
  std::byte* const one = machine.allocate(1, 64);
  std::byte* const two = machine.allocate(2, 64);
  machine.register_memory(0, here, 64);
  const RdmaKey at_one = machine.register_memory(1, one, 64), at_two = machine.register_memory(2, two, 64);
  machine.start();
  std::vector<Step> steps;
  for (unsigned i = 0; i < 19; ++i) steps.push_back(signal_step(1, at_one, 0, here, 8, i));
  for (unsigned i = 0; i < 3; ++i) steps.push_back(step(Call::wait));
  for (unsigned i = 0; i < 19; ++i) steps.push_back(signal_step(2, at_two, 0, here, 8, i));
  steps.push_back(signal_step(2, at_two, 0, here, 8, last_mark));
  steps.push_back(step(Call::quiet));
  const auto outcomes = machine.run({{0, steps}, {2, {until_step(last_mark)}}});
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(outcomes[0][19 + i].event.type, EventType::failed);
    EXPECT_EQ(outcomes[0][19 + i].event.reason, Nack::timed_out);
  }
  ASSERT_EQ(outcomes[1].size(), 20u);
  for (unsigned i = 0; i < 19; ++i) EXPECT_EQ(outcomes[1][i].event.immediate, i);
  // The node reads: new events reach it.
  const auto after = machine.run({{1, std::vector<Step>(16, step(Call::wait))}});
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(after[0][i].event.immediate, i);
  const auto again = machine.run(
      {{0, {signal_step(1, at_one, 0, here, 8, 50), step(Call::quiet)}}, {1, {step(Call::wait)}}});
  EXPECT_EQ(again[0][1].yes, 1u);
  EXPECT_EQ(again[1][0].event.immediate, 50u);
}

// Blocks share the ring and the queues of their node: every operation is executed once, every event is taken
// once.
template <class Machine>
void blocks_share_a_node(unsigned senders, unsigned receivers, unsigned each) {
  RdmaOptions options;
  options.shared = true;
  options.entries = 64;
  options.events = 64;
  options.patience = 20'000'000'000;
  Machine machine(options);
  const std::size_t size = 64 * senders * each;
  std::byte* const here = machine.allocate(0, size);
  std::byte* const there = machine.allocate(1, size);
  machine.register_memory(0, here, size);
  const RdmaKey key = machine.register_memory(1, there, size);
  std::mt19937 random(9);
  const Bytes data = random_bytes(random, size);
  machine.write(here, data);
  machine.start();
  std::vector<Block> blocks;
  for (unsigned s = 0; s < senders; ++s) {
    Block& block = blocks.emplace_back();
    for (unsigned i = 0; i < each; ++i) {
      const std::uint32_t number = s * each + i;
      const auto in_ring = random() % 2 == 0 ? flag::inline_payload : std::uint8_t{0};
      block.steps.push_back(signal_step(1, key, 64 * number, here + 64 * number, 64, number, in_ring));
    }
    block.steps.push_back(step(Call::quiet));
  }
  for (unsigned r = 0; r < receivers; ++r) blocks.push_back({1, {until_step(last_mark)}});
  // The marks follow all other events: posted by a block that all senders precede in the ring.
  const auto outcomes = machine.run(blocks, [&] {
    std::vector<Step> marks;
    for (unsigned r = 0; r < receivers; ++r) marks.push_back(signal_step(1, key, 0, here, 0, last_mark));
    return Block{0, marks};
  });
  std::multiset<std::uint32_t> seen;
  for (unsigned s = 0; s < senders; ++s) EXPECT_EQ(outcomes[s].back().yes, 1u) << s;
  for (unsigned r = 0; r < receivers; ++r)
    for (const Outcome& o : outcomes[senders + r])
      if (o.event.immediate != last_mark) seen.insert(o.event.immediate);
  ASSERT_EQ(seen.size(), senders * each);
  for (std::uint32_t n = 0; n < senders * each; ++n) ASSERT_EQ(seen.count(n), 1u) << n;
  EXPECT_TRUE(machine.read(there, size) == data);
}

// The end of the cards ends the waiting blocks, after the events before it.
template <class Machine>
void stopping_ends_waiting_blocks() {
  Machine machine{RdmaOptions{}};
  std::byte* const there = machine.allocate(1, 64);
  const RdmaKey key = machine.register_memory(1, there, 64);
  machine.start();
  const auto outcomes = machine.run_and_stop(
      {{0, {signal_step(1, key, 0, nullptr, 0, 5), step(Call::quiet)}}, {1, {until_step(last_mark)}}});
  EXPECT_EQ(outcomes[0][1].yes, 1u);
  ASSERT_EQ(outcomes[1].size(), 2u);
  EXPECT_EQ(outcomes[1][0].yes, 1u);
  EXPECT_EQ(outcomes[1][0].event.immediate, 5u);
  EXPECT_EQ(outcomes[1][1].yes, 0u);
}

// Reason of a descriptor by the rules of docs/formats.md, without a warp. Buffers: as registered, all of node
// 1 and of node 0.
struct Registered {
  unsigned node = 0;
  RdmaKey key = 0;
  std::size_t bytes = 0;
  std::uint8_t rights = 0;
};
inline Nack expected_reason(const torus::PutDescriptor& d, unsigned nodes,
                            const std::vector<Registered>& all) {
  const bool in_ring = (d.flags & flag::inline_payload) != 0;
  const auto look_up = [&](unsigned node, std::uint16_t domain, std::uint64_t at, std::uint64_t bytes,
                           unsigned needed) {
    bool domain_exists = false;
    for (const Registered& r : all) {
      if (r.node != node || r.key >> 48 != domain) continue;
      domain_exists = true;
      const std::uint64_t first = r.key & 0xFFFF'FFFF'FFFF;
      if (at >= first && at + bytes <= first + r.bytes)
        return needed == 0 || (r.rights & needed) != 0 ? Nack::none : Nack::no_right;
    }
    return domain_exists ? Nack::out_of_range : Nack::bad_domain;
  };
  if (d.type != 1 && d.type != 3 && d.type != 5) return Nack::bad_type;
  if (in_ring && (d.bytes > 192 || d.type == 3)) return Nack::bad_length;
  if (d.type == 5) {
    if (d.bytes > 4096) return Nack::bad_length;
    return d.node >= nodes ? Nack::out_of_lattice : Nack::bad_port;
  }
  if (d.node >= nodes) return Nack::out_of_lattice;
  if (d.port > 15) return Nack::bad_port;
  if (d.remote_address + d.bytes > std::uint64_t{1} << 48 || d.remote_address >> 48)
    return Nack::out_of_range;
  if (!in_ring && d.local_address >> 48) return Nack::out_of_range;
  if (d.bytes != 0 && !in_ring)
    if (const Nack local = look_up(0, d.local_domain, d.local_address, d.bytes, 0); local != Nack::none)
      return local;
  return look_up(d.node, d.remote_domain, d.remote_address, d.bytes, d.type == 1 ? 1u : 2u);
}

// Descriptors with random fields: each ends with the expected reason or with its data, none hurts another.
template <class Machine>
void random_descriptors_end_with_the_expected_reason(unsigned count) {
  RdmaOptions options;
  options.entries = 64;
  Machine machine(options);
  constexpr std::size_t size = 20'000;
  std::byte* const here = machine.allocate(0, size);
  std::byte* const there = machine.allocate(1, size);
  std::vector<Registered> all;
  const auto add = [&](unsigned node, std::byte* at, std::size_t bytes, std::uint8_t rights) {
    all.push_back({node, machine.register_memory(node, at, bytes, rights), bytes, rights});
  };
  add(0, here + 1000, 9000, read_and_write);
  add(0, here + 12'000, 4000, torus::right::remote_read);
  add(1, there + 500, 6000, read_and_write);
  add(1, there + 7000, 5000, torus::right::remote_write);
  add(1, there + 13'000, 3000, 0);
  std::mt19937 random(11);
  Bytes mine = random_bytes(random, size), other = random_bytes(random, size);
  machine.write(here, mine);
  machine.write(there, other);
  machine.start();
  const auto pick = [&](auto... values) {
    const std::uint64_t list[] = {static_cast<std::uint64_t>(values)...};
    return list[random() % (sizeof list / sizeof *list)];
  };
  std::vector<Step> steps;
  std::vector<Nack> reasons;
  const auto base = [](std::byte* at) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at));
  };
  for (unsigned i = 0; i < count; ++i) {
    torus::PutDescriptor d;
    d.node = static_cast<std::uint16_t>(pick(1, 1, 1, 1, 1, 0, 2, random()));
    std::byte* const remote = d.node == 0 ? here : there;
    d.remote_address =
        random() % 16 == 0 ? random() * (std::uint64_t{1} << 33) + random() : base(remote) + random() % size;
    d.local_address =
        random() % 16 == 0 ? random() * (std::uint64_t{1} << 33) + random() : base(here) + random() % size;
    d.bytes = static_cast<std::uint32_t>(
        pick(0, 8, random() % 64, random() % 193, random() % 300, random() % 6000, random()));
    d.remote_domain = static_cast<std::uint16_t>(pick(
        Machine::Nodes::domain(d.node), Machine::Nodes::domain(d.node), Machine::Nodes::domain(1), random()));
    d.local_domain = static_cast<std::uint16_t>(
        pick(Machine::Nodes::domain(0), Machine::Nodes::domain(0), Machine::Nodes::domain(0), random()));
    d.type = static_cast<std::uint8_t>(pick(1, 1, 1, 3, 3, 5, random()));
    d.port = static_cast<std::uint8_t>(pick(0, 0, 0, 15, random()));
    d.flags = static_cast<std::uint8_t>(random() & ~unsigned{flag::notify} & 0xFF) | flag::completed;
    if ((d.flags & flag::inline_payload) != 0 && d.bytes > torus::max_inline_bytes)  // not posted
      d.bytes %= torus::max_inline_bytes + 1;
    const Nack reason = expected_reason(d, 2, all);
    auto* const payload = d.flags & flag::inline_payload ? here + random() % (size - 256) : nullptr;
    if (reason == Nack::none && payload == nullptr) {
      // Overlapping copies within a node have no defined result.
      if (d.node == 0) d.bytes = 0;
    }
    const Nack final_reason = expected_reason(d, 2, all);
    steps.push_back(post_step(d, payload));
    steps.push_back(step(Call::wait));
    reasons.push_back(final_reason);
    if (final_reason != Nack::none || d.bytes == 0) continue;
    Bytes& target = d.node == 0 ? mine : other;
    const std::size_t at = d.remote_address - base(remote);
    const std::size_t local =
        payload != nullptr ? static_cast<std::size_t>(payload - here) : d.local_address - base(here);
    if (d.type == 1)
      std::memmove(target.data() + at, mine.data() + local, d.bytes);
    else
      std::memmove(mine.data() + local, target.data() + at, d.bytes);
  }
  const auto outcomes = machine.run({{0, steps}});
  std::map<Nack, unsigned> counts;
  for (unsigned i = 0; i < count; ++i) {
    const RdmaEvent& e = outcomes[0][2 * i + 1].event;
    ++counts[reasons[i]];
    ASSERT_EQ(e.reason, reasons[i]) << i << ": " << torus::name(e.reason) << ", not "
                                    << torus::name(reasons[i]);
    ASSERT_EQ(e.type, reasons[i] == Nack::none ? EventType::completed : EventType::failed) << i;
    ASSERT_EQ(e.message, outcomes[0][2 * i].message) << i;
  }
  for (const Nack each : {Nack::none, Nack::bad_type, Nack::bad_length, Nack::bad_domain, Nack::out_of_range,
                          Nack::no_right, Nack::out_of_lattice, Nack::bad_port})
    EXPECT_GT(counts[each], count / 200) << torus::name(each);
  EXPECT_TRUE(machine.read(here, size) == mine);
  EXPECT_TRUE(machine.read(there, size) == other);
}

}  // namespace nanet::gpu::cases
