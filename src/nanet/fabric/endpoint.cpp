// SPDX-License-Identifier: Apache-2.0
// Endpoint: peers, transmission in order, answers, peers that die. Messages: messages.cpp; RMA: rma.cpp.
#include "nanet/fabric/endpoint.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "nanet/os/clock.hpp"

namespace nanet::fabric {
namespace {

constexpr Nanoseconds check_every = 20'000'000, flush_limit = 2'000'000'000;

std::uint64_t effective_caps(const fi_info& info) {
  return complete_caps(info.caps);
}

}  // namespace

Endpoint::Endpoint(Domain& owner, const fi_info& info)
    : domain(owner),
      caps_(effective_caps(info)),
      rma_ordered_(info.tx_attr != nullptr && (info.tx_attr->msg_order & rma_after_send) != 0) {
  Address wanted;
  const bool named = info.src_addr != nullptr && info.src_addrlen == sizeof wanted;
  if (named) std::memcpy(&wanted, info.src_addr, sizeof wanted);
  port_ = domain.node->open(named ? &wanted : nullptr);
  if ((caps_ & FI_RMA_EVENT) != 0) port_->refuse_direct();
}

Endpoint::~Endpoint() {
  for (Uses* const u : bound_) --*u;
  for (Matching* m : {&tagged_, &untagged_})
    while (!m->unexpected.empty()) {
      Unexpected& u = *m->unexpected.first;
      m->unexpected.remove(u);
      delete &u;
    }
  while (!claimed_.empty()) {
    Unexpected& u = *claimed_.first;
    claimed_.remove(u);
    delete &u;
  }
}

int Endpoint::set_name(const void* address, std::size_t bytes) {
  if (enabled_) return -FI_EOPBADSTATE;
  if (bytes != sizeof(Address)) return -FI_EINVAL;
  Address wanted;
  std::memcpy(&wanted, address, sizeof wanted);
  port_ = domain.node->open(&wanted);
  return 0;
}

int Endpoint::bind(fid& object, std::uint64_t flags) {
  const auto use = [this](auto& o) {
    ++o.uses;
    bound_.push_back(&o.uses);
  };
  switch (object.fclass) {
    case FI_CLASS_AV:
      if (av_ != nullptr) return -FI_EINVAL;
      av_ = static_cast<AddressVector*>(reinterpret_cast<fid_av*>(&object));
      if (&av_->domain != &domain) return -FI_EINVAL;
      use(*av_);
      return 0;
    case FI_CLASS_CQ: {
      auto* const q = static_cast<CompletionQueue*>(reinterpret_cast<fid_cq*>(&object));
      if (&q->domain != &domain || (flags & (FI_TRANSMIT | FI_RECV)) == 0) return -FI_EINVAL;
      if (((flags & FI_TRANSMIT) != 0 && tx_queue_ != nullptr) ||
          ((flags & FI_RECV) != 0 && rx_queue_ != nullptr))
        return -FI_EINVAL;
      if ((flags & FI_TRANSMIT) != 0) {
        tx_queue_ = q;
        tx_selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
      }
      if ((flags & FI_RECV) != 0) {
        rx_queue_ = q;
        rx_selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
      }
      use(*q);
      return 0;
    }
    case FI_CLASS_CNTR: {
      auto* const c = static_cast<Counter*>(reinterpret_cast<fid_cntr*>(&object));
      if (&c->domain != &domain) return -FI_EINVAL;
      if ((flags & FI_SEND) != 0) send_count_ = c;
      if ((flags & FI_RECV) != 0) recv_count_ = c;
      if ((flags & FI_READ) != 0) read_count_ = c;
      if ((flags & FI_WRITE) != 0) write_count_ = c;
      if ((flags & FI_REMOTE_READ) != 0) remote_read_count_ = c;
      if ((flags & FI_REMOTE_WRITE) != 0) remote_write_count_ = c;
      if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0) port_->refuse_direct();
      use(*c);
      return 0;
    }
    case FI_CLASS_EQ:
    case FI_CLASS_MR:
      return 0;
    default:
      return -FI_EINVAL;
  }
}

int Endpoint::enable() {
  if (av_ == nullptr) return -FI_ENOAV;
  if (tx_queue_ == nullptr && rx_queue_ == nullptr && send_count_ == nullptr && recv_count_ == nullptr &&
      read_count_ == nullptr && write_count_ == nullptr)
    return -FI_ENOCQ;
  enabled_ = true;
  return 0;
}

// ------------------------------------------------------------------------------------------------------
// peers

Peer& Endpoint::peer(Address address) {
  std::unique_ptr<Peer>& p = peers_[address.word()];
  if (!p) {
    p = std::make_unique<Peer>();
    p->address = address;
  }
  return *p;
}

Peer* Endpoint::peer(fi_addr_t index) {
  if (by_index_version_ != av_->version()) {
    by_index_.clear();
    by_index_version_ = av_->version();
  }
  if (index >= by_index_.size() || by_index_[index] == nullptr) {
    if (!av_->contains(index)) return nullptr;
    if (index >= by_index_.size()) by_index_.resize(index + 1);
    by_index_[index] = &peer(av_->at(index));
  }
  renew(*by_index_[index]);
  return by_index_[index];
}

// A new operation must not fail with those to the process that had the address before.
void Endpoint::renew(Peer& p) {
  if (p.channel && p.channel->replaced()) fail_peer(p, FI_ECONNRESET);
}

Channel* Endpoint::channel(Peer& p, int& error) {
  if (!p.channel) p.channel = port_->open(p.address, error);
  return p.channel.get();
}

fi_addr_t Endpoint::source(Peer& p) {
  if (p.index_version != av_->version()) {
    p.index = av_->find(p.address);
    p.index_version = av_->version();
  }
  return p.index;
}

// -------------------------------------------------------------------------------------------------
// operations

Operation& Endpoint::new_operation(Peer& p) {
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>());
    operations_.back()->index = static_cast<std::uint32_t>(operations_.size() - 1);
    free_operations_.push_back(operations_.back().get());
  }
  Operation& op = *free_operations_.back();
  free_operations_.pop_back();
  op.peer = &p;
  op.packet = {};
  op.buffer = {};
  op.owned.clear();
  op.context = nullptr;
  op.flags = 0;
  op.counter = nullptr;
  op.receive = nullptr;
  op.sent = op.received = 0;
  op.by_value = op.report = op.internal = op.answer = op.fence = op.queued = op.started = op.waiting =
      op.done = false;
  return op;
}

void Endpoint::free_operation(Operation& op) {
  if (op.exposed)
    port_->conceal(reinterpret_cast<const Span*>(op.owned.data()), op.owned.size() / sizeof(Span));
  op.exposed = op.native = false;
  ++op.generation;  // answers that still arrive find nothing
  op.done = true;
  free_operations_.push_back(&op);
}

void Endpoint::expect_answer(Operation& op) {
  op.answer = true;
  op.packet.token = op.token();
}

// Operation that an answer of this peer names; nullptr if there is none.
Operation* Endpoint::answered(std::uint64_t token, const Peer& p) {
  const std::size_t index = token & 0xffff'ffff;
  if (index >= operations_.size()) return nullptr;
  Operation& op = *operations_[index];
  return op.token() == token && !op.done && op.answer && op.peer == &p ? &op : nullptr;
}

// Starts an operation: sends it, or queues it behind earlier ones.
ssize_t Endpoint::submit(Operation& op) {
  Peer& p = *op.peer;
  List<Operation>& queue = op.internal ? p.replies : p.requests;
  op.queued = true;
  queue.push(op);
  ++queued_;
  if (!p.active) {
    p.active = true;
    active_.push_back(&p);
  }
  push(p);
  return 0;
}

// True: all packets of the operation are sent.
bool Endpoint::transmit(Operation& op) {
  int error = EHOSTUNREACH;
  Channel* const way = channel(*op.peer, error);
  if (way == nullptr) {
    op.queued = false;
    fail(op, error);
    return true;
  }
  if (op.packet.kind == Kind::put || op.packet.kind == Kind::data) {
    if (!transmit_fragments(op, *way)) return false;
  } else {
    std::byte* const at = way->reserve(op.packet.bytes);
    if (at == nullptr) return false;
    std::memcpy(at, &op.packet, sizeof op.packet);
    if (op.by_value)
      std::copy(op.owned.begin(), op.owned.end(), at + sizeof op.packet);
    else
      op.buffer.gather(0, at + sizeof op.packet, op.packet.bytes);
    way->commit();
  }
  op.queued = false;
  sent(op);
  return true;
}

bool Endpoint::transmit_fragments(Operation& op, Channel& way) {
  do {
    const std::size_t bytes = std::min<std::size_t>(op.packet.total - op.sent, eager_bytes);
    std::byte* const at = way.reserve(bytes);
    if (at == nullptr) return false;
    op.started = true;
    op.packet.bytes = static_cast<std::uint32_t>(bytes);
    op.packet.offset = op.sent;
    if (op.sent + bytes == op.packet.total) op.packet.flags |= packet_flag::last;
    std::memcpy(at, &op.packet, sizeof op.packet);
    if (op.by_value)
      std::copy_n(op.owned.data() + op.sent, bytes, at + sizeof op.packet);
    else
      op.buffer.gather(op.sent, at + sizeof op.packet, bytes);
    way.commit();
    op.sent += bytes;
  } while (op.sent < op.packet.total);
  return true;
}

// Counts an operation that waits for an answer, in or out.
void Endpoint::count_waiting(Operation& op, unsigned n) {
  op.waiting = n == 1;
  op.peer->waiting += n;
  waiting_ += static_cast<std::size_t>(static_cast<int>(n));
  if (op.native)
    op.peer->reads += op.packet.kind == Kind::read ? n : 0;
  else if (op.packet.kind == Kind::put || op.packet.kind == Kind::read || op.packet.kind == Kind::atomic)
    op.peer->remote += n;
}

// The last packet has left.
void Endpoint::sent(Operation& op) {
  op.started = true;
  if (op.answer) return count_waiting(op, 1);
  if (op.internal)
    free_operation(op);
  else
    complete(op);
}

// Sends what credit allows. False: nothing was sent.
bool Endpoint::push(Peer& p) {
  bool any = false;
  // Each answer is tried once: a large one that waits for credit must not hold up the others.
  for (const Operation* refused = nullptr; !p.replies.empty() && p.replies.first != refused;) {
    Operation& op = *p.replies.first;
    const std::size_t before = op.sent;
    p.replies.remove(op);
    --queued_;
    if (transmit(op)) {
      any = true;
      continue;
    }
    any |= op.sent != before;
    ++queued_;
    p.replies.push(op);
    if (refused == nullptr) refused = &op;
  }
  while (!p.requests.empty()) {
    Operation& op = *p.requests.first;
    if (op.fence && p.waiting > 0) break;
    op.fence = false;
    p.requests.remove(op);
    --queued_;
    if (transmit(op)) {
      any = true;
      continue;
    }
    ++queued_;
    op.previous = nullptr;
    op.next = p.requests.first;
    (op.next != nullptr ? op.next->previous : p.requests.last) = &op;
    p.requests.first = &op;
    break;
  }
  return any;
}

void Endpoint::reply(Peer& p, const Packet& packet) {
  int error = 0;
  renew(p);
  Channel* const way = channel(p, error);
  if (way == nullptr) return;  // the peer has died: no process waits for the answer
  if (p.replies.empty()) {
    if (std::byte* const at = way->reserve(0); at != nullptr) {
      std::memcpy(at, &packet, sizeof packet);
      way->commit();
      return;
    }
  }
  Operation& op = new_operation(p);
  op.packet = packet;
  op.internal = true;
  submit(op);
}

// ------------------------------------------------------------------------------------------------
// completions

void Endpoint::complete(Operation& op) {
  if (op.counter != nullptr) op.counter->add();
  if (op.report && tx_queue_ != nullptr)
    tx_queue_->add({{op.context, op.flags, 0, nullptr, 0, 0}, FI_ADDR_NOTAVAIL});
  if (op.waiting) count_waiting(op, ~0u);
  free_operation(op);
}

void Endpoint::report_error(Operation& op, int error) {
  if (op.counter != nullptr) op.counter->add_error();
  if (tx_queue_ == nullptr) return;
  CompletionError e = {};
  e.entry.op_context = op.context;
  e.entry.flags = op.flags;
  e.entry.tag = op.packet.kind == Kind::eager || op.packet.kind == Kind::request ? op.packet.tag : 0;
  e.entry.err = e.entry.prov_errno = error;
  e.source = FI_ADDR_NOTAVAIL;
  tx_queue_->add_error(e);
}

void Endpoint::fail(Operation& op, int error) {
  if (op.receive != nullptr) {
    Receive& r = *op.receive;
    op.receive = nullptr;
    finish(r, *op.peer, op.message, error);
  } else if (!op.internal) {
    report_error(op, error);
  }
  if (op.waiting) count_waiting(op, ~0u);
  free_operation(op);
}

void Endpoint::fail_peer(Peer& p, int error) {
  for (List<Operation>* queue : {&p.replies, &p.requests})
    while (!queue->empty()) {
      Operation& op = *queue->first;
      queue->remove(op);
      --queued_;
      fail(op, error);
    }
  for (std::size_t i = 0; i < operations_.size() && p.waiting > 0; ++i) {
    Operation& op = *operations_[i];
    if (op.done || !op.answer || op.peer != &p) continue;
    if (op.native) port_->abandon(op.token());
    fail(op, error);
  }
  p.channel.reset();
}

void Endpoint::check_peers() {
  std::vector<Peer*> busy;
  for (auto& [word, p] : peers_)
    if (p->channel && (p->waiting > 0 || !p->requests.empty() || !p->replies.empty()))
      busy.push_back(p.get());
  for (Peer* const p : busy) {
    if (p->channel->alive()) continue;
    while (port_->poll(*this) > 0) {  // answers that arrived before the death
    }
    fail_peer(*p, FI_ECONNRESET);
  }
}

// End of a transfer by the backend.
void Endpoint::transferred(std::uint64_t token, Direct result) {
  const std::size_t index = token & 0xffff'ffff;
  if (index >= operations_.size()) return;
  Operation& op = *operations_[index];
  if (op.token() != token || op.done || !op.native) return;
  Peer& p = *op.peer;
  count_waiting(op, ~0u);
  op.native = false;
  if (result != Direct::done) {  // the target decides, with packets
    submit(op);
  } else if (op.receive != nullptr) {
    Receive& r = *op.receive;
    op.receive = nullptr;
    acknowledge(p, op.message);
    finish(r, p, op.message, 0);
    free_operation(op);
  } else {
    complete(op);
  }
  if (!p.requests.empty()) push(p);  // behind a fence
}

// The network has ended.
void Endpoint::lost(int error) {
  lost_ = error;
  for (auto& [word, p] : peers_) fail_peer(*p, error);
  fail_posted(error);
}

// -----------------------------------------------------------------------------------------------------
// progress

bool Endpoint::progress() {
  if (!enabled_) return false;
  bool any = port_->poll(*this) > 0;
  for (std::size_t i = 0; i < active_.size();) {
    Peer& p = *active_[i];
    any |= push(p);
    if (p.requests.empty() && p.replies.empty()) {
      p.active = false;
      active_[i] = active_.back();
      active_.pop_back();
    } else {
      ++i;
    }
  }
  if (waiting_ + queued_ > 0 && ++ticks_ % 16 == 0) {
    const Nanoseconds now = os::monotonic_now();
    if (now - checked_ > check_every) {
      checked_ = now;
      check_peers();
    }
  }
  return any;
}

void Endpoint::flush() {
  const Nanoseconds end = os::monotonic_now() + flush_limit;
  while (queued_ > 0 && os::monotonic_now() < end) {
    if (!progress()) sched_yield();
  }
}

void Endpoint::receive(unsigned link, Address from, const Packet& packet, const std::byte* payload) {
  if (link >= by_link_.size()) by_link_.resize(link + 1);
  if (by_link_[link] == nullptr || !(by_link_[link]->address == from)) by_link_[link] = &peer(from);
  Peer& p = *by_link_[link];
  switch (packet.kind) {
    case Kind::none:
      return;
    case Kind::eager:
    case Kind::request:
      return message(p, packet, payload);
    case Kind::finished:
    case Kind::ack: {
      Operation* const op = answered(packet.answer, p);
      if (op == nullptr || op->queued) return;
      if (packet.total == 0)
        complete(*op);
      else
        fail(*op, static_cast<int>(packet.total));
      if (!p.requests.empty()) push(p);  // behind a fence
      return;
    }
    case Kind::get: {
      Operation* const op = answered(packet.answer, p);
      if (op == nullptr || op->packet.kind != Kind::request) return;
      Operation& stream = new_operation(p);
      stream.packet.kind = Kind::data;
      stream.packet.answer = packet.token;
      stream.packet.total = std::min<std::uint64_t>(packet.total, op->buffer.bytes);
      stream.buffer = op->buffer;
      stream.internal = true;
      submit(stream);
      return;
    }
    case Kind::data:
      return data(p, packet, payload);
    case Kind::put:
      return put(p, packet, payload);
    case Kind::read:
      return read(p, packet);
    case Kind::atomic:
      return execute(p, packet, payload);
    case Kind::immediate:
      return remote_data(p, packet);
  }
}

}  // namespace nanet::fabric
