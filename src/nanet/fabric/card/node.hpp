// SPDX-License-Identifier: Apache-2.0
// Node over a torus of cards: put ring, event queue, receive slots and registered buffers of a port, played by
// the process of `nanet torus serve`. Flow control end to end: a sender fills only slots that the receiver
// has granted, and the receiver returns them by PUTs into the sender's table of credits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/bell.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"

namespace nanet::fabric::card {

namespace wire = torus::card;

// Control file of the torus, mapped.
class Job {
 public:
  // Throws std::system_error.
  explicit Job(const char* path);

  wire::Control& control() const noexcept { return *reinterpret_cast<wire::Control*>(mapping_.at()); }
  // The process that plays the cards is there.
  bool alive() const noexcept;
  // Wakes that process, if it sleeps.
  void wake() const noexcept;
  void changed() const noexcept;  // a port has changed its state
  // False: no such port.
  bool find(Address address, std::uint32_t& port) const noexcept;
  Address address(std::uint32_t port) const noexcept;

  std::string path;
  torus::Lattice lattice;
  wire::Shape shape;

 private:
  wire::Mapping mapping_;
  wire::Process process_;
};

class CardNode;

class CardPort final : public Port {
 public:
  CardPort(CardNode& node, const Address* wanted);
  ~CardPort() override;
  Address address() const noexcept override { return job_.address(index_); }
  unsigned poll(Receiver& receiver) override;
  std::unique_ptr<Channel> open(Address peer, int& error) override;
  void publish(const Registration&) noexcept override {}
  void withdraw(std::uint64_t) noexcept override {}
  void refuse_direct() noexcept override {}
  void listen(bool on) noexcept;

 private:
  friend class CardChannel;

  // Way to a peer; outlives its channel.
  struct Tx {
    std::uint32_t port = 0;
    std::uint16_t domain = 0;
    std::uint32_t sequence = 0;
    bool failed = false;
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

  std::uint32_t claim(const Address* wanted);
  void create_file();
  bool room(std::uint32_t entries) const noexcept {
    return wire::put_entries_count - (posted_ - consumed_) >= entries;
  }
  // Posts a descriptor and its inline payload; there is room.
  void post(torus::PutDescriptor d, const std::byte* inline_payload = nullptr) noexcept;
  void send_arrived(const contract::Event& event, Receiver& receiver);
  void failed(const contract::Event& event) noexcept;
  void return_slots() noexcept;

  CardNode& node_;
  Job& job_;
  const std::uint32_t index_;
  std::uint16_t domain_ = 0;
  os::Fd file_;
  wire::Mapping mapping_;
  wire::PortMemory memory_;
  wire::Offsets offsets_;
  std::uint64_t posted_ = 0, consumed_ = 0, signalled_ = 0;  // entries of the put ring
  std::uint64_t next_event_ = 0;
  std::uint32_t slots_posted_ = 0;
  std::vector<std::unique_ptr<Tx>> tx_;  // by port
  std::vector<std::unique_ptr<Rx>> rx_;
  std::vector<Rx*> due_;
  unsigned idle_ = 0;
  bool lost_ = false;
};

class CardChannel final : public Channel {
 public:
  CardChannel(CardPort& port, CardPort::Tx& tx) : port_(port), tx_(tx) {}

  std::byte* reserve(std::size_t payload) noexcept override;
  void commit() noexcept override;
  bool alive() noexcept override;
  Direct copy_from(const iovec*, std::size_t, const Span*, std::size_t) noexcept override {
    return Direct::unavailable;
  }
  Direct rma(bool, const iovec*, std::size_t, std::uint64_t, std::uint64_t, std::size_t) noexcept override {
    return Direct::unavailable;
  }

 private:
  std::byte* staging(std::uint32_t sequence) const noexcept;

  CardPort& port_;
  CardPort::Tx& tx_;
  std::size_t reserved_ = 0;
  std::array<std::byte, sizeof(Packet) + eager_bytes> scratch_;
};

class CardNode final : public Node {
 public:
  CardNode(const char* path, const char* directory);
  std::unique_ptr<Port> open(const Address* wanted) override;
  int bell() const noexcept override { return bell_.fd(); }
  void listen(bool on) noexcept override;
  void drain() noexcept override { bell_.drain(); }

 private:
  friend class CardPort;
  Job job_;
  OwnBell bell_;
  bool listening_ = false;
  std::vector<CardPort*> ports_;
};

}  // namespace nanet::fabric::card
