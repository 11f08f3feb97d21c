// SPDX-License-Identifier: Apache-2.0
// Shared memory of a torus job. The control file lists the ports; each port has a file with the structures of
// the memory contract (docs/formats.md, Torus): put ring, event queue, registered buffers, receive slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nanet/contract/layout.hpp"
#include "nanet/torus/rings.hpp"
#include "nanet/torus/route.hpp"

namespace nanet::torus::card {

inline constexpr std::uint64_t magic =
    0x3274'6f74'656e'616e;  // "nanetot2"; its last digit changes with the layout
inline constexpr unsigned max_ports = 1024;
inline constexpr unsigned max_intra = 8;  // ports of a node; packets can name 16

// free -> claimed (by a process) -> announced (its file is complete) -> open (the card has mapped it)
// -> closing (by the process, or at its death) -> free.
enum class PortState : std::uint32_t { free = 0, claimed = 1, announced = 2, open = 3, closing = 4 };

struct PortEntry {
  std::uint32_t state = 0;
  std::uint32_t pid = 0;
  std::uint32_t epoch = 0;   // counts the owners
  std::uint32_t native = 0;  // 1: the card reaches registered memory of the process
};

// What the torus has carried.
struct Totals {
  std::uint64_t packets = 0, words = 0;  // delivered; header and footer included
  std::uint64_t hops = 0;
  std::uint64_t cycles = 0, max_cycles = 0;  // creation to tail delivered: sum, largest
  std::uint64_t unexpected = 0;              // answers without a message
  std::uint64_t events_lost = 0;
  std::uint64_t dead = 0;  // ports whose process ended without closing them
  std::array<std::uint64_t, nack_reasons> refused{};
};

struct Control {
  std::uint64_t magic = 0;
  std::uint8_t size[3] = {};
  std::uint8_t intra = 0;              // ports of each node
  std::uint32_t pid = 0;               // of the process that plays the cards
  std::uint32_t running = 0;           // 0: that process has ended its work
  std::uint32_t next = 0;              // port to try first
  alignas(64) std::uint32_t bell = 0;  // futex; counts calls of ranks
  std::uint32_t sleeping = 0;          // the process waits for the bell
  alignas(64) PortEntry port[max_ports];
  alignas(64) Totals totals;
};

inline constexpr std::uint32_t put_entries_count = 1024;
inline constexpr std::uint32_t table_entries = 1024;
inline constexpr std::uint32_t file_entries = 4;  // of the table, for parts of the port's file
inline constexpr std::uint32_t slot_bytes = 4096;

// Window of the port's file in its domain's addresses: file offset + file_window. The first entries
// of the table of registered buffers lie in it.
inline constexpr std::uint64_t file_window = std::uint64_t{1} << 32;
inline constexpr std::uint64_t memory_windows = std::uint64_t{1} << 40;  // first window of other memory

struct PortHeader {
  std::uint64_t magic = 0;
  char bell[240] = {};  // path of the process's bell, a named pipe
  alignas(64) std::uint32_t listening = 0;
  alignas(64) std::uint32_t doorbell = 0;  // entries of the put ring posted
  alignas(64) std::uint32_t posted = 0;    // receive slots posted
  std::uint32_t table_used = 0;            // entries of the table in use lie below
  std::uint32_t revoked = 0;               // counts entries with rights that became invalid
  std::uint64_t cookie = 0,
                cookie_address = 0;        // prove that the card reaches the process; address 0: it must not
  alignas(64) std::uint64_t finished = 0;  // events
};

// Sizes that follow from the lattice.
struct Shape {
  std::uint32_t ports = 0;    // of the whole torus
  std::uint32_t credits = 0;  // receive slots that a peer may fill
  std::uint32_t slots = 0;    // a power of two
  std::uint32_t events = 0;   // a power of two

  static constexpr Shape of(std::uint32_t ports) {
    Shape s;
    s.ports = ports;
    s.credits = ports <= 64 ? 16 : ports <= 128 ? 8 : 4;
    s.slots = 64;
    while (s.slots < ports * s.credits) s.slots *= 2;
    s.events = s.slots * 2 < 4096 ? 4096 : s.slots * 2;
    return s;
  }
};

// Directory of memory open to other processes, by the key of an application; peers read it with GET.
struct KeyEntry {
  std::uint64_t key = 0;
  std::uint64_t window = 0;  // address in the domain of offset 0 of `begin`; 0: free
  std::uint64_t begin = 0;   // first valid RMA address
  std::uint64_t bytes = 0;
  std::uint32_t rights = 0;
  std::uint32_t entry = 0;  // of the table
  std::uint64_t zero[3] = {};
};
static_assert(sizeof(KeyEntry) == 64);
inline constexpr std::uint32_t key_entries = 512, key_probes = 8;
// First of the consecutive entries that may hold a key.
inline std::uint32_t key_slot(std::uint64_t key) {
  return static_cast<std::uint32_t>((key * 0x9e37'79b9'7f4a'7c15) >> 40) % (key_entries / key_probes) *
         key_probes;
}

// Offsets in a port's file.
struct Offsets {
  std::size_t ring, events, table, places, credits, keys, slots, staging, answers, bytes;

  static constexpr std::size_t align(std::size_t n) { return (n + 4095) / 4096 * 4096; }
  explicit constexpr Offsets(const Shape& s)
      : ring(4096),
        events(align(ring + sizeof(PutDescriptor) * put_entries_count)),
        table(align(events + sizeof(contract::Event) * s.events)),
        places(align(table + sizeof(RegisteredBuffer) * table_entries)),
        credits(align(places + sizeof(std::uint64_t) * table_entries)),
        keys(align(credits + sizeof(std::uint32_t) * max_ports)),
        slots(align(keys + sizeof(KeyEntry) * key_entries)),
        staging(slots + std::size_t{slot_bytes} * s.slots),
        answers(staging + std::size_t{slot_bytes} * s.ports * s.credits),
        bytes(align(answers + sizeof(KeyEntry) * key_probes * s.ports)) {}
};

// Port index: consecutive ports lie on consecutive nodes.
struct Place {
  Coordinates node{};
  std::uint8_t intra = 0;
};
inline Place place_of(const Lattice& lattice, std::uint32_t port) {
  return {lattice.at(port % lattice.nodes()), static_cast<std::uint8_t>(port / lattice.nodes())};
}
inline std::uint32_t port_of(const Lattice& lattice, const Coordinates& node, unsigned intra) {
  return lattice.index(node) + intra * lattice.nodes();
}

// Protection domain of a port's owner: other owners of the same port have other domains.
inline std::uint16_t domain_of(std::uint32_t port, std::uint32_t epoch) {
  return static_cast<std::uint16_t>(port | epoch << 10);
}
inline std::uint32_t port_of_domain(std::uint16_t domain) {
  return domain & (max_ports - 1);
}

// First bytes of a SEND between processes.
struct Envelope {
  std::uint16_t source = 0;  // domain of the sender
  std::uint16_t zero = 0;
  std::uint32_t sequence = 0;  // of the SEND, from this sender to this receiver
  std::uint32_t bytes = 0;     // of the whole fabric packet
  std::uint32_t offset = 0;    // of this part
};
static_assert(sizeof(Envelope) == 16);
inline constexpr std::uint32_t send_bytes = slot_bytes - sizeof(Envelope);

inline std::string port_file(const std::string& control, std::uint32_t port) {
  return control + "." + std::to_string(port);
}

}  // namespace nanet::torus::card
