// SPDX-License-Identifier: Apache-2.0
// Emulated RDMA card: executes the put ring of one node, writes the memory of the other nodes, then their
// events. It stands for the card's DMA engines where no card can reach the GPU: one resident block of threads
// per node, or one host thread. Large transfers go to the GPU's copy engine. A refused operation ends with a
// `failed` event that has the reason of docs/formats.md (Torus); there is no network, so none of its losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nanet/gpu/device_code.hpp"
#include "nanet/gpu/rdma.hpp"
#include "nanet/gpu/rdma/card_access.hpp"
#include "nanet/torus/rings.hpp"

namespace nanet::gpu {

inline constexpr unsigned max_registered = 1024;        // buffers of all nodes together
inline constexpr unsigned copy_requests = 64;           // that can wait; a power of two
inline constexpr std::uint32_t warp_copy_bytes = 4096;  // more are copied by the whole block

// Request to the thread that runs the copy engine.
struct alignas(32) CopyRequest {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t zero = 0;
  std::uint32_t lap = 0;  // written last
};
static_assert(sizeof(CopyRequest) == 32 && offsetof(CopyRequest, lap) == 28);

// Words of an emulated card and its node; in the node's memory.
struct alignas(128) CardControl {
  RdmaPositions positions;
  alignas(128) std::uint32_t doorbell = 0;
  alignas(128) std::uint64_t done = 0;
  std::uint64_t refused = 0;
  std::uint32_t stopped = 0;
  alignas(128) std::uint32_t command =
      0;  // by the host: b0 stop; else a new number for each change of the table
  alignas(128) std::uint32_t answered = 0;  // last command executed
  // Counters.
  std::uint64_t reasons[torus::nack_reasons] = {};            // refused operations
  std::uint64_t messages = 0, bytes = 0, by_copy_engine = 0;  // of operations without a fault
  std::uint64_t events_lost = 0;                              // the node's queue was full
  alignas(128) std::uint64_t finished[max_rdma_nodes] = {};   // of the queue that each card writes
};

// Argument of an emulated card.
struct EmulatedCard {
  // Event queue of a node that this card writes.
  struct Peer {
    contract::Event* queue = nullptr;
    const std::uint64_t* finished = nullptr;
    bool far = false;  // on another GPU
  };

  CardControl* control = nullptr;
  torus::PutDescriptor* ring = nullptr;
  const torus::RegisteredBuffer* table = nullptr;  // `buffers` entries for each node
  CopyRequest* copies = nullptr;                   // null: no copy engine
  const std::uint64_t* copied = nullptr;           // requests that are finished
  Peer peer[max_rdma_nodes];
  std::uint32_t entries = 0, events = 0;  // as in Rdma
  std::uint32_t buffers = 0;              // of each node; a multiple of 32
  std::uint32_t nodes = 0;                // (n, 0, 0) for n below
  std::uint32_t node = 0;
  std::uint32_t copy_engine_from = 0;  // bytes
  std::uint8_t memory = 0;             // of this GPU, as in RegisteredBuffer
  std::int64_t patience = 0;           // ns, for space in an event queue
};

// State of a card; in shared memory. The leader writes it. Branches of the warp on it are votes, so that a
// lane that is behind does not read a later value.
struct CardState {
  std::uint64_t next = 0;                       // entry of the ring
  std::uint64_t done = 0;                       // operations before it have ended; copies lie between
  std::uint64_t written[max_rdma_nodes] = {};   // events in each queue
  std::uint64_t finished[max_rdma_nodes] = {};  // as last read
  std::uint64_t requested = 0, copied = 0;      // requests to the copy engine
  std::uint64_t messages = 0, bytes = 0;        // as in CardControl
  std::uint32_t stalled = 0;                    // mask of nodes that do not read their events
  std::uint32_t command = 0;
  torus::PutDescriptor descriptor;  // of the operation at work
  torus::PutDescriptor of_copy;     // of a copy that has ended
  struct Transfer {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::uint32_t bytes = 0;  // 0: none
    bool far = false;         // memory outside this GPU is written
    bool end = false;         // the card stops
  } transfer;
  // Buffers of the last transfer: 0 of this node, 1 of the other one. Most transfers use them again.
  torus::RegisteredBuffer recent[2];
  std::uint32_t recent_node = 0;  // the other one
  torus::RegisteredBuffer table[max_registered];
};

namespace detail {

// Registered buffer that holds [at, at + bytes), by the whole warp; into `recent`. Reasons as in the card: no
// such domain, no such range, no right.
NANET_DEVICE_CALL torus::Nack find_buffer(const torus::RegisteredBuffer* table, std::uint32_t buffers,
                                          std::uint16_t domain, std::uint64_t at, std::uint32_t bytes,
                                          std::uint8_t needed, torus::RegisteredBuffer& recent) {
  bool domain_exists = false;
  for (std::uint32_t first = 0; first < buffers; first += lanes) {
    const torus::RegisteredBuffer& buffer = table[first + lane()];
    const bool inside = buffer.valid != 0 && buffer.domain == domain;
    domain_exists |= ballot(inside) != 0;
    if (const std::uint32_t found = ballot(inside && buffer.holds(at, bytes)); found != 0) {
      if (leads()) recent = table[first + lowest_bit(found)];
      sync_warp();
      return needed == 0 || (recent.rights & needed) != 0 ? torus::Nack::none : torus::Nack::no_right;
    }
  }
  return domain_exists ? torus::Nack::out_of_range : torus::Nack::bad_domain;
}

// Entries of the ring that a descriptor takes. Too long an inline payload is not posted: it takes none.
NANET_DEVICE_CODE unsigned entries_of(const torus::PutDescriptor& d) {
  return (d.flags & torus::put_flag::inline_payload) != 0 && d.bytes > torus::max_inline_bytes
             ? 1
             : torus::put_entries(d);
}

// Reason that needs no table. Order of the checks: rdma_tx of the gateware.
NANET_DEVICE_CODE torus::Nack check_descriptor(const torus::PutDescriptor& d, std::uint32_t nodes) {
  using torus::Nack;
  using torus::PacketType;
  const auto type = static_cast<PacketType>(d.type);
  const bool in_ring = (d.flags & torus::put_flag::inline_payload) != 0;
  if (type != PacketType::put && type != PacketType::get && type != PacketType::send) return Nack::bad_type;
  if (in_ring && (d.bytes > torus::max_inline_bytes || type == PacketType::get)) return Nack::bad_length;
  if (type == PacketType::send && d.bytes > torus::max_payload_bytes) return Nack::bad_length;
  if (d.node >= nodes) return Nack::out_of_lattice;  // nodes (n, 0, 0): the packed form is n
  if (d.port > 15 || type == PacketType::send) return Nack::bad_port;  // no port has receive slots
  constexpr std::uint64_t end = std::uint64_t{1} << 48;
  if (d.remote_address >= end || d.bytes > end - d.remote_address) return Nack::out_of_range;
  if (!in_ring && d.local_address >= end) return Nack::out_of_range;
  return Nack::none;
}

// Whether the operation at work needs no check but this: a put or get between the buffers used last. Even
// lanes compare this end, odd ones the other, without branches. First warp.
NANET_DEVICE_CODE bool is_usual(const CardState& state, const torus::PutDescriptor& d) {
  using torus::PacketType;
  const bool put = d.type == static_cast<std::uint8_t>(PacketType::put);
  const bool get = d.type == static_cast<std::uint8_t>(PacketType::get);
  const bool in_ring = (d.flags & torus::put_flag::inline_payload) != 0;
  bool fits = (d.port <= 15) & (d.node == state.recent_node) &
              ((put & (!in_ring | (d.bytes <= torus::max_inline_bytes))) | (get & !in_ring));
  for (unsigned end = lane() & (lanes > 1 ? 1 : 0); end < 2; end += lanes) {
    const torus::RegisteredBuffer& buffer = state.recent[end];
    const std::uint64_t at = end == 0 ? d.local_address : d.remote_address;
    const std::uint16_t domain = end == 0 ? d.local_domain : d.remote_domain;
    const std::uint8_t needed = put ? torus::right::remote_write : torus::right::remote_read;
    const bool right = (end == 0) | ((buffer.rights & needed) != 0);
    const bool inside =
        (at >= buffer.address) & (d.bytes <= buffer.bytes) & (at - buffer.address <= buffer.bytes - d.bytes);
    fits &= ((end == 0) & in_ring) | ((buffer.valid != 0) & (buffer.domain == domain) & right & inside);
  }
  return ballot(!fits) == 0;
}

// Checks `state.descriptor` and finds the buffers of both ends, into `recent`. First warp.
NANET_DEVICE_CALL torus::Nack search(const EmulatedCard& card, CardState& state) {
  const torus::PutDescriptor& d = state.descriptor;
  torus::Nack reason = check_descriptor(d, card.nodes);
  const bool put = d.type == static_cast<std::uint8_t>(torus::PacketType::put);
  if (reason == torus::Nack::none && d.bytes != 0 && (d.flags & torus::put_flag::inline_payload) == 0)
    reason = find_buffer(state.table + card.node * card.buffers, card.buffers, d.local_domain,
                         d.local_address, d.bytes, 0, state.recent[0]);
  if (reason != torus::Nack::none) return reason;
  if (leads()) {
    state.recent[1].valid = 0;  // it may be a buffer of another node
    state.recent_node = d.node;
  }
  sync_warp();
  return find_buffer(state.table + d.node * card.buffers, card.buffers, d.remote_domain, d.remote_address,
                     d.bytes, put ? torus::right::remote_write : torus::right::remote_read, state.recent[1]);
}

// Checks `state.descriptor` and finds both ends of its transfer. First warp.
NANET_DEVICE_CODE torus::Nack resolve(const EmulatedCard& card, CardState& state,
                                      const torus::PutDescriptor& d, CardState::Transfer& transfer) {
  const torus::Nack reason = is_usual(state, d) ? torus::Nack::none : search(card, state);
  const bool put = d.type == static_cast<std::uint8_t>(torus::PacketType::put);
  auto* const local = reinterpret_cast<std::byte*>(d.local_address);
  auto* const remote = reinterpret_cast<std::byte*>(d.remote_address);
  transfer.to = put ? remote : local;
  transfer.from = put ? local : remote;
  transfer.bytes = d.bytes;
  transfer.far =
      reason == torus::Nack::none && d.bytes != 0 && state.recent[put ? 1 : 0].memory != card.memory;
  return reason;
}

// Whether the queue of a node has room; waits for it, once for a node that reads no events. The leader alone.
NANET_DEVICE_CODE bool has_room(const EmulatedCard& card, CardState& state, std::uint32_t node) {
  const std::uint64_t written = state.written[node];
  if (written - state.finished[node] < card.events) return true;
  const std::uint32_t bit = 1u << node;
  std::int64_t until = 0;
  for (;;) {
    state.finished[node] = Access::acquire(*card.peer[node].finished);
    if (written - state.finished[node] < card.events) {
      state.stalled &= ~bit;
      return true;
    }
    if ((state.stalled & bit) != 0) return false;
    const std::int64_t now = card_time();
    if (until == 0) until = now + card.patience;
    if (now >= until || (Access::acquire(card.control->command) & 1) != 0) state.stalled |= bit;
    pause_poll();
  }
}

// Ends the operation at `state.done`: events, counters, ring. The leader alone, after all bytes were stored.
NANET_DEVICE_CODE void complete(const EmulatedCard& card, CardState& state,
                                const torus::PutDescriptor& descriptor, torus::Nack reason, bool far) {
  const torus::PutDescriptor& d = in_registers(descriptor);
  CardControl& control = *card.control;
  const bool put = d.type == static_cast<std::uint8_t>(torus::PacketType::put);
  contract::Event e;
  e.time_ns = static_cast<std::uint64_t>(card_time());
  e.stream = d.port;
  e.n = d.message;
  bool at_peer = reason == torus::Nack::none && put && (d.flags & torus::put_flag::notify) != 0;
  if (at_peer && !has_room(card, state, d.node)) {
    at_peer = false;
    reason = torus::Nack::timed_out;  // the data is in place, its event is not
  }
  const bool fine = reason == torus::Nack::none;
  bool here = !fine || (d.flags & torus::put_flag::completed) != 0;
  const std::uint32_t mask = card.events - 1;
  contract::Event* at_peer_entry = nullptr;
  std::uint32_t peer_lap = 0;
  if (at_peer) {
    const std::uint64_t k = state.written[d.node]++;
    at_peer_entry = &card.peer[d.node].queue[static_cast<std::uint32_t>(k) & mask];
    peer_lap = lap_of(k, card.events);
    e.type = static_cast<std::uint8_t>(torus::EventType::put_arrived);
    e.buffer = d.immediate;
    // Of the last packet: a message is cut where the address is a multiple of the largest payload.
    const auto end = static_cast<std::uint32_t>((d.remote_address + d.bytes) % torus::max_payload_bytes);
    const std::uint32_t last = end != 0 ? end : static_cast<std::uint32_t>(torus::max_payload_bytes);
    e.bytes = d.bytes < last ? d.bytes : last;
    e.frame = std::uint32_t{d.remote_domain} << 16 | card.node;
    write_event(*at_peer_entry, e);
    far |= card.peer[d.node].far;
  }
  if (here && !has_room(card, state, card.node)) {
    here = false;
    Access::relax(control.events_lost, control.events_lost + 1);
  }
  contract::Event* own_entry = nullptr;
  std::uint32_t own_lap = 0;
  if (here) {
    const std::uint64_t k = state.written[card.node]++;
    own_entry = &card.peer[card.node].queue[static_cast<std::uint32_t>(k) & mask];
    own_lap = lap_of(k, card.events);
    e.type = static_cast<std::uint8_t>(fine ? torus::EventType::completed : torus::EventType::failed);
    e.stream = 0;
    e.flags = static_cast<std::uint16_t>(reason);
    e.buffer = d.type;
    e.bytes = d.bytes;
    e.frame = std::uint32_t{d.remote_domain} << 16 | d.node;
    write_event(*own_entry, e);
  }
  if (!fine) {
    std::uint64_t& count = control.reasons[static_cast<unsigned>(reason)];
    Access::relax(count, count + 1);
    Access::relax(control.refused, control.refused + 1);
  }
  state.done += entries_of(d);
  card_fence(far);
  if (at_peer_entry != nullptr) publish_event(*at_peer_entry, e, peer_lap);
  if (own_entry != nullptr) publish_event(*own_entry, e, own_lap);
  publish(control.done, state.done);
  if (fine) {
    Access::relax(control.messages, ++state.messages);
    Access::relax(control.bytes, state.bytes += d.bytes);
  }
}

// Requests a copy by the copy engine, in order. The leader alone.
NANET_DEVICE_CALL void request_copy(const EmulatedCard& card, CardState& state, std::byte* to,
                                    const std::byte* from, std::uint32_t bytes) {
  const std::uint64_t k = state.requested++;
  CopyRequest& request = card.copies[static_cast<std::uint32_t>(k) & (copy_requests - 1)];
  request.to = to;
  request.from = from;
  request.bytes = bytes;
  card_fence(true);
  publish(request.lap, lap_of(k, copy_requests));
  Access::relax(card.control->by_copy_engine, card.control->by_copy_engine + 1);
}

// Completes copies that the copy engine has finished. First warp. True: none is left.
NANET_DEVICE_CALL bool collect_copies(const EmulatedCard& card, CardState& state) {
  if (ballot(state.requested != state.copied) == 0) return true;
  const std::uint64_t finished = broadcast(Access::acquire(*card.copied));
  sync_warp();
  while (ballot(state.copied != finished) != 0) {
    read_descriptor(card.ring[static_cast<std::uint32_t>(state.done) & (card.entries - 1)], state.of_copy);
    if (leads()) {
      ++state.copied;
      complete(card, state, state.of_copy, torus::Nack::none, true);
    }
    sync_warp();
  }
  return ballot(state.requested != state.copied) == 0;
}

// Copies the table of registered buffers into the card's state. First warp.
NANET_DEVICE_CODE void load_table(const EmulatedCard& card, CardState& state) {
  constexpr std::uint32_t words = sizeof(torus::RegisteredBuffer) / sizeof(std::uint64_t);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(card.table);
  auto* const to = reinterpret_cast<std::uint64_t*>(state.table);
  for (std::uint32_t i = lane(); i < card.nodes * card.buffers * words; i += lanes)
    to[i] = Access::relaxed(from[i]);
  if (leads()) state.recent[0].valid = state.recent[1].valid = 0;
  sync_warp();
}

// Executes a command of the host, between operations. First warp. True: stop.
NANET_DEVICE_CALL bool obey(const EmulatedCard& card, CardState& state, std::uint32_t command) {
  if ((command & 1) != 0) return true;
  load_table(card, state);
  if (leads()) {
    state.command = command;
    card_fence(true);
    publish(card.control->answered, command);
  }
  sync_warp();
  return false;
}

// State of control_card() in one register, which calls keep: b0 no copy is under way, b1 the host stops the
// card, b2 the operation at work awaits complete(), b3 it wrote memory outside this GPU, b4 its transfer is
// left to the whole block, b15:8 the reason of its refusal.
namespace at_work {
inline constexpr std::uint32_t idle = 1, stopping = 2, stored = 4, far = 8, transfer = 16;
inline constexpr unsigned reason = 8;
}  // namespace at_work

// Executes the operation at `state.next` up to complete(), or requests its copy, or leaves its transfer to
// the whole block. Returns the new state. First warp.
NANET_DEVICE_CODE std::uint32_t execute(const EmulatedCard& card, CardState& state,
                                        const torus::PutDescriptor& at, std::uint32_t work) {
  read_descriptor(at, state.descriptor);
  CardState::Transfer transfer;
  unsigned n = 1;
  bool in_ring = false, fine = true;
  {
    const torus::PutDescriptor& d = in_registers(state.descriptor);
    const torus::Nack reason = resolve(card, state, d, transfer);
    work |= static_cast<std::uint32_t>(reason) << at_work::reason | (transfer.far ? at_work::far : 0);
    n = entries_of(d);
    in_ring = (d.flags & torus::put_flag::inline_payload) != 0;
    fine = reason == torus::Nack::none;
  }
  if (fine && !in_ring && transfer.bytes <= warp_copy_bytes && transfer.bytes < card.copy_engine_from &&
      (work & at_work::idle) != 0) {  // most messages
    copy_by_warp(transfer.to, transfer.from, transfer.bytes);
    if (leads()) ++state.next;
    return work | at_work::stored;
  }
  if (fine && !in_ring && card.copies != nullptr && transfer.bytes >= card.copy_engine_from) {
    while (ballot(state.requested - state.copied == copy_requests) != 0) collect_copies(card, state);
    if (leads()) {
      request_copy(card, state, transfer.to, transfer.from, transfer.bytes);
      ++state.next;
    }
    sync_warp();
    return work & at_work::stopping;
  }
  if ((work & at_work::idle) == 0)
    while (!collect_copies(card, state)) pause_poll();  // operations end in order
  work |= at_work::idle;
  const std::uint64_t first = state.next + 1;
  sync_warp();
  if (leads()) state.next += n;
  if (fine && !in_ring && transfer.bytes > warp_copy_bytes) {
    if (leads()) state.transfer = transfer;
    sync_warp();
    return work | at_work::transfer;
  }
  if (fine && !in_ring) copy_bytes(transfer.to, transfer.from, transfer.bytes, lane(), lanes);
  for (unsigned i = 1; i < n; ++i) {
    torus::PutDescriptor& entry = card.ring[static_cast<std::uint32_t>(first + i - 1) & (card.entries - 1)];
    const std::uint32_t begin = 64 * (i - 1);
    const std::uint32_t bytes = transfer.bytes - begin < 64 ? transfer.bytes - begin : 64;
    if (fine) copy_by_warp(transfer.to + begin, reinterpret_cast<const std::byte*>(&entry), bytes);
    sync_warp();
    // Payload in the place of a lap must not look like one when a descriptor comes here.
    if (leads()) Access::relax(entry.lap, std::uint32_t{0});
  }
  return work | at_work::stored;
}

// Executes operations until one needs the whole block, or the card stops. First warp.
NANET_DEVICE_CODE void control_card(const EmulatedCard& card, CardState& state) {
  constexpr unsigned polls_per_command = 32;
  std::uint32_t work = at_work::idle;
  if (ballot(state.transfer.bytes != 0) != 0) {  // moved by the whole block
    work |= at_work::stored | (state.transfer.far ? at_work::far : 0);
    sync_warp();
    if (leads()) state.transfer.bytes = 0;
  } else if (!collect_copies(card, state)) {
    work = 0;
  }
  for (unsigned poll = 1;;) {
    if ((work & at_work::stored) != 0) {
      sync_warp();
      if (leads())
        complete(card, state, state.descriptor, static_cast<torus::Nack>(work >> at_work::reason),
                 (work & at_work::far) != 0);
      sync_warp();
      work &= at_work::idle | at_work::stopping;
    }
    const std::uint64_t k = broadcast(state.next);
    const torus::PutDescriptor& entry = card.ring[static_cast<std::uint32_t>(k) & (card.entries - 1)];
    const std::uint32_t lap = lap_of(k, card.entries);
    for (;; ++poll) {
      if ((work & at_work::idle) == 0 && collect_copies(card, state)) work |= at_work::idle;
      if (poll % polls_per_command == 0 && (work & at_work::stopping) == 0) {
        const std::uint32_t command = broadcast(Access::acquire(card.control->command));
        sync_warp();
        if (command != state.command) {
          while (!collect_copies(card, state)) pause_poll();
          work |= at_work::idle;
          if (obey(card, state, command)) work |= at_work::stopping;
        }
      }
      if (ballot(acquire_lap(entry.lap) != lap) == 0) break;
      if (work == (at_work::stopping | at_work::idle)) {
        if (leads()) state.transfer.end = true;
        sync_warp();
        return;
      }
      pause_poll();
    }
    ++poll;
    work = execute(card, state, entry, work);
    if ((work & at_work::transfer) != 0) return;
  }
}

}  // namespace detail

// Runs a card until the host's stop and the end of all operations posted before. All threads of a block.
NANET_DEVICE_CODE void run_card(const EmulatedCard& card, CardState& state) {
  if (detail::first_warp()) {
    if (detail::leads()) {
      state.next = state.done = state.requested = state.copied = state.messages = state.bytes = 0;
      for (unsigned n = 0; n < max_rdma_nodes; ++n) state.written[n] = state.finished[n] = 0;
      state.stalled = state.command = 0;
      state.recent[0].valid = state.recent[1].valid = 0;
      state.transfer.bytes = 0;
      state.transfer.end = false;
    }
    detail::sync_warp();
    const std::uint32_t command = detail::broadcast(detail::Access::acquire(card.control->command));
    detail::sync_warp();
    if ((command & 1) == 0) detail::obey(card, state, command);  // else control_card() stops
  }
  for (;;) {
    if (detail::first_warp()) detail::control_card(card, state);
    detail::barrier();
    if (state.transfer.end) break;
    detail::copy_bytes(state.transfer.to, state.transfer.from, state.transfer.bytes,
                       detail::thread_of_block(), detail::threads_of_block());
    detail::barrier();
  }
  if (detail::leads()) {
    detail::card_fence(true);
    detail::publish(card.control->stopped, std::uint32_t{1});
  }
}

}  // namespace nanet::gpu
