// SPDX-License-Identifier: Apache-2.0
// Memory layout of the shared-memory backend. A port is a file: header, table of registered memory, links. A
// link is contract memory with one producer: event queue, a CLOP of small and a CLOP of large buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/layout.hpp"
#include "nanet/fabric/packet.hpp"

namespace nanet::fabric::shm {

inline constexpr std::uint64_t magic =
    0x3169'6674'656e'616e;  // "nanetfi1"; its last digit changes with the layout
inline constexpr std::size_t page = 4096;
inline constexpr unsigned max_links = 1024;       // peers that send to one port
inline constexpr unsigned memory_entries = 2048;  // registrations open to direct access
inline constexpr unsigned memory_probes = 16;

inline constexpr std::uint32_t small_buffers = 64, large_buffers = 16, events = 256;
inline constexpr std::uint32_t small_stride = sizeof(Packet) + inline_bytes,
                               large_stride = sizeof(Packet) + eager_bytes;
static_assert(events >= 2 * (small_buffers + large_buffers));

// Registered memory of the port's process. `sequence` is odd during a change.
struct MemoryEntry {
  std::uint32_t sequence = 0, rights = 0;  // rights: b0 valid, b1 read, b2 write
  std::uint64_t key = 0, base = 0, begin = 0, bytes = 0;
};

// Entry i of those that may hold a key.
inline unsigned memory_slot(std::uint64_t key, unsigned i) noexcept {
  return (static_cast<unsigned>((key * 0x9e37'79b9'7f4a'7c15) >> 40) + i) % memory_entries;
}

struct PortHeader {
  std::uint64_t magic = 0;
  std::uint32_t pid = 0;
  std::uint32_t open = 0;
  std::uint64_t cookie = 0, cookie_address = 0;  // proves that pid names the right process
  std::uint32_t refuse_direct = 0;
  std::uint32_t bell = 0;  // number in the name of the node's bell
  alignas(64) std::uint32_t listening = 0;
  alignas(64) std::uint32_t link_changes = 0;
};
static_assert(sizeof(PortHeader) <= page);

enum class LinkState : std::uint32_t { free = 0, claimed = 1, open = 2, closed = 3 };

struct LinkHeader {
  std::uint32_t state = 0;
  std::uint32_t large = 0;  // large buffers in use: a power of two up to large_buffers
  std::uint64_t source = 0;
  alignas(64) std::uint32_t starved = 0;  // the producer waits for a buffer
};

namespace offset {
constexpr std::size_t align(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}
inline constexpr std::size_t memory = page;
inline constexpr std::size_t links = align(memory + sizeof(MemoryEntry) * memory_entries, page);
// Within a link.
inline constexpr std::size_t finished = sizeof(LinkHeader);
inline constexpr std::size_t small_returned = finished + 64;
inline constexpr std::size_t large_returned = small_returned + 4 * small_buffers;
inline constexpr std::size_t queue = align(large_returned + 4 * large_buffers, 64);
inline constexpr std::size_t small = queue + sizeof(contract::Event) * events;
inline constexpr std::size_t large = small + std::size_t{small_buffers} * small_stride;
inline constexpr std::size_t link_stride = align(large + std::size_t{large_buffers} * large_stride, page);
constexpr std::size_t link(unsigned index) {
  return links + link_stride * index;
}
constexpr std::size_t link_bytes(unsigned large_used) {
  return align(large + std::size_t{large_used} * large_stride, page);
}
inline constexpr std::size_t file = link(max_links);
}  // namespace offset

// The two receive streams of a link, as views of the contract.
struct LinkView {
  LinkHeader* header = nullptr;
  contract::View small, large;
};

inline LinkView link_view(std::byte* at, std::uint32_t large_used) noexcept {
  LinkView v;
  v.header = reinterpret_cast<LinkHeader*>(at);
  contract::View common;
  common.shape.gather = contract::Gather::packets;
  common.shape.packets = 1;
  common.shape.events = events;
  common.queue = reinterpret_cast<contract::Event*>(at + offset::queue);
  common.finished = reinterpret_cast<std::uint64_t*>(at + offset::finished);
  v.small = v.large = common;
  v.small.shape.slot_bytes = small_stride;
  v.small.shape.buffers = small_buffers;
  v.small.clop = at + offset::small;
  v.small.returned = reinterpret_cast<std::uint32_t*>(at + offset::small_returned);
  v.large.shape.slot_bytes = large_stride;
  v.large.shape.buffers = large_used;
  v.large.clop = at + offset::large;
  v.large.returned = reinterpret_cast<std::uint32_t*>(at + offset::large_returned);
  return v;
}

using contract::full_fence;

}  // namespace nanet::fabric::shm
