// SPDX-License-Identifier: Apache-2.0
// Torus cards in slots, over two fake cards that execute their put rings: packets, transfers, misses, errors.
#include "nanet/fabric/card/pcie.hpp"

#include <gtest/gtest.h>
#include <nanet_torus_regs.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "nanet/fabric/card/node.hpp"

namespace nanet::fabric::testing {
namespace {

using torus::PacketType;

#define NANET_AT(field) static_cast<std::uint32_t>(offsetof(nanet_torus_regs_t, field))

// Card that holds registers, keys and translations as the gateware does.
struct FakeCard {
  std::map<std::uint32_t, std::uint32_t> registers{{NANET_AT(id), NANET_TORUS_REGS__ID__VALUE_reset},
                                                   {NANET_AT(built), 1}};
  std::map<std::uint64_t, std::pair<std::byte*, std::size_t>> memory;  // by bus address
  std::map<std::uint64_t, std::uint64_t> pages;                        // domain and address: bus address
  std::vector<torus::RegisteredBuffer> keys;
  std::uint32_t status = 0, next = 0, slots = 0, events = 0;
  std::uint64_t free_bus = 1 << 20;
  bool gone = false;
  unsigned misses = 0;

  std::uint64_t pair(std::uint32_t at) { return registers[at] | std::uint64_t{registers[at + 4]} << 32; }

  void write(std::uint32_t at, std::uint32_t value) {
    registers[at] = value;
    if (at == NANET_AT(control)) {
      if ((value & NANET_TORUS_REGS__CONTROL__FLUSH_KEYS_bm) != 0) keys.clear();
      if ((value & NANET_TORUS_REGS__CONTROL__FLUSH_PAGES_bm) != 0) pages.clear();
      if ((value & NANET_TORUS_REGS__CONTROL__ENABLE_bm) == 0) next = slots = events = 0;
    } else if (at == NANET_AT(key.fill)) {
      torus::RegisteredBuffer b;
      b.address = pair(NANET_AT(key.first));
      b.bytes = pair(NANET_AT(key.limit)) - b.address;
      b.domain = static_cast<std::uint16_t>(registers[NANET_AT(key.high)] >> 16);
      b.rights = value >> TORUS_KEY_T__FILL__RIGHTS_bp & 3;
      if ((value & TORUS_KEY_T__FILL__FOUND_bm) != 0) keys.push_back(b);
      if ((value & TORUS_KEY_T__FILL__ANSWER_bm) != 0) status &= ~NANET_TORUS_REGS__STATUS__KEY_MISS_bm;
    } else if (at == NANET_AT(page.fill)) {
      if ((value & TORUS_PAGE_T__FILL__OK_bm) != 0)
        pages[pair(NANET_AT(page.address)) >> 12] = pair(NANET_AT(page.bus));
      if ((value & TORUS_PAGE_T__FILL__ANSWER_bm) != 0) status &= ~NANET_TORUS_REGS__STATUS__PAGE_MISS_bm;
    }
  }
  std::uint32_t read(std::uint32_t at) {
    if (gone) throw std::runtime_error("the card does not respond");
    if (at != NANET_AT(status)) return registers[at];
    return status | (registers[NANET_AT(links)] & NANET_TORUS_REGS__LINKS__CONNECTED_bm) |
           NANET_TORUS_REGS__STATUS__KEY_FILLED_bm | NANET_TORUS_REGS__STATUS__PAGE_FILLED_bm |
           (next == registers[NANET_AT(put.posted)] ? NANET_TORUS_REGS__STATUS__IDLE_bm : 0);
  }

  std::byte* bus(std::uint64_t address) {
    const auto found = std::prev(memory.upper_bound(address));
    EXPECT_LT(address - found->first, found->second.second);
    return found->second.first + (address - found->first);
  }
  // Process memory of the domain; nullptr: a miss.
  std::byte* translate(std::uint16_t domain, std::uint64_t address) {
    const std::uint64_t virtual_address = std::uint64_t{domain} << 48 | address;
    const auto found = pages.find(virtual_address >> 12);
    if (found != pages.end()) return bus(found->second + address % 4096);
    registers[NANET_AT(page_miss.low)] = static_cast<std::uint32_t>(virtual_address);
    registers[NANET_AT(page_miss.high)] = static_cast<std::uint32_t>(virtual_address >> 32);
    status |= NANET_TORUS_REGS__STATUS__PAGE_MISS_bm;
    ++misses;
    return nullptr;
  }
  bool key(std::uint16_t domain, std::uint64_t address, std::uint32_t bytes, std::uint8_t right) {
    for (const auto& k : keys)
      if (k.domain == domain && k.holds(address, bytes) && (k.rights & right) == right) return true;
    registers[NANET_AT(key_miss.low)] = static_cast<std::uint32_t>(address);
    registers[NANET_AT(key_miss.high)] = static_cast<std::uint32_t>(address >> 32) | std::uint32_t{domain}
                                                                                         << 16;
    registers[NANET_AT(key_miss.bytes)] = bytes;
    status |= NANET_TORUS_REGS__STATUS__KEY_MISS_bm;
    ++misses;
    return false;
  }
  void event(torus::EventType type, std::uint32_t what, std::uint32_t bytes, std::uint16_t node,
             std::uint16_t domain, std::uint32_t message, torus::Nack reason = torus::Nack::none) {
    const std::uint32_t entries = 1u << registers[NANET_AT(event_queue.log2)];
    auto& e = reinterpret_cast<contract::Event*>(bus(pair(NANET_AT(event_queue.base))))[events % entries];
    e.type = static_cast<std::uint8_t>(type);
    e.flags = static_cast<std::uint16_t>(reason);
    e.buffer = what;
    e.bytes = bytes;
    e.frame = node | std::uint32_t{domain} << 16;
    e.n = message;
    e.lap = events++ / entries + 1;
  }

  // Executes the next descriptor. False: there is none, or a miss is open.
  bool step(FakeCard& peer) {
    if (next == registers[NANET_AT(put.posted)] || (status | peer.status) != 0) return false;
    const std::uint32_t entries = 1u << registers[NANET_AT(put.log2)];
    auto* const ring = reinterpret_cast<torus::PutDescriptor*>(bus(pair(NANET_AT(put.base))));
    const torus::PutDescriptor d = ring[next % entries];
    EXPECT_EQ(d.lap, next / entries + 1);
    const auto type = static_cast<PacketType>(d.type);
    std::vector<std::byte> data(d.bytes);
    if ((d.flags & torus::put_flag::inline_payload) != 0) {
      for (std::uint32_t k = 0; k < d.bytes; ++k)
        data[k] = reinterpret_cast<const std::byte*>(&ring[(next + 1 + k / 64) % entries])[k % 64];
    } else if (type != PacketType::get && !copy(*this, d.local_domain, d.local_address, data, false)) {
      return false;
    }
    if (type == PacketType::send) {
      const std::uint32_t low = peer.registers[NANET_AT(slots[0].low)],
                          shape = peer.registers[NANET_AT(slots[0].shape)];
      EXPECT_NE(peer.slots, peer.registers[NANET_AT(slots[0].posted)]);
      EXPECT_EQ(peer.registers[NANET_AT(slots[0].domain)], d.remote_domain);
      const std::uint32_t slot = peer.slots & ((1u << (shape >> 24 & 15)) - 1);
      const std::uint64_t at = (low | std::uint64_t{shape & 0xFFFF} << 32) + 4096ull * slot;
      if (!copy(peer, d.remote_domain, at, data, true)) return false;
      ++peer.slots;
      peer.event(torus::EventType::send_arrived, slot, d.bytes, 0, d.remote_domain, d.message);
    } else if (type == PacketType::put) {
      if (!peer.key(d.remote_domain, d.remote_address, d.bytes, torus::right::remote_write) ||
          !copy(peer, d.remote_domain, d.remote_address, data, true))
        return false;
    } else {
      if (!peer.key(d.remote_domain, d.remote_address, d.bytes, torus::right::remote_read) ||
          !copy(peer, d.remote_domain, d.remote_address, data, false) ||
          !copy(*this, d.local_domain, d.local_address, data, true))
        return false;
    }
    if ((d.flags & torus::put_flag::completed) != 0)
      event(torus::EventType::completed, d.type, d.bytes, d.node, d.remote_domain, d.message);
    next += torus::put_entries(d);
    return true;
  }

  static bool copy(FakeCard& card, std::uint16_t domain, std::uint64_t address, std::vector<std::byte>& data,
                   bool write) {
    for (std::size_t done = 0; done < data.size();) {
      const std::size_t size = std::min<std::size_t>(data.size() - done, 4096 - (address + done) % 4096);
      std::byte* const at = card.translate(domain, address + done);
      if (at == nullptr) return false;
      if (write)
        std::memcpy(at, data.data() + done, size);
      else
        std::memcpy(data.data() + done, at, size);
      done += size;
    }
    return true;
  }
};

class FakeBus final : public gateware::Bus {
 public:
  explicit FakeBus(FakeCard& card) : card_(card) {}
  std::uint32_t read(std::uint32_t address) override { return card_.read(address); }
  void write(std::uint32_t address, std::uint32_t value) override { card_.write(address, value); }
  std::uint64_t map(std::byte* at, std::size_t bytes) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 4096, 0u);
    const std::uint64_t bus = card_.free_bus;
    card_.free_bus += (bytes + (1 << 21)) >> 21 << 21;
    card_.memory[bus] = {at, bytes};
    return bus;
  }
  std::vector<std::uint64_t> map_pages(std::byte*, std::size_t, std::size_t) override { return {}; }
  void unmap(std::byte* at) noexcept override {
    EXPECT_EQ(std::erase_if(card_.memory, [&](const auto& m) { return m.second.first == at; }), 1u);
  }

 private:
  FakeCard& card_;
};

struct Inbox final : Receiver {
  void receive(unsigned, Address, const Packet& packet, const std::byte* payload) override {
    tags.push_back(packet.tag);
    bytes.assign(payload, payload + packet.bytes);
  }
  void transferred(std::uint64_t token, Direct result) override { ended.emplace_back(token, result); }
  void lost(int e) override { error = e; }

  std::vector<std::uint64_t> tags;
  std::vector<std::byte> bytes;  // of the last packet
  std::vector<std::pair<std::uint64_t, Direct>> ended;
  int error = 0;
};

class PcieTest : public ::testing::Test {
 protected:
  PcieTest() {
    for (unsigned k = 0; k < 2; ++k) {
      torus::Lattice lattice;
      lattice.size = {2, 1, 1};
      auto host = std::make_unique<card::PcieHost>(std::make_unique<FakeBus>(cards_[k]), lattice,
                                                   torus::Coordinates{static_cast<std::uint8_t>(k), 0, 0});
      node_[k] = std::make_unique<card::CardNode>(std::move(host), "/dev/shm", true);
      port_[k] = node_[k]->open(nullptr);
    }
    int error = 0;
    to_b_ = port_[0]->open(port_[1]->address(), error);
    EXPECT_NE(to_b_, nullptr) << error;
  }
  void turn() {
    for (unsigned k = 0; k < 2; ++k) {
      while (cards_[k].step(cards_[1 - k])) {
      }
      port_[k]->poll(inbox_[k]);
    }
  }
  template <class Condition>
  bool until(const Condition& condition) {
    for (unsigned k = 0; k < 10'000; ++k) {
      if (condition()) return true;
      turn();
    }
    return false;
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

  FakeCard cards_[2];
  std::unique_ptr<Node> node_[2];
  std::unique_ptr<Port> port_[2];
  std::unique_ptr<Channel> to_b_;
  Inbox inbox_[2];
};

TEST_F(PcieTest, PacketsArriveInOrderAndSlotsReturn) {
  const std::size_t sizes[] = {0, 112, 113, 4016, 4017, 8192};
  for (std::uint64_t tag = 0; tag < 200; ++tag) {
    const std::size_t bytes = sizes[tag % 6];
    ASSERT_TRUE(until([&] { return send(bytes, tag); })) << tag;
    ASSERT_TRUE(until([&] { return inbox_[1].tags.size() == tag + 1; })) << tag;
    ASSERT_EQ(inbox_[1].tags.back(), tag);
    ASSERT_EQ(inbox_[1].bytes.size(), bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(inbox_[1].bytes[i], static_cast<std::byte>(i * 3 + tag)) << bytes;
  }
  EXPECT_GT(cards_[0].misses, 0u);
  EXPECT_GT(cards_[1].misses, 0u);
}

TEST_F(PcieTest, RegisteredMemoryIsReadAndReleased) {
  const std::size_t before = cards_[1].memory.size();
  std::vector<std::byte> from(100'000), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 5 >> 4);
  const iovec part{from.data(), from.size()}, local{to.data(), to.size()};
  Span span;
  ASSERT_TRUE(port_[1]->expose(&part, 1, &span));
  EXPECT_EQ(cards_[1].memory.size(), before + 1);
  EXPECT_FALSE(cards_[1].keys.empty());
  ASSERT_EQ(to_b_->copy_from(&local, 1, &span, 1, 5), Direct::pending);
  ASSERT_TRUE(until([&] { return !inbox_[0].ended.empty(); }));
  EXPECT_EQ(inbox_[0].ended.front(), (std::pair<std::uint64_t, Direct>{5, Direct::done}));
  EXPECT_EQ(to, from);
  port_[1]->conceal(&span, 1);
  EXPECT_EQ(cards_[1].memory.size(), before);
  EXPECT_TRUE(cards_[1].keys.empty());
  EXPECT_TRUE(cards_[1].pages.empty());
}

TEST_F(PcieTest, AnAbsentCardIsReported) {
  EXPECT_TRUE(to_b_->alive());
  cards_[0].gone = true;
  EXPECT_FALSE(to_b_->alive());
  for (unsigned k = 0; k < 4096 && inbox_[0].error == 0; ++k) port_[0]->poll(inbox_[0]);
  EXPECT_EQ(inbox_[0].error, ENETDOWN);
  int error = 0;
  EXPECT_EQ(port_[0]->open(port_[1]->address(), error), nullptr);
  EXPECT_EQ(error, ENETDOWN);
}

TEST_F(PcieTest, AStoppedPutRingIsReported) {
  const auto unreadable = [&](PacketType type) {
    cards_[0].event(torus::EventType::failed, static_cast<std::uint32_t>(type), 0, 0, 0, 0,
                    torus::Nack::unreadable);
    turn();
  };
  unreadable(PacketType::get_data);  // of the GET ring: the requester's time-out ends the GET
  EXPECT_TRUE(to_b_->alive());
  EXPECT_EQ(inbox_[0].error, 0);
  unreadable(PacketType::raw);
  EXPECT_FALSE(to_b_->alive());
  EXPECT_EQ(inbox_[0].error, ENETDOWN);
  int error = 0;
  EXPECT_EQ(port_[0]->open(port_[1]->address(), error), nullptr);
  EXPECT_EQ(error, ENETDOWN);
}

TEST_F(PcieTest, ACardHasOnePort) {
  const auto error_of = [&](const Address* wanted) {
    try {
      node_[0]->open(wanted);
    } catch (const std::system_error& error) {
      return error.code().value();
    }
    return 0;
  };
  EXPECT_EQ(error_of(nullptr), EMFILE);
  const Address other = port_[1]->address(), own = port_[0]->address();
  EXPECT_EQ(error_of(&other), EADDRNOTAVAIL);
  to_b_.reset();
  port_[0].reset();
  EXPECT_TRUE(cards_[0].memory.empty());
  EXPECT_EQ(cards_[0].registers[NANET_AT(control)] & NANET_TORUS_REGS__CONTROL__ENABLE_bm, 0u);
  EXPECT_EQ(error_of(&own), 0);
}

TEST(Pcie, WrongSettingsAreNamed) {
  const auto said = [](const char* cards, const char* size) {
    try {
      card::open_pcie(cards, size);
    } catch (const std::system_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(said("0000:03:00.0@0,0,0", nullptr).find("FI_NANET_SIZE"), std::string::npos);
  EXPECT_NE(said("0000:03:00.0@0,0,0", "4x4").find("FI_NANET_SIZE"), std::string::npos);
  EXPECT_NE(said("0000:03:00.0@0,0,0", "64x32x32").find("1024"), std::string::npos);
  EXPECT_NE(said("0000:03:00.0", "4x4x4").find("0000:03:00.0: name"), std::string::npos);
  EXPECT_NE(said("0000:03:00.0@4,0,0", "4x4x4").find("name PCI address"), std::string::npos);
  EXPECT_NE(said("ffff:1f:00.0@0,0,0", "4x4x4").find("no card is free"), std::string::npos);
}

}  // namespace
}  // namespace nanet::fabric::testing
