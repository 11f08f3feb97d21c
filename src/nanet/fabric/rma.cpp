// SPDX-License-Identifier: Apache-2.0
// RMA of an endpoint: direct where the backend can, otherwise by packets that the target's provider executes.
#include <algorithm>
#include <cerrno>

#include "nanet/fabric/atomics.hpp"
#include "nanet/fabric/endpoint.hpp"

namespace nanet::fabric {
namespace {

std::uint64_t rma_flags(bool write) {
  return FI_RMA | (write ? FI_WRITE : FI_READ);
}

Packet status_packet(const Packet& request, int error) {
  Packet p;
  p.kind = Kind::ack;
  p.answer = request.token;
  p.total = static_cast<std::uint64_t>(error);
  return p;
}

}  // namespace

// Tries direct access. False: packets must carry the operation.
bool Endpoint::direct(const Rma& r, Peer& to, std::uint64_t token, Direct& result) {
  // Earlier operations that travel as packets must not be overtaken; nor must reads by a write.
  if (rma_ordered_ || !to.requests.empty() || to.remote > 0 || (r.write && to.reads > 0)) return false;
  if ((r.flags & FI_FENCE) != 0 && to.waiting > 0) return false;
  int error = 0;
  Channel* const way = channel(to, error);
  if (way == nullptr) return false;
  result = way->rma(r.write, r.buffer.iov.data(), r.buffer.count, r.key, r.address, r.buffer.bytes, token);
  return result != Direct::unavailable && result != Direct::no_key;
}

ssize_t Endpoint::rma(const Rma& r) {
  if (!enabled_) return -FI_EOPBADSTATE;
  Peer* const p = peer(r.to);
  if (p == nullptr) return -FI_EINVAL;
  const bool inject = r.inject || (r.flags & FI_INJECT) != 0;
  if (r.buffer.bytes > (inject ? inject_bytes : max_message)) return -FI_EMSGSIZE;
  if (full()) {
    progress();
    if (full()) return -FI_EAGAIN;
  }
  Operation& op = new_operation(*p);
  op.context = r.inject ? nullptr : r.context;
  op.flags = rma_flags(r.write);
  op.report = !r.inject && wants_report(r.flags);
  op.counter = r.write ? write_count_ : read_count_;
  op.fence = (r.flags & FI_FENCE) != 0 || (r.write && p->reads > 0);
  op.packet.kind = r.write ? Kind::put : Kind::read;
  op.packet.flags = r.has_data ? packet_flag::data : 0;
  op.packet.tag = r.key;
  op.packet.data = r.data;
  op.packet.total = r.buffer.bytes;
  op.packet.address = r.address;
  Buffer buffer = r.buffer;
  if (inject && r.write) {
    op.owned.resize(r.buffer.bytes);
    r.buffer.gather(0, op.owned.data(), r.buffer.bytes);
    op.by_value = true;
    buffer = Buffer(op.owned.data(), op.owned.size());
  }
  op.buffer = buffer;
  Rma transfer = r;
  transfer.buffer = buffer;
  Direct result = Direct::unavailable;
  if (direct(transfer, *p, op.token(), result)) {
    if (result == Direct::done && r.has_data) {
      op.packet.kind = Kind::immediate;
      op.by_value = false;
      op.packet.bytes = 0;
      return submit(op);
    }
    switch (result) {
      case Direct::done:
        complete(op);
        break;
      case Direct::pending:
        expect_answer(op);
        op.native = op.started = true;
        count_waiting(op, 1);
        break;
      case Direct::no_right:
        fail(op, FI_EACCES);
        break;
      case Direct::out_of_bounds:
        fail(op, FI_EINVAL);
        break;
      case Direct::gone:
        fail(op, FI_ECONNRESET);
        break;
      default:
        fail(op, FI_EFAULT);
    }
    return 0;
  }
  expect_answer(op);
  return submit(op);
}

// ---------------------------------------------------------------------------------------------------- the
// target

void Endpoint::count_remote(const MemoryRegion* region, std::uint64_t right) {
  Counter* const own = right == FI_REMOTE_READ ? remote_read_count_ : remote_write_count_;
  if (own != nullptr) own->add();
  if (region == nullptr) return;
  for (const auto& [counter, rights] : region->counters)
    if ((rights & right) != 0) counter->add();
}

void Endpoint::remote_data(Peer& from, const Packet& packet) {
  if (rx_queue_ != nullptr)
    rx_queue_->add(
        {{nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, packet.total, nullptr, packet.data, 0},
         source(from)});
}

void Endpoint::put(Peer& from, const Packet& packet, const std::byte* payload) {
  int error = 0;
  MemoryRegion* region = nullptr;
  std::byte* const at =
      domain.locate(packet.tag, packet.address, packet.total, FI_REMOTE_WRITE, error, &region);
  if (error == 0 && packet.offset <= packet.total && packet.bytes <= packet.total - packet.offset &&
      packet.bytes > 0)
    std::memcpy(at + packet.offset, payload, packet.bytes);
  if ((packet.flags & packet_flag::last) == 0) return;
  if (error == 0) {
    if ((packet.flags & packet_flag::data) != 0) remote_data(from, packet);
    count_remote(region, FI_REMOTE_WRITE);
  }
  reply(from, status_packet(packet, error));
}

void Endpoint::read(Peer& from, const Packet& packet) {
  int error = 0;
  MemoryRegion* region = nullptr;
  const std::byte* const at =
      domain.locate(packet.tag, packet.address, packet.total, FI_REMOTE_READ, error, &region);
  if (error != 0) return reply(from, status_packet(packet, error));
  Operation& stream = new_operation(from);
  stream.packet.kind = Kind::data;
  stream.packet.answer = packet.token;
  stream.packet.total = packet.total;
  stream.buffer = Buffer(at, packet.total);
  stream.internal = true;
  submit(stream);
  count_remote(region, FI_REMOTE_READ);
}

// Fragment of the answer to a read, an atomic operation or a rendezvous.
void Endpoint::data(Peer& from, const Packet& packet, const std::byte* payload) {
  Operation* const op = answered(packet.answer, from);
  if (op == nullptr || op->queued) return;
  op->buffer.scatter(packet.offset, payload, packet.bytes);
  op->received += packet.bytes;
  if ((packet.flags & packet_flag::last) == 0) return;
  if (op->receive != nullptr) {
    Receive& r = *op->receive;
    op->receive = nullptr;
    acknowledge(from, op->message);
    finish(r, from, op->message, 0);
  }
  if (op->internal) {
    count_waiting(*op, ~0u);
    free_operation(*op);
  } else {
    complete(*op);
  }
  if (!from.requests.empty()) push(from);
}

// -------------------------------------------------------------------------------------------- atomic
// operations

ssize_t Endpoint::atomic(const Atomic& a) {
  if (!enabled_) return -FI_EOPBADSTATE;
  Peer* const p = peer(a.to);
  if (p == nullptr) return -FI_EINVAL;
  const AtomicKind kind = a.compare ? AtomicKind::compare : a.fetch ? AtomicKind::fetch : AtomicKind::base;
  if (!atomic_valid(a.datatype, a.op, kind)) return -FI_EOPNOTSUPP;
  const std::size_t bytes = a.op == FI_ATOMIC_READ ? a.result.bytes : a.operand.bytes;
  if (bytes == 0 || bytes % datatype_bytes(a.datatype) != 0 || bytes > atomic_bytes(kind)) return -FI_EINVAL;
  if ((a.fetch || a.compare) && a.result.bytes < bytes) return -FI_EINVAL;
  if (a.compare && a.comparand.bytes < bytes) return -FI_EINVAL;
  if (full()) {
    progress();
    if (full()) return -FI_EAGAIN;
  }
  Operation& op = new_operation(*p);
  op.context = a.inject ? nullptr : a.context;
  op.flags = FI_ATOMIC | (a.fetch || a.compare ? FI_READ : FI_WRITE);
  op.report = !a.inject && wants_report(a.flags);
  op.counter = a.fetch || a.compare ? read_count_ : write_count_;
  op.fence = (a.flags & FI_FENCE) != 0 || p->reads > 0;
  op.packet.kind = Kind::atomic;
  op.packet.flags = static_cast<std::uint8_t>((a.compare ? packet_flag::compare : 0) |
                                              (a.fetch || a.compare ? packet_flag::fetch : 0));
  op.packet.datatype = static_cast<std::uint8_t>(a.datatype);
  op.packet.op = static_cast<std::uint8_t>(a.op);
  op.packet.tag = a.key;
  op.packet.address = a.address;
  op.packet.total = bytes;
  const std::size_t operand = a.op == FI_ATOMIC_READ ? 0 : bytes;
  op.owned.resize(operand + (a.compare ? bytes : 0));
  a.operand.gather(0, op.owned.data(), operand);
  if (a.compare) a.comparand.gather(0, op.owned.data() + operand, bytes);
  op.by_value = true;
  op.packet.bytes = static_cast<std::uint32_t>(op.owned.size());
  op.buffer = a.result;
  expect_answer(op);
  return submit(op);
}

void Endpoint::execute(Peer& from, const Packet& packet, const std::byte* payload) {
  const bool fetch = (packet.flags & packet_flag::fetch) != 0,
             compare = (packet.flags & packet_flag::compare) != 0;
  const AtomicKind kind = compare ? AtomicKind::compare : fetch ? AtomicKind::fetch : AtomicKind::base;
  const auto datatype = static_cast<fi_datatype>(packet.datatype);
  const auto op = static_cast<fi_op>(packet.op);
  int error = FI_EOPNOTSUPP;
  MemoryRegion* region = nullptr;
  std::byte* at = nullptr;
  const std::size_t operand = op == FI_ATOMIC_READ ? 0 : packet.total;
  if (atomic_valid(datatype, op, kind) && packet.total <= atomic_bytes(kind) &&
      packet.total % datatype_bytes(datatype) == 0 &&
      packet.bytes == operand + (compare ? packet.total : 0)) {
    if (op != FI_ATOMIC_READ)
      at = domain.locate(packet.tag, packet.address, packet.total, FI_REMOTE_WRITE, error, &region);
    if (error == 0 || op == FI_ATOMIC_READ)
      if (fetch) at = domain.locate(packet.tag, packet.address, packet.total, FI_REMOTE_READ, error, &region);
  }
  if (error != 0) return reply(from, status_packet(packet, error));
  if (!fetch) {
    apply_atomic(datatype, op, at, payload, nullptr, nullptr, packet.total);
    count_remote(region, FI_REMOTE_WRITE);
    return reply(from, status_packet(packet, 0));
  }
  Operation& answer = new_operation(from);
  answer.owned.resize(packet.total);
  apply_atomic(datatype, op, at, payload, payload + operand, answer.owned.data(), packet.total);
  answer.by_value = true;
  answer.packet.kind = Kind::data;
  answer.packet.answer = packet.token;
  answer.packet.total = packet.total;
  answer.internal = true;
  submit(answer);
  count_remote(region, FI_REMOTE_READ);
}

}  // namespace nanet::fabric
