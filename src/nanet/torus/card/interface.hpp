// SPDX-License-Identifier: Apache-2.0
// Network interfaces of all nodes, in software: they read put rings, cut messages into packets, place
// arriving packets in registered memory and receive slots, and write events.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nanet/contract/producer.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/torus/card/carrier.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"
#include "nanet/torus/packet.hpp"

namespace nanet::torus::card {

class Interfaces {
 public:
  Interfaces(Carrier& carrier, const Lattice& lattice, const Shape& shape, Totals& totals);

  void attach(std::uint32_t port, std::uint16_t domain, const PortMemory& memory, const DomainMemory& access);
  void detach(std::uint32_t port);
  // Nothing is posted, and no packet of the port is on its way.
  bool drained(std::uint32_t port) const;

  // Reads put rings and GET rings; true: something was sent.
  bool transmit();
  // A delivered packet.
  void receive(const Arrival& arrival);
  // An arriving packet, before any check.
  void receive(std::uint32_t node, const Word& header, std::span<const Word> payload, const Word& footer);
  // The network is empty: messages without an answer have timed out.
  void quiet();

 private:
  // Message that waits for DONE or GET data.
  struct Message {
    std::uint32_t message = 0, bytes = 0, left = 0;
    std::uint16_t node = 0, domain = 0;
    std::uint8_t type = 0;
    bool completed = false;  // with an event at the end
    std::uint64_t local = 0;
    std::uint16_t local_domain = 0;
  };
  // Descriptor whose packets are being sent.
  struct Job {
    PutDescriptor d;
    std::uint64_t place = 0;  // of the local memory
    std::uint32_t done = 0;
    std::array<std::byte, max_inline_bytes> inline_payload{};
  };
  // Entry of the GET ring under way.
  struct Get {
    GetEntry entry;
    std::uint32_t port = 0, done = 0;
  };
  struct Port {
    std::uint32_t index = 0, node = 0;
    std::uint16_t domain = 0;
    PortMemory memory;
    DomainMemory access;
    contract::EventWriter events;
    std::uint32_t next = 0;   // entry of the put ring
    std::uint64_t lap = 0;    // entries read
    std::uint32_t slots = 0;  // receive slots used
    std::optional<Job> job;
    std::vector<Message> open;
    std::uint32_t on_the_way = 0;
    os::Fd bell;
    explicit Port(const PortMemory& m) : memory(m), events(m.view) {}
  };

  Port* port(std::uint32_t node, unsigned intra) const;
  bool transmit(Port& port);
  bool start(Port& port);
  Nack fault(Port& port, Job& job);
  bool send_part(Port& port);
  bool answer_get(std::uint32_t node);
  WirePacket& take(std::uint32_t from, std::uint32_t owner, std::uint32_t& id);
  void launch(std::uint32_t id, Header header, const Footer& footer);
  void reply(std::uint32_t node, PacketType type, const Header& header, const Footer& footer,
             std::uint64_t value);
  Nack place(Port& port, std::uint32_t node, const Header& header, std::span<const Word> payload,
             const Footer& footer, std::optional<std::uint32_t>& slot);
  bool answer(Port& port, const Header& header, std::span<const Word> payload, const Footer& footer);
  void end(Port& port, std::size_t message, Nack reason);
  void event(Port& port, EventType type, Nack reason, std::uint32_t what, std::uint32_t bytes,
             std::uint16_t node, std::uint16_t domain, std::uint32_t message);
  Footer footer_of(const Port& port, std::uint32_t message, std::uint8_t flags) const;

  Carrier& carrier_;
  const Lattice lattice_;
  const Shape shape_;
  Totals& totals_;
  std::vector<std::unique_ptr<Port>> ports_;  // by index
  std::vector<Port*> attached_;
  std::vector<std::deque<Get>> gets_;  // GET ring of each node
  std::vector<std::unique_ptr<WirePacket>> packets_;
  std::vector<std::uint32_t> free_packets_;
};

}  // namespace nanet::torus::card
