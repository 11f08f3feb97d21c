// SPDX-License-Identifier: Apache-2.0
// Node over a torus of cards: put ring, event queue, receive slots and registered buffers of a port. Flow
// control end to end: a sender fills only slots that the receiver has granted, and the receiver returns them
// by PUTs into the sender's table of credits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/bell.hpp"
#include "nanet/fabric/capabilities.hpp"
#include "nanet/fabric/card/host.hpp"

namespace nanet::fabric::card {

class CardNode;

class CardPort final : public Port {
 public:
  CardPort(CardNode& node, const Address* wanted);
  ~CardPort() override;
  Address address() const noexcept override { return host_.address(index_); }
  unsigned poll(Receiver& receiver) override;
  std::unique_ptr<Channel> open(Address peer, int& error) override;
  void publish(const Registration& registration) noexcept override;
  void withdraw(std::uint64_t key) noexcept override;
  bool expose(const iovec* buffers, std::size_t count, Span* spans) noexcept override;
  void conceal(const Span* spans, std::size_t count) noexcept override;
  void abandon(std::uint64_t token) noexcept override;
  void refuse_direct() noexcept override;
  void listen(bool on) noexcept;

 private:
  friend class CardChannel;

  // Entry of a peer's directory of keys. entry.window 0: its memory is not open.
  struct Key {
    wire::KeyEntry entry;
    std::uint32_t uses = 0;  // left, before it is looked up again
  };
  // Way to a peer; outlives its channel.
  struct Tx {
    std::uint32_t port = 0;
    std::uint16_t domain = 0;
    std::uint32_t sequence = 0;
    std::uint32_t gets = 0;  // under way
    bool failed = false, native = false;
    bool looking = false;  // a look-up of the key `wanted` is under way
    std::uint64_t wanted = 0;
    std::unordered_map<std::uint64_t, Key> keys;
  };
  // Way from a peer.
  struct Rx {
    std::uint16_t domain = 0;
    Address from;
    std::uint32_t moved = 0, returned = 0;  // slots
    bool due = false;                       // slots to return
    bool broken = false;                    // a packet is missing
    std::size_t got = 0;                    // bytes of a fabric packet in several parts
    std::vector<std::byte> partial;
  };

  // PUTs or GETs of one operation.
  struct Transfer {
    std::uint64_t token = 0;
    Tx* tx = nullptr;
    std::uint32_t number = 0, left = 0;
    bool get = false, right = true, lookup = false;
    std::uint32_t entry_count = 0;
    std::array<std::uint32_t, max_iov> entries{};  // of the table, for local buffers
  };
  struct Awaited {
    std::uint32_t message, transfer;
  };

  bool room(std::uint32_t entries) const noexcept {
    return wire::put_entries_count - (posted_ - consumed_) >= entries;
  }
  // Posts a descriptor and its inline payload; there is room.
  void post(torus::PutDescriptor d, const std::byte* inline_payload = nullptr) noexcept;
  torus::PutDescriptor descriptor(const Tx& tx, torus::PacketType type) const noexcept;
  bool enter(const void* at, std::size_t bytes, std::uint8_t rights, std::uint32_t& entry,
             std::uint64_t& window) noexcept;
  void leave(std::uint32_t entry) noexcept;
  void withdraw(wire::KeyEntry& key) noexcept;
  Direct transfer(Tx& tx, bool write, const iovec* local, std::size_t count, const Span* remote,
                  std::size_t remote_count, std::uint64_t token) noexcept;
  void release_entries(Transfer& t) noexcept;
  bool ended(std::uint32_t message, bool right, Receiver* receiver);
  void look_up(Tx& tx, std::uint64_t key) noexcept;
  void looked_up(Tx& tx, bool right);
  void send_arrived(const contract::Event& event, Receiver& receiver);
  void failed(const contract::Event& event, Receiver& receiver);
  void return_slots() noexcept;

  CardNode& node_;
  Host& host_;
  const std::unique_ptr<Attachment> card_;
  const std::uint32_t index_;
  const std::uint16_t domain_;
  const wire::PortMemory memory_;
  const wire::Offsets offsets_;
  std::uint64_t posted_ = 0, consumed_ = 0, signalled_ = 0;  // entries of the put ring
  std::uint64_t next_event_ = 0;
  std::uint32_t slots_posted_;
  std::vector<std::unique_ptr<Tx>> tx_;  // by port
  std::vector<std::unique_ptr<Rx>> rx_;
  std::vector<Rx*> due_;
  const bool native_;
  bool refused_ = false;
  std::uint64_t next_window_ = wire::memory_windows;
  std::uint32_t entries_used_ = wire::file_entries;
  std::vector<std::uint32_t> free_entries_;
  std::vector<Transfer> transfers_;
  std::vector<Awaited> awaited_;  // descriptors of transfers
  std::uint32_t next_transfer_ = 0;
  unsigned idle_ = 0, busy_ = 0;
  bool lost_ = false;
};

class CardChannel final : public Channel {
 public:
  CardChannel(CardPort& port, CardPort::Tx& tx) : port_(port), tx_(tx) {}

  std::byte* reserve(std::size_t payload) noexcept override;
  void commit() noexcept override;
  bool alive() noexcept override;
  bool replaced() const noexcept override;
  Direct copy_from(const iovec* to, std::size_t to_count, const Span* from, std::size_t from_count,
                   std::uint64_t token) noexcept override;
  Direct rma(bool write, const iovec* local, std::size_t count, std::uint64_t key, std::uint64_t offset,
             std::size_t bytes, std::uint64_t token) noexcept override;

 private:
  std::byte* staging(std::uint32_t sequence) const noexcept;

  CardPort& port_;
  CardPort::Tx& tx_;
  std::size_t reserved_ = 0;
  std::array<std::byte, sizeof(Packet) + eager_bytes> scratch_;
};

class CardNode final : public Node {
 public:
  CardNode(std::unique_ptr<Host> host, const char* directory, bool direct);
  std::unique_ptr<Port> open(const Address* wanted) override;
  int bell() const noexcept override { return bell_.fd(); }
  void listen(bool on) noexcept override;
  void drain() noexcept override;
  void rest() noexcept override;
  // Nothing arrives before the process that plays the cards has run.
  unsigned idle_polls() const noexcept override { return host_->rings() ? 1 : Node::idle_polls(); }

 private:
  friend class CardPort;
  const std::unique_ptr<Host> host_;
  OwnBell bell_;
  const bool direct_;
  bool listening_ = false;
  std::vector<CardPort*> ports_;
};

}  // namespace nanet::fabric::card
