// SPDX-License-Identifier: Apache-2.0
// Driver of the torus card by its registers (gateware/regs/nanet_torus_regs.rdl): links, rings, receive
// slots, keys and translations. Simulated card and PCIe board.
#pragma once

#include <array>
#include <cstdint>

#include "nanet/gateware/bus.hpp"
#include "nanet/torus/packet.hpp"
#include "nanet/torus/rings.hpp"
#include "nanet/torus/route.hpp"

namespace nanet::gateware {

// Registered buffers and translations of the card's domains.
class TorusMemory {
 public:
  virtual ~TorusMemory() = default;
  // Buffer of the domain that holds [address, address + bytes); else the reason: bad_domain or out_of_range.
  virtual torus::Nack key(std::uint16_t domain, std::uint64_t address, std::uint32_t bytes,
                          torus::RegisteredBuffer& found) = 0;
  // Bus address of a page. False: there is none.
  virtual bool page(std::uint16_t domain, std::uint64_t address, std::uint64_t& bus) = 0;
};

// Rings of a port, at bus addresses, and its receive slots.
struct TorusRings {
  std::uint64_t put = 0, get = 0, events = 0, finished = 0;
  std::uint32_t put_entries = 0, get_entries = 0, event_entries = 0;  // powers of two
  std::uint16_t domain = 0;
  std::uint64_t slots = 0;                       // address of slot 0 in the domain
  std::uint32_t slot_bytes = 0, slot_count = 0;  // powers of two
};

struct TorusCounters {
  std::array<std::uint32_t, torus::nack_reasons - 1> refused{};  // [0]: used; all but `unreadable`
  std::uint32_t unexpected = 0, untranslated = 0, write_errors = 0, replies_lost = 0, events_lost = 0,
                bad_descriptors = 0, read_errors = 0, astray = 0, overflow = 0;
};

class TorusDriver {
 public:
  static constexpr std::uint32_t page_bytes = 4096;

  // Throws std::runtime_error if the card is another one, or does not respond.
  explicit TorusDriver(Bus& bus);

  // Resets node and network interface; then the place in the lattice, links with the reliable protocol.
  void place(const torus::Lattice& lattice, const torus::Coordinates& node);
  bool links_up();
  // Rings and slots of the node's port 0; empty rings.
  void start(const TorusRings& rings);
  // No further descriptor is read, no slot is used.
  void stop();
  void post(std::uint32_t entries);      // put ring entries posted, without end
  void post_slots(std::uint32_t slots);  // receive slots posted, without end
  void time_out(std::uint32_t cycles);   // messages without progress; 0: never

  // Answers keys and pages that the card lacks. False: none was open.
  bool serve(TorusMemory& memory);
  // Enters a buffer and its translations in advance.
  void enter(const torus::RegisteredBuffer& buffer);
  void enter(std::uint16_t domain, std::uint64_t address, std::uint64_t bus);
  // Forgets keys and translations.
  void forget();

  bool idle();  // nothing is posted or under way
  TorusCounters counters();

 private:
  void write(std::size_t address, std::uint32_t value) {
    bus_.write(static_cast<std::uint32_t>(address), value);
  }
  std::uint32_t read(std::size_t address) { return bus_.read(static_cast<std::uint32_t>(address)); }
  void write_pair(std::size_t address, std::uint64_t value);
  void wait(std::uint32_t bits, std::uint32_t value, const char* what);
  void fill_key(std::uint64_t at, const torus::RegisteredBuffer& buffer, std::uint32_t fill);
  void fill_page(std::uint16_t domain, std::uint64_t address, std::uint64_t bus, std::uint32_t fill);

  Bus& bus_;
  std::uint32_t connected_ = 0, enable_ = 0;
};

}  // namespace nanet::gateware
