// SPDX-License-Identifier: Apache-2.0
// Packets of the fabric: addresses of endpoints and the 64-byte header of every packet.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace nanet::fabric {

// Address of an endpoint: coordinates of its node in the torus, and its port at the node.
struct Address {
  std::uint8_t x = 0, y = 0, z = 0, reserved = 0;
  std::uint32_t port = 0;

  std::uint64_t word() const noexcept { return std::bit_cast<std::uint64_t>(*this); }
  static Address of(std::uint64_t word) noexcept { return std::bit_cast<Address>(word); }
  friend bool operator==(const Address& a, const Address& b) noexcept { return a.word() == b.word(); }
};
static_assert(sizeof(Address) == 8);

enum class Kind : std::uint8_t {
  none = 0,
  eager = 1,      // whole message
  request = 2,    // rendezvous: announces a message; payload: list of Span
  finished = 3,   // rendezvous: the receiver has the data, or discarded the message
  get = 4,        // rendezvous: the receiver requests the data as packets
  data = 5,       // answer to get and read; result of an atomic operation
  put = 6,        // fragment of an RMA write
  read = 7,       // RMA read
  atomic = 8,     // payload: operand, then comparand
  ack = 9,        // the operation `token` is complete; status in `total`
  immediate = 10  // remote completion data of an RMA write that has no packets
};

namespace packet_flag {
inline constexpr std::uint8_t tagged = 1u << 0;
inline constexpr std::uint8_t data = 1u << 1;     // remote completion data is valid
inline constexpr std::uint8_t placed = 1u << 2;   // acknowledge when the message has been processed
inline constexpr std::uint8_t matched = 1u << 3;  // acknowledge when the message has been matched
inline constexpr std::uint8_t last = 1u << 4;     // last fragment
inline constexpr std::uint8_t compare = 1u << 5;  // atomic: with comparand
inline constexpr std::uint8_t fetch = 1u << 6;    // atomic: returns the previous values
}  // namespace packet_flag

struct Packet {
  Kind kind = Kind::none;
  std::uint8_t flags = 0;
  std::uint8_t datatype = 0;  // atomic
  std::uint8_t op = 0;        // atomic
  std::uint32_t bytes = 0;    // payload of this packet
  std::uint64_t tag = 0;      // message: tag; RMA and atomic: key
  std::uint64_t data = 0;     // remote completion data
  std::uint64_t total = 0;    // length of the message or transfer; ack: status
  std::uint64_t offset = 0;   // of the fragment in the transfer
  std::uint64_t address = 0;  // RMA: offset in the region
  std::uint64_t token = 0;    // operation of the packet's sender
  std::uint64_t answer = 0;   // operation of the packet's receiver
};
static_assert(sizeof(Packet) == 64);

// Part of a buffer in the memory of a peer.
struct Span {
  std::uint64_t address = 0, bytes = 0;
};

// Payloads up to inline_bytes travel in small buffers, up to eager_bytes in large ones.
inline constexpr std::size_t inline_bytes = 192;
inline constexpr std::size_t eager_bytes = 8192;

}  // namespace nanet::fabric
