// SPDX-License-Identifier: Apache-2.0
// Memory structures of a torus node beside the event queue: put ring, GET ring, registered buffers, event
// types (docs/formats.md). nanet's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/contract/layout.hpp"
#include "nanet/torus/packet.hpp"

namespace nanet::torus {

// Types of contract::Event entries beyond contract::EventType.
enum class EventType : std::uint8_t {
  put_arrived = 6,
  send_arrived = 7,
  completed = 8,
  failed = 9,
  link = 10,
};

namespace put_flag {
inline constexpr std::uint8_t inline_payload = 1u << 0;
inline constexpr std::uint8_t completed = 1u << 1;  // event at this node
inline constexpr std::uint8_t notify = 1u << 2;     // event at the destination
inline constexpr std::uint8_t ack = 1u << 3;        // DONE requested; `completed` waits for it
}  // namespace put_flag

struct alignas(64) PutDescriptor {
  std::uint64_t local_address = 0;  // source of put and send, target of get
  std::uint64_t remote_address = 0;
  std::uint32_t bytes = 0;
  std::uint16_t remote_domain = 0;
  std::uint16_t local_domain = 0;
  std::uint16_t node = 0;  // Node::packed()
  std::uint8_t port = 0;   // in the destination node
  std::uint8_t type = 0;   // PacketType: put, get or send
  std::uint8_t flags = 0;  // put_flag
  std::uint8_t zero[3] = {};
  std::uint32_t message = 0;
  std::uint32_t immediate = 0;
  std::uint32_t zero_2[5] = {};
  std::uint32_t lap = 0;  // written last
};
static_assert(sizeof(PutDescriptor) == 64 && offsetof(PutDescriptor, bytes) == 16 &&
              offsetof(PutDescriptor, node) == 24 && offsetof(PutDescriptor, flags) == 28 &&
              offsetof(PutDescriptor, message) == 32 && offsetof(PutDescriptor, lap) == 60);

inline constexpr std::uint32_t max_inline_bytes = 192;
// Entries of the put ring that a descriptor takes, inline payload included.
NANET_HD constexpr std::uint32_t put_entries(const PutDescriptor& d) {
  return 1 + ((d.flags & put_flag::inline_payload) != 0 ? d.bytes / 64 + (d.bytes % 64 != 0) : 0);
}

struct alignas(32) GetEntry {
  std::uint64_t address = 0;  // b47:0 to read, b51:48 port of the requester
  std::uint64_t reply = 0;    // b47:0 address, b63:48 domain for the data
  std::uint32_t bytes = 0;
  std::uint16_t domain = 0;  // read
  std::uint16_t node = 0;    // requester
  std::uint32_t message = 0;
  std::uint32_t lap = 0;  // written last
};
static_assert(sizeof(GetEntry) == 32 && offsetof(GetEntry, bytes) == 16 && offsetof(GetEntry, lap) == 28);

namespace right {
inline constexpr std::uint8_t remote_write = 1u << 0;
inline constexpr std::uint8_t remote_read = 1u << 1;
}  // namespace right

struct alignas(32) RegisteredBuffer {
  std::uint64_t address = 0;  // virtual, in the domain
  std::uint64_t bytes = 0;
  std::uint16_t domain = 0;
  std::uint8_t rights = 0;
  std::uint8_t memory = 0;  // 0 host, g + 1 GPU g
  std::uint32_t zero[2] = {};
  std::uint32_t valid = 0;  // written last

  // Whether [at, at + size) lies inside.
  NANET_HD constexpr bool holds(std::uint64_t at, std::uint64_t size) const {
    return at >= address && size <= bytes && at - address <= bytes - size;
  }
};
static_assert(sizeof(RegisteredBuffer) == 32 && offsetof(RegisteredBuffer, valid) == 28);

}  // namespace nanet::torus
