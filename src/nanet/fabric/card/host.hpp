// SPDX-License-Identifier: Apache-2.0
// Cards that a process can use: a torus job of this host (job.hpp), or a PCIe board (pcie.hpp). A host
// attaches ports; an attachment is the way to the card of one port.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nanet/fabric/backend.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"

namespace nanet::fabric::card {

namespace wire = torus::card;

// Memory of a port, and the doorbells of its card.
class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual void post(std::uint32_t entries) noexcept = 0;  // the put ring is filled up to this number
  virtual void grant(std::uint32_t slots) noexcept = 0;   // receive slots are free up to this number
  // Memory of the process as an entry of the table, before the entry is valid. False: the card cannot reach
  // it.
  virtual bool enter(std::uint32_t entry, const void* at, std::size_t bytes) noexcept = 0;
  virtual void entered(std::uint32_t entry) noexcept = 0;  // the entry is valid
  virtual void left(std::uint32_t entry) noexcept = 0;     // it is no longer valid
  // Memory for the packets to a port.
  virtual bool stage(std::uint32_t port) noexcept = 0;
  virtual void listen(bool on) noexcept = 0;
  virtual void serve() noexcept = 0;  // the driver's part, between polls

  std::uint32_t port = 0;
  std::uint16_t domain = 0;
  wire::PortMemory memory;
  bool native = false;  // the card reaches registered memory of the process
};

struct PeerState {
  bool open = false, present = false;  // present: open, or being closed
  std::uint16_t domain = 0;
  bool native = false;
};

class Host {
 public:
  virtual ~Host() = default;
  // Opens a port. wanted: its address, or nullptr; bell: path of the process's bell. Throws
  // std::system_error.
  virtual std::unique_ptr<Attachment> attach(const Address* wanted, const std::string& bell, bool direct) = 0;
  virtual bool alive() const noexcept = 0;  // the cards are there
  virtual PeerState peer(std::uint32_t port) const noexcept = 0;
  // The cards write to bells. Otherwise waiting is polling.
  virtual bool rings() const noexcept = 0;

  // False: no such port.
  bool find(Address address, std::uint32_t& port) const noexcept;
  Address address(std::uint32_t port) const noexcept;

  torus::Lattice lattice;
  wire::Shape shape;
};

// Fills header and table of a port whose memory is zero: slots, and the buffers that lie in this memory.
void prepare(const wire::PortMemory& memory, const wire::Shape& shape, std::uint16_t domain);

}  // namespace nanet::fabric::card
