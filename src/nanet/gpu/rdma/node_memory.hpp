// SPDX-License-Identifier: Apache-2.0
// Memory of RDMA nodes with emulated cards: layout, arguments of blocks and cards, tables of registered
// buffers. The same for memory of a GPU and of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanet/gpu/rdma/emulated_card.hpp"
#include "nanet/torus/rings.hpp"
#include "nanet/units.hpp"

namespace nanet::gpu {

struct RdmaOptions {
  // GPU of each node, at most max_rdma_nodes; several may share one. HostRdma reads the number of nodes
  // alone.
  std::vector<int> gpus = {0, 0};
  std::uint32_t entries = 1024;                 // of the put ring; a power of two, at least 8
  std::uint32_t events = 4096;                  // of each event queue; a power of two, at least 4
  std::uint32_t buffers = 64;                   // registered, of each node; a multiple of 32
  std::uint32_t copy_engine_from = 512u << 10;  // bytes of a transfer that the GPU's copy engine executes
  Nanoseconds patience = 100'000'000;           // for a node that does not read its events
  bool shared = false;                          // several blocks of a node make calls
};

// Counters of an emulated card. refused: operations by torus::Nack.
struct RdmaCounters {
  std::uint64_t messages = 0, bytes = 0, by_copy_engine = 0, events_lost = 0;
  std::uint64_t refused[torus::nack_reasons] = {};
};

// Offsets in the memory of a node.
struct NodeLayout {
  // Throws std::invalid_argument.
  explicit NodeLayout(const RdmaOptions& o) {
    const auto power = [](std::uint32_t value, std::uint32_t least) {
      return value >= least && (value & (value - 1)) == 0;
    };
    const std::size_t nodes = o.gpus.size();
    if (nodes < 1 || nodes > max_rdma_nodes)
      throw std::invalid_argument("gpus: " + std::to_string(nodes) + " nodes; 1 to " +
                                  std::to_string(max_rdma_nodes) + " are possible");
    if (!power(o.entries, 8))
      throw std::invalid_argument("entries = " + std::to_string(o.entries) +
                                  " must be a power of two from 8 on");
    if (!power(o.events, 4))
      throw std::invalid_argument("events = " + std::to_string(o.events) +
                                  " must be a power of two from 4 on");
    if (o.buffers == 0 || o.buffers % 32 != 0 || o.buffers * nodes > max_registered)
      throw std::invalid_argument("buffers = " + std::to_string(o.buffers) +
                                  " must be a multiple of 32, at most " + std::to_string(max_registered) +
                                  " for all nodes together");
    ring = sizeof(CardControl);
    queues = ring + sizeof(torus::PutDescriptor) * o.entries;
    queue_bytes = sizeof(contract::Event) * o.events;
    table = queues + queue_bytes * nodes;
    bytes = table + sizeof(torus::RegisteredBuffer) * o.buffers * nodes;
  }
  std::size_t ring, queues, queue_bytes, table, bytes;
};

// Argument of the blocks of node n. base: device address of its memory. domain: of its local buffers.
inline Rdma rdma_argument(const RdmaOptions& options, const NodeLayout& layout, std::byte* base, unsigned n,
                          std::uint16_t domain) {
  auto* const control = reinterpret_cast<CardControl*>(base);
  Rdma rdma;
  rdma.ring = reinterpret_cast<torus::PutDescriptor*>(base + layout.ring);
  rdma.doorbell = &control->doorbell;
  rdma.positions = &control->positions;
  rdma.done = &control->done;
  rdma.refused = &control->refused;
  rdma.stopped = &control->stopped;
  rdma.queues = static_cast<std::uint16_t>(options.gpus.size());
  for (unsigned q = 0; q < rdma.queues; ++q) {
    rdma.queue[q].entries =
        reinterpret_cast<const contract::Event*>(base + layout.queues + layout.queue_bytes * q);
    rdma.queue[q].finished = &control->finished[q];
  }
  rdma.entries = options.entries;
  rdma.events = options.events;
  rdma.node = static_cast<std::uint16_t>(n);
  rdma.domain = domain;
  rdma.shared = options.shared;
  rdma.system = false;
  return rdma;
}

// Argument of the card of node n, without copy engine. bases: memory of all nodes.
inline EmulatedCard card_argument(const RdmaOptions& options, const NodeLayout& layout,
                                  const std::vector<std::byte*>& bases, unsigned n) {
  EmulatedCard card;
  card.control = reinterpret_cast<CardControl*>(bases[n]);
  card.ring = reinterpret_cast<torus::PutDescriptor*>(bases[n] + layout.ring);
  card.table = reinterpret_cast<const torus::RegisteredBuffer*>(bases[n] + layout.table);
  card.nodes = static_cast<std::uint32_t>(bases.size());
  for (unsigned p = 0; p < card.nodes; ++p) {
    card.peer[p].queue =
        reinterpret_cast<contract::Event*>(bases[p] + layout.queues + layout.queue_bytes * n);
    card.peer[p].finished = &reinterpret_cast<CardControl*>(bases[p])->finished[n];
    card.peer[p].far = options.gpus[p] != options.gpus[n];
  }
  card.entries = options.entries;
  card.events = options.events;
  card.buffers = options.buffers;
  card.node = n;
  card.copy_engine_from = options.copy_engine_from;
  card.patience = options.patience;
  return card;
}

inline RdmaCounters counters_of(const CardControl& control) {
  using contract::HostAccess;
  RdmaCounters c;
  c.messages = HostAccess::relaxed(control.messages);
  c.bytes = HostAccess::relaxed(control.bytes);
  c.by_copy_engine = HostAccess::relaxed(control.by_copy_engine);
  c.events_lost = HostAccess::relaxed(control.events_lost);
  for (std::size_t i = 0; i < torus::nack_reasons; ++i)
    c.refused[i] = HostAccess::relaxed(control.reasons[i]);
  return c;
}

inline constexpr std::uint8_t read_and_write = torus::right::remote_read | torus::right::remote_write;

// Registered buffers of all nodes, as each card holds them.
class BufferTable {
 public:
  BufferTable(std::size_t nodes, std::size_t buffers) : buffers_(buffers), entries_(nodes * buffers) {}
  // gpu: -1 for host memory. Throws std::invalid_argument (address range), std::length_error (table full).
  RdmaKey add(unsigned node, const void* at, std::size_t bytes, int gpu, std::uint8_t rights,
              std::uint16_t domain) {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at));
    constexpr std::uint64_t end = std::uint64_t{1} << 48;
    if (bytes == 0 || address >= end || bytes > end - address)
      throw std::invalid_argument("register_memory: " + std::to_string(bytes) +
                                  " B must be at least one, below address 2^48");
    for (std::size_t i = buffers_ * node; i < buffers_ * (node + 1); ++i) {
      torus::RegisteredBuffer& entry = entries_[i];
      if (entry.valid != 0) continue;
      entry.address = address;
      entry.bytes = bytes;
      entry.domain = domain;
      entry.rights = rights;
      entry.memory = static_cast<std::uint8_t>(gpu + 1);
      entry.valid = 1;
      return std::uint64_t{domain} << 48 | address;
    }
    throw std::length_error("register_memory: node " + std::to_string(node) + " has " +
                            std::to_string(buffers_) + " buffers registered; raise `buffers`");
  }
  // Throws std::invalid_argument if the node has no buffer with this key.
  void remove(unsigned node, RdmaKey key) {
    for (std::size_t i = buffers_ * node; i < buffers_ * (node + 1); ++i) {
      torus::RegisteredBuffer& entry = entries_[i];
      if (entry.valid == 0 || (std::uint64_t{entry.domain} << 48 | entry.address) != key) continue;
      entry = {};
      return;
    }
    throw std::invalid_argument("unregister_memory: no such key at node " + std::to_string(node));
  }
  const torus::RegisteredBuffer* data() const noexcept { return entries_.data(); }
  std::size_t bytes() const noexcept { return entries_.size() * sizeof(torus::RegisteredBuffer); }

 private:
  std::size_t buffers_;
  std::vector<torus::RegisteredBuffer> entries_;
};

}  // namespace nanet::gpu
