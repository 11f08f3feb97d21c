// SPDX-License-Identifier: Apache-2.0
// Messages of an endpoint: sends, matching, eager and rendezvous delivery, peek, claim, cancel.
#include <algorithm>
#include <cerrno>

#include "nanet/fabric/endpoint.hpp"

namespace nanet::fabric {
namespace {

std::uint64_t kind_flag(bool tagged) {
  return tagged ? FI_TAGGED : FI_MSG;
}
bool is_tagged(const Packet& packet) {
  return (packet.flags & packet_flag::tagged) != 0;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------
// send

ssize_t Endpoint::send(const Outgoing& m) {
  if (!enabled_) return -FI_EOPBADSTATE;
  Peer* const p = peer(m.to);
  if (p == nullptr) return -FI_EINVAL;
  const bool inject = m.inject || (m.flags & FI_INJECT) != 0;
  if (inject && m.buffer.bytes > inject_bytes) return -FI_EMSGSIZE;
  if (m.buffer.bytes > max_message) return -FI_EMSGSIZE;

  Packet packet;
  packet.kind = m.buffer.bytes > eager_bytes ? Kind::request : Kind::eager;
  packet.flags =
      static_cast<std::uint8_t>((m.tagged ? packet_flag::tagged : 0) | (m.has_data ? packet_flag::data : 0));
  packet.tag = m.tag;
  packet.data = m.data;
  packet.total = m.buffer.bytes;
  const std::uint64_t level = m.flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
  const bool report = !m.inject && wants_report(m.flags);
  const std::uint64_t flags = FI_SEND | kind_flag(m.tagged);

  if (packet.kind == Kind::eager && level == 0 && p->requests.empty() && p->channel) {
    // Shortest way: no record of the operation.
    if ((m.flags & FI_FENCE) == 0 || p->waiting == 0) {
      if (std::byte* const at = p->channel->reserve(m.buffer.bytes); at != nullptr) {
        packet.bytes = static_cast<std::uint32_t>(m.buffer.bytes);
        std::memcpy(at, &packet, sizeof packet);
        m.buffer.gather(0, at + sizeof packet, m.buffer.bytes);
        p->channel->commit();
        if (send_count_ != nullptr) send_count_->add();
        if (report && tx_queue_ != nullptr)
          tx_queue_->add({{m.context, flags, 0, nullptr, 0, 0}, FI_ADDR_NOTAVAIL});
        return 0;
      }
    }
  }
  if (full()) {
    progress();
    if (full()) return -FI_EAGAIN;
  }
  Operation& op = new_operation(*p);
  op.packet = packet;
  op.context = m.inject ? nullptr : m.context;
  op.flags = flags;
  op.report = report;
  op.counter = send_count_;
  op.fence = (m.flags & FI_FENCE) != 0;
  op.buffer = m.buffer;
  if (packet.kind == Kind::request) {
    std::array<Span, max_iov> spans;
    op.exposed = port_->expose(m.buffer.iov.data(), m.buffer.count, spans.data());
    const auto* const at = reinterpret_cast<const std::byte*>(spans.data());
    op.owned.assign(at, at + sizeof(Span) * m.buffer.count);
    op.by_value = true;
    op.packet.bytes = static_cast<std::uint32_t>(op.owned.size());
    expect_answer(op);
  } else {
    op.packet.bytes = static_cast<std::uint32_t>(m.buffer.bytes);
    if (inject) {
      op.owned.resize(m.buffer.bytes);
      m.buffer.gather(0, op.owned.data(), m.buffer.bytes);
      op.by_value = true;
    }
    if (level != 0) {
      op.packet.flags |= (level & FI_MATCH_COMPLETE) != 0 ? packet_flag::matched : packet_flag::placed;
      expect_answer(op);
    }
  }
  return submit(op);
}

// -----------------------------------------------------------------------------------------------------
// matching

bool Endpoint::matches(const Receive& r, const Peer& from, const Packet& packet) const {
  return (!r.tagged || ((r.tag ^ packet.tag) & ~r.ignore) == 0) &&
         (r.any_source || r.source == from.address.word());
}

Receive& Endpoint::new_receive(const Incoming& wanted) {
  if (free_receives_.empty()) {
    receives_.push_back(std::make_unique<Receive>());
    free_receives_.push_back(receives_.back().get());
  }
  Receive& r = *free_receives_.back();
  free_receives_.pop_back();
  r = {};
  r.buffer = wanted.buffer;
  r.tag = wanted.tag;
  r.ignore = wanted.ignore;
  r.context = wanted.context;
  r.tagged = wanted.tagged;
  r.report = !rx_selective_ || (wanted.flags & FI_COMPLETION) != 0;
  r.multi = (wanted.flags & FI_MULTI_RECV) != 0;
  r.any_source = (caps_ & FI_DIRECTED_RECV) == 0 || wanted.from == FI_ADDR_UNSPEC;
  if (!r.any_source) r.source = av_->at(wanted.from).word();
  return r;
}

void Endpoint::free_receive(Receive& r) {
  free_receives_.push_back(&r);
}

void Endpoint::free_unexpected(Unexpected& u) {
  delete &u;
}

// Removes the receive that takes the message from the posted ones; for multi-receive returns a part.
Receive* Endpoint::take(Receive& posted, const Packet& packet) {
  Matching& side = posted.tagged ? tagged_ : untagged_;
  if (!posted.multi) {
    side.posted.remove(posted);
    return &posted;
  }
  Incoming wanted;
  wanted.tagged = posted.tagged;
  Receive& part = new_receive(wanted);
  part.context = posted.context;
  part.report = posted.report;
  part.whole = &posted;
  const std::size_t room = posted.buffer.bytes - posted.used;
  part.buffer = Buffer(posted.buffer.first() + posted.used, std::min<std::size_t>(room, packet.total));
  posted.used += part.buffer.bytes;
  ++posted.parts;
  if (posted.buffer.bytes - posted.used < std::max<std::size_t>(min_multi_recv, 1)) {
    posted.used_up = true;
    side.posted.remove(posted);
  }
  return &part;
}

Receive* Endpoint::match(Peer& from, const Packet& packet) {
  Matching& side = is_tagged(packet) ? tagged_ : untagged_;
  for (Receive* r = side.posted.first; r != nullptr; r = r->next)
    if (matches(*r, from, packet)) return take(*r, packet);
  return nullptr;
}

void Endpoint::message(Peer& from, const Packet& packet, const std::byte* payload) {
  if (packet.kind == Kind::eager && packet.total != packet.bytes) return;  // not from this provider
  if (Receive* const r = match(from, packet); r != nullptr) return deliver(*r, from, packet, payload);
  auto* const u = new Unexpected;
  u->from = &from;
  u->packet = packet;
  if (packet.bytes > 0) {
    u->payload = std::make_unique_for_overwrite<std::byte[]>(packet.bytes);
    std::memcpy(u->payload.get(), payload, packet.bytes);
  }
  (is_tagged(packet) ? tagged_ : untagged_).unexpected.push(*u);
}

// -----------------------------------------------------------------------------------------------------
// delivery

void Endpoint::acknowledge(Peer& to, const Packet& packet, int error) {
  if (packet.kind == Kind::eager && (packet.flags & (packet_flag::placed | packet_flag::matched)) == 0)
    return;
  Packet answer;
  answer.kind = Kind::finished;
  answer.answer = packet.token;
  answer.total = static_cast<std::uint64_t>(error);
  reply(to, answer);
}

void Endpoint::deliver(Receive& r, Peer& from, const Packet& packet, const std::byte* payload) {
  if (packet.kind == Kind::request) return fetch(r, from, packet, payload);
  r.buffer.scatter(0, payload, std::min<std::size_t>(packet.bytes, r.buffer.bytes));
  acknowledge(from, packet);
  finish(r, from, packet, 0);
}

// Transfers the data of a rendezvous: with one copy, or by packets.
void Endpoint::fetch(Receive& r, Peer& from, const Packet& packet, const std::byte* payload) {
  std::array<Span, max_iov> spans;
  const std::size_t count = std::min<std::size_t>(packet.bytes / sizeof(Span), max_iov);
  std::memcpy(spans.data(), payload, count * sizeof(Span));
  Direct result = Direct::done;
  int error = EHOSTUNREACH;
  renew(from);
  Channel* const way = channel(from, error);
  if (way == nullptr) result = Direct::gone;
  Operation& op = new_operation(from);
  expect_answer(op);
  if (way != nullptr && r.buffer.bytes > 0)
    result = way->copy_from(r.buffer.iov.data(), r.buffer.count, spans.data(), count, op.token());
  if (result != Direct::unavailable && result != Direct::pending) free_operation(op);
  switch (result) {
    case Direct::done:
      acknowledge(from, packet);
      return finish(r, from, packet, 0);
    case Direct::unavailable:
    case Direct::pending:
      break;
    case Direct::gone:
      return finish(r, from, packet, FI_ECONNRESET);
    default:
      acknowledge(from, packet, FI_EFAULT);
      return finish(r, from, packet, FI_EFAULT);
  }
  op.packet.kind = Kind::get;
  op.packet.answer = packet.token;
  op.packet.total = std::min<std::uint64_t>(packet.total, r.buffer.bytes);
  op.receive = &r;
  op.message = packet;
  op.buffer = r.buffer;
  op.internal = true;
  if (result == Direct::unavailable) {
    submit(op);
    return;
  }
  op.native = op.started = true;
  count_waiting(op, 1);
}

// Reports a receive and frees it. error: of the transfer.
void Endpoint::finish(Receive& r, Peer& from, const Packet& packet, int error) {
  const std::size_t length = std::min<std::size_t>(packet.total, r.buffer.bytes);
  const std::size_t excess = packet.total - length;
  std::uint64_t flags = FI_RECV | kind_flag(is_tagged(packet));
  if ((packet.flags & packet_flag::data) != 0) flags |= FI_REMOTE_CQ_DATA;
  bool released = false;
  if (Receive* const whole = r.whole; whole != nullptr) {
    released = --whole->parts == 0 && whole->used_up;
    if (released) {
      flags |= FI_MULTI_RECV;
      free_receive(*whole);
    }
  }
  if (error == 0 && excess > 0) error = FI_ETRUNC;
  const fi_addr_t sender = source(from);
  const bool unknown = sender == FI_ADDR_NOTAVAIL && (caps_ & FI_SOURCE_ERR) != 0;
  if (error != 0 || unknown) {
    CompletionError e = {};
    e.entry.op_context = r.context;
    e.entry.flags = flags;
    e.entry.len = length;
    e.entry.buf = r.buffer.first();
    e.entry.data = packet.data;
    e.entry.tag = packet.tag;
    e.entry.olen = excess;
    e.entry.err = e.entry.prov_errno = error != 0 ? error : FI_EADDRNOTAVAIL;
    e.source = sender;
    if (error == 0) {
      e.address = from.address.word();
      e.entry.err_data_size = sizeof e.address;
      if (recv_count_ != nullptr) recv_count_->add();
    } else if (recv_count_ != nullptr) {
      recv_count_->add_error();
    }
    if (rx_queue_ != nullptr) rx_queue_->add_error(e);
  } else {
    if (recv_count_ != nullptr) recv_count_->add();
    if ((r.report || released) && rx_queue_ != nullptr)
      rx_queue_->add({{r.context, flags, length, r.buffer.first(), packet.data, packet.tag}, sender});
  }
  free_receive(r);
}

// ------------------------------------------------------------------------------------------------------
// receive

ssize_t Endpoint::receive(const Incoming& wanted) {
  if (!enabled_) return -FI_EOPBADSTATE;
  if ((caps_ & FI_DIRECTED_RECV) != 0 && wanted.from != FI_ADDR_UNSPEC && !av_->contains(wanted.from))
    return -FI_EINVAL;
  if ((wanted.flags & FI_PEEK) != 0) {
    progress();
    Receive& probe = new_receive(wanted);
    const ssize_t result = peek(wanted, probe);
    free_receive(probe);
    return result;
  }
  if ((wanted.flags & FI_CLAIM) != 0) return claim(wanted);
  if ((wanted.flags & FI_DISCARD) != 0) return -FI_EINVAL;
  Matching& side = wanted.tagged ? tagged_ : untagged_;
  Receive& r = new_receive(wanted);
  if (r.multi && r.buffer.count != 1) {
    free_receive(r);
    return -FI_EINVAL;
  }
  if (r.multi) {
    side.posted.push(r);
    match_multi(r);
    if (lost_ != 0) fail_posted(lost_);
    return 0;
  }
  for (Unexpected* u = side.unexpected.first; u != nullptr; u = u->next)
    if (matches(r, *u->from, u->packet)) {
      side.unexpected.remove(*u);
      deliver(r, *u->from, u->packet, u->payload.get());
      free_unexpected(*u);
      return 0;
    }
  side.posted.push(r);
  if (lost_ != 0) fail_posted(lost_);
  return 0;
}

// Moves unexpected messages into a new multi-receive buffer.
void Endpoint::match_multi(Receive& r) {
  Matching& side = r.tagged ? tagged_ : untagged_;
  for (Unexpected *u = side.unexpected.first, *next = nullptr; u != nullptr; u = next) {
    next = u->next;
    if (!matches(r, *u->from, u->packet)) continue;
    side.unexpected.remove(*u);
    Receive* const part = take(r, u->packet);
    const bool last = r.used_up;
    deliver(*part, *u->from, u->packet, u->payload.get());
    free_unexpected(*u);
    if (last) return;
  }
}

void Endpoint::discard(Unexpected& u) {
  acknowledge(*u.from, u.packet);
  free_unexpected(u);
}

ssize_t Endpoint::peek(const Incoming& wanted, Receive& probe) {
  Matching& side = wanted.tagged ? tagged_ : untagged_;
  Unexpected* u = side.unexpected.first;
  while (u != nullptr && !matches(probe, *u->from, u->packet)) u = u->next;
  if (u == nullptr) {
    CompletionError e = {};
    e.entry.op_context = wanted.context;
    e.entry.flags = FI_RECV | kind_flag(wanted.tagged);
    e.entry.tag = wanted.tag;
    e.entry.err = e.entry.prov_errno = FI_ENOMSG;
    e.source = FI_ADDR_NOTAVAIL;
    if (rx_queue_ != nullptr) rx_queue_->add_error(e);
    return 0;
  }
  std::uint64_t flags = FI_RECV | kind_flag(wanted.tagged);
  if ((u->packet.flags & packet_flag::data) != 0) flags |= FI_REMOTE_CQ_DATA;
  if (rx_queue_ != nullptr)
    rx_queue_->add(
        {{wanted.context, flags, u->packet.total, nullptr, u->packet.data, u->packet.tag}, source(*u->from)});
  if ((wanted.flags & (FI_CLAIM | FI_DISCARD)) == 0) return 0;
  side.unexpected.remove(*u);
  if ((wanted.flags & FI_DISCARD) != 0) {
    discard(*u);
  } else {
    u->claim = wanted.context;
    claimed_.push(*u);
  }
  return 0;
}

ssize_t Endpoint::claim(const Incoming& wanted) {
  Unexpected* u = claimed_.first;
  while (u != nullptr && (u->claim != wanted.context || is_tagged(u->packet) != wanted.tagged)) u = u->next;
  if (u == nullptr) return -FI_EINVAL;
  claimed_.remove(*u);
  if ((wanted.flags & FI_DISCARD) != 0) {
    std::uint64_t flags = FI_RECV | kind_flag(wanted.tagged);
    if ((u->packet.flags & packet_flag::data) != 0) flags |= FI_REMOTE_CQ_DATA;
    if (rx_queue_ != nullptr && (!rx_selective_ || (wanted.flags & FI_COMPLETION) != 0))
      rx_queue_->add({{wanted.context, flags, 0, nullptr, u->packet.data, u->packet.tag}, source(*u->from)});
    discard(*u);
    return 0;
  }
  Receive& r = new_receive(wanted);
  r.multi = false;
  deliver(r, *u->from, u->packet, u->payload.get());
  free_unexpected(*u);
  return 0;
}

// -------------------------------------------------------------------------------------------------------
// cancel

// Removes a posted receive and reports why.
void Endpoint::withdraw(Matching& side, Receive& r, int error) {
  side.posted.remove(r);
  CompletionError e = {};
  e.entry.op_context = r.context;
  e.entry.flags = FI_RECV | kind_flag(r.tagged) | (r.multi ? FI_MULTI_RECV : 0);
  e.entry.tag = r.tag;
  e.entry.err = e.entry.prov_errno = error;
  e.source = FI_ADDR_NOTAVAIL;
  if (rx_queue_ != nullptr) rx_queue_->add_error(e);
  if (r.parts == 0)
    free_receive(r);
  else
    r.used_up = true;  // its last part frees it
}

void Endpoint::fail_posted(int error) {
  for (Matching* side : {&tagged_, &untagged_})
    while (!side->posted.empty()) {
      if (recv_count_ != nullptr) recv_count_->add_error();
      withdraw(*side, *side->posted.first, error);
    }
}

ssize_t Endpoint::cancel(void* context) {
  for (Matching* side : {&tagged_, &untagged_})
    for (Receive* r = side->posted.first; r != nullptr; r = r->next) {
      if (r->context != context) continue;
      withdraw(*side, *r, FI_ECANCELED);
      return 0;
    }
  for (Peer* const p : active_)
    for (Operation* op = p->requests.first; op != nullptr; op = op->next) {
      if (op->internal || op->started || op->context != context) continue;
      p->requests.remove(*op);
      --queued_;
      fail(*op, FI_ECANCELED);
      return 0;
    }
  return -FI_ENOENT;
}

}  // namespace nanet::fabric
