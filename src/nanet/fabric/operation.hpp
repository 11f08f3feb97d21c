// SPDX-License-Identifier: Apache-2.0
// Records of the endpoint: peers, operations in flight, posted receives, unexpected messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/buffer.hpp"
#include "nanet/fabric/completion.hpp"

namespace nanet::fabric {

// Doubly linked list of objects with members next and previous; owns nothing.
template <class T>
struct List {
  T *first = nullptr, *last = nullptr;

  bool empty() const noexcept { return first == nullptr; }
  void push(T& x) noexcept {
    x.next = nullptr;
    x.previous = last;
    (last != nullptr ? last->next : first) = &x;
    last = &x;
  }
  void remove(T& x) noexcept {
    (x.previous != nullptr ? x.previous->next : first) = x.next;
    (x.next != nullptr ? x.next->previous : last) = x.previous;
    x.next = x.previous = nullptr;
  }
};

struct Peer;
struct Receive;

// Operation that waits for credit, or for an answer of its peer.
struct Operation {
  Operation *next = nullptr, *previous = nullptr;
  Peer* peer = nullptr;
  Packet packet;
  Buffer buffer;                 // payload, or destination of the answer
  std::vector<std::byte> owned;  // payload by value
  bool by_value = false;
  void* context = nullptr;
  std::uint64_t flags = 0;
  Counter* counter = nullptr;
  Receive* receive = nullptr;  // rendezvous whose data this operation fetches
  Packet message;              // of that rendezvous
  std::size_t sent = 0, received = 0;
  std::uint32_t index = 0, generation = 0;
  bool report = false, internal = false, answer = false, fence = false, queued = false, started = false,
       waiting = false, done = true;
  bool native = false;   // a pending transfer of the backend
  bool exposed = false;  // `owned` lists buffers open to the peer

  std::uint64_t token() const noexcept { return std::uint64_t{generation} << 32 | index; }
};

struct Peer {
  Address address;
  std::unique_ptr<Channel> channel;
  List<Operation> requests, replies;  // requests keep their order
  unsigned waiting = 0;               // operations that wait for an answer
  unsigned remote = 0;                // among them: RMA and atomic operations in packets
  unsigned reads = 0;                 // among them: pending transfers from the peer
  bool active = false;
  fi_addr_t index = FI_ADDR_NOTAVAIL;
  std::uint64_t index_version = 0;
};

// Posted receive, or a part of a multi-receive buffer.
struct Receive {
  Receive *next = nullptr, *previous = nullptr;
  Buffer buffer;
  std::uint64_t tag = 0, ignore = 0, source = 0;
  void* context = nullptr;
  bool any_source = true, tagged = false, report = true;
  // Multi-receive: the whole buffer counts its parts; a part points to the whole.
  bool multi = false, used_up = false;
  unsigned parts = 0;
  std::size_t used = 0;
  Receive* whole = nullptr;
};

struct Unexpected {
  Unexpected *next = nullptr, *previous = nullptr;
  Peer* from = nullptr;
  Packet packet;
  std::unique_ptr<std::byte[]> payload;
  void* claim = nullptr;
};

}  // namespace nanet::fabric
