// SPDX-License-Identifier: Apache-2.0
// Endpoint functions of libfabric: from its many forms of a call to the calls of Endpoint.
#include <cstring>
#include <new>
#include <system_error>

#include "nanet/fabric/atomics.hpp"
#include "nanet/fabric/endpoint.hpp"

namespace nanet::fabric {
namespace {

// What the application holds: an endpoint or an alias, which differs in its default flags.
struct Handle : fid_ep {
  Endpoint* endpoint = nullptr;
  std::uint64_t tx_flags = 0, rx_flags = 0;
  bool alias = false;
};

Handle& handle(fid_ep* f) {
  return *static_cast<Handle*>(f);
}
Handle& handle(fid* f) {
  return *static_cast<Handle*>(reinterpret_cast<fid_ep*>(f));
}

bool too_long(std::size_t count) {
  return count > max_iov;
}

template <class Call>
ssize_t guarded(fid_ep* f, const Call& call) noexcept try {
  Endpoint& endpoint = *handle(f).endpoint;
  const Domain::Guard guard(endpoint.domain);
  return call(endpoint);
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

// ---------------------------------------------------------------------------------------------------------
// send

ssize_t send(fid_ep* f, const Outgoing& message) {
  return guarded(f, [&](Endpoint& e) { return e.send(message); });
}

Outgoing outgoing(fid_ep* f, const Buffer& buffer, fi_addr_t to, void* context) {
  Outgoing m;
  m.buffer = buffer;
  m.to = to;
  m.context = context;
  m.flags = handle(f).tx_flags;
  return m;
}
Outgoing tagged(Outgoing m, std::uint64_t tag) {
  m.tagged = true;
  m.tag = tag;
  return m;
}
Outgoing with_data(Outgoing m, std::uint64_t data) {
  m.has_data = true;
  m.data = data;
  return m;
}
Outgoing injected(Outgoing m) {
  m.inject = true;
  m.flags = 0;
  return m;
}
Outgoing flagged(Outgoing m, std::uint64_t flags, std::uint64_t data) {
  m.flags = flags;
  if ((flags & FI_REMOTE_CQ_DATA) != 0) m = with_data(m, data);
  return m;
}

ssize_t msg_send(fid_ep* f, const void* at, std::size_t bytes, void*, fi_addr_t to, void* context) {
  return send(f, outgoing(f, {at, bytes}, to, context));
}
ssize_t msg_sendv(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t to, void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return send(f, outgoing(f, {iov, count}, to, context));
}
ssize_t msg_sendmsg(fid_ep* f, const fi_msg* m, std::uint64_t flags) {
  if (too_long(m->iov_count)) return -FI_EINVAL;
  return send(f, flagged(outgoing(f, {m->msg_iov, m->iov_count}, m->addr, m->context), flags, m->data));
}
ssize_t msg_inject(fid_ep* f, const void* at, std::size_t bytes, fi_addr_t to) {
  return send(f, injected(outgoing(f, {at, bytes}, to, nullptr)));
}
ssize_t msg_senddata(fid_ep* f, const void* at, std::size_t bytes, void*, std::uint64_t data, fi_addr_t to,
                     void* context) {
  return send(f, with_data(outgoing(f, {at, bytes}, to, context), data));
}
ssize_t msg_injectdata(fid_ep* f, const void* at, std::size_t bytes, std::uint64_t data, fi_addr_t to) {
  return send(f, injected(with_data(outgoing(f, {at, bytes}, to, nullptr), data)));
}

ssize_t tag_send(fid_ep* f, const void* at, std::size_t bytes, void*, fi_addr_t to, std::uint64_t tag,
                 void* context) {
  return send(f, tagged(outgoing(f, {at, bytes}, to, context), tag));
}
ssize_t tag_sendv(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t to, std::uint64_t tag,
                  void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return send(f, tagged(outgoing(f, {iov, count}, to, context), tag));
}
ssize_t tag_sendmsg(fid_ep* f, const fi_msg_tagged* m, std::uint64_t flags) {
  if (too_long(m->iov_count)) return -FI_EINVAL;
  return send(f, tagged(flagged(outgoing(f, {m->msg_iov, m->iov_count}, m->addr, m->context), flags, m->data),
                        m->tag));
}
ssize_t tag_inject(fid_ep* f, const void* at, std::size_t bytes, fi_addr_t to, std::uint64_t tag) {
  return send(f, tagged(injected(outgoing(f, {at, bytes}, to, nullptr)), tag));
}
ssize_t tag_senddata(fid_ep* f, const void* at, std::size_t bytes, void*, std::uint64_t data, fi_addr_t to,
                     std::uint64_t tag, void* context) {
  return send(f, tagged(with_data(outgoing(f, {at, bytes}, to, context), data), tag));
}
ssize_t tag_injectdata(fid_ep* f, const void* at, std::size_t bytes, std::uint64_t data, fi_addr_t to,
                       std::uint64_t tag) {
  return send(f, tagged(injected(with_data(outgoing(f, {at, bytes}, to, nullptr), data)), tag));
}

// ------------------------------------------------------------------------------------------------------
// receive

ssize_t receive(fid_ep* f, const Buffer& buffer, fi_addr_t from, void* context, std::uint64_t flags) {
  Incoming i;
  i.buffer = buffer;
  i.from = from;
  i.context = context;
  i.flags = flags;
  return guarded(f, [&](Endpoint& e) { return e.receive(i); });
}
ssize_t receive_tagged(fid_ep* f, const Buffer& buffer, fi_addr_t from, std::uint64_t tag,
                       std::uint64_t ignore, void* context, std::uint64_t flags) {
  Incoming i;
  i.buffer = buffer;
  i.from = from;
  i.tag = tag;
  i.ignore = ignore;
  i.context = context;
  i.flags = flags;
  i.tagged = true;
  return guarded(f, [&](Endpoint& e) { return e.receive(i); });
}

ssize_t msg_recv(fid_ep* f, void* at, std::size_t bytes, void*, fi_addr_t from, void* context) {
  return receive(f, {at, bytes}, from, context, handle(f).rx_flags);
}
ssize_t msg_recvv(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t from, void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return receive(f, {iov, count}, from, context, handle(f).rx_flags);
}
ssize_t msg_recvmsg(fid_ep* f, const fi_msg* m, std::uint64_t flags) {
  if (too_long(m->iov_count)) return -FI_EINVAL;
  return receive(f, {m->msg_iov, m->iov_count}, m->addr, m->context, flags);
}
ssize_t tag_recv(fid_ep* f, void* at, std::size_t bytes, void*, fi_addr_t from, std::uint64_t tag,
                 std::uint64_t ignore, void* context) {
  return receive_tagged(f, {at, bytes}, from, tag, ignore, context, handle(f).rx_flags & ~FI_MULTI_RECV);
}
ssize_t tag_recvv(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t from, std::uint64_t tag,
                  std::uint64_t ignore, void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return receive_tagged(f, {iov, count}, from, tag, ignore, context, handle(f).rx_flags & ~FI_MULTI_RECV);
}
ssize_t tag_recvmsg(fid_ep* f, const fi_msg_tagged* m, std::uint64_t flags) {
  if (too_long(m->iov_count)) return -FI_EINVAL;
  return receive_tagged(f, {m->msg_iov, m->iov_count}, m->addr, m->tag, m->ignore, m->context, flags);
}

fi_ops_msg msg_ops = {sizeof(fi_ops_msg), msg_recv,    msg_recvv,  msg_recvmsg,  msg_send,
                      msg_sendv,          msg_sendmsg, msg_inject, msg_senddata, msg_injectdata};
fi_ops_tagged tagged_ops = {
    sizeof(fi_ops_tagged), tag_recv,   tag_recvv,    tag_recvmsg,   tag_send, tag_sendv,
    tag_sendmsg,           tag_inject, tag_senddata, tag_injectdata};

// ----------------------------------------------------------------------------------------------------------
// RMA

ssize_t rma(fid_ep* f, const Rma& r) {
  return guarded(f, [&](Endpoint& e) { return e.rma(r); });
}

Rma transfer(fid_ep* f, bool write, const Buffer& buffer, fi_addr_t to, std::uint64_t address,
             std::uint64_t key, void* context) {
  Rma r;
  r.write = write;
  r.buffer = buffer;
  r.to = to;
  r.address = address;
  r.key = key;
  r.context = context;
  r.flags = handle(f).tx_flags;
  return r;
}

ssize_t rma_read(fid_ep* f, void* at, std::size_t bytes, void*, fi_addr_t to, std::uint64_t address,
                 std::uint64_t key, void* context) {
  return rma(f, transfer(f, false, {at, bytes}, to, address, key, context));
}
ssize_t rma_readv(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t to, std::uint64_t address,
                  std::uint64_t key, void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return rma(f, transfer(f, false, {iov, count}, to, address, key, context));
}
ssize_t rma_message(fid_ep* f, bool write, const fi_msg_rma* m, std::uint64_t flags) {
  if (too_long(m->iov_count) || m->rma_iov_count != 1) return -FI_EINVAL;
  Rma r =
      transfer(f, write, {m->msg_iov, m->iov_count}, m->addr, m->rma_iov->addr, m->rma_iov->key, m->context);
  if (r.buffer.bytes > m->rma_iov->len) return -FI_EINVAL;
  r.flags = flags;
  r.has_data = write && (flags & FI_REMOTE_CQ_DATA) != 0;
  r.data = m->data;
  return rma(f, r);
}
ssize_t rma_readmsg(fid_ep* f, const fi_msg_rma* m, std::uint64_t flags) {
  return rma_message(f, false, m, flags);
}
ssize_t rma_writemsg(fid_ep* f, const fi_msg_rma* m, std::uint64_t flags) {
  return rma_message(f, true, m, flags);
}
ssize_t rma_write(fid_ep* f, const void* at, std::size_t bytes, void*, fi_addr_t to, std::uint64_t address,
                  std::uint64_t key, void* context) {
  return rma(f, transfer(f, true, {at, bytes}, to, address, key, context));
}
ssize_t rma_writev(fid_ep* f, const iovec* iov, void**, std::size_t count, fi_addr_t to,
                   std::uint64_t address, std::uint64_t key, void* context) {
  if (too_long(count)) return -FI_EINVAL;
  return rma(f, transfer(f, true, {iov, count}, to, address, key, context));
}
ssize_t rma_inject(fid_ep* f, const void* at, std::size_t bytes, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key) {
  Rma r = transfer(f, true, {at, bytes}, to, address, key, nullptr);
  r.inject = true;
  r.flags = 0;
  return rma(f, r);
}
ssize_t rma_writedata(fid_ep* f, const void* at, std::size_t bytes, void*, std::uint64_t data, fi_addr_t to,
                      std::uint64_t address, std::uint64_t key, void* context) {
  Rma r = transfer(f, true, {at, bytes}, to, address, key, context);
  r.has_data = true;
  r.data = data;
  return rma(f, r);
}
ssize_t rma_injectdata(fid_ep* f, const void* at, std::size_t bytes, std::uint64_t data, fi_addr_t to,
                       std::uint64_t address, std::uint64_t key) {
  Rma r = transfer(f, true, {at, bytes}, to, address, key, nullptr);
  r.inject = true;
  r.flags = 0;
  r.has_data = true;
  r.data = data;
  return rma(f, r);
}

fi_ops_rma rma_ops = {sizeof(fi_ops_rma), rma_read,     rma_readv,  rma_readmsg,   rma_write,
                      rma_writev,         rma_writemsg, rma_inject, rma_writedata, rma_injectdata};

// -------------------------------------------------------------------------------------------------------
// atomic

Buffer elements(const fi_ioc* ioc, std::size_t count, std::size_t size) {
  Buffer b;
  for (std::size_t i = 0; i < count; ++i) {
    b.iov[i] = {ioc[i].addr, ioc[i].count * size};
    b.bytes += b.iov[i].iov_len;
  }
  b.count = static_cast<unsigned>(count);
  return b;
}

struct AtomicCall {
  fid_ep* f;
  fi_addr_t to;
  std::uint64_t address, key;
  fi_datatype datatype;
  fi_op op;
  void* context;
  std::uint64_t flags;
  bool inject = false;
};
struct Iocs {
  const fi_ioc* at = nullptr;
  std::size_t count = 0;
};

ssize_t atomic(const AtomicCall& c, Iocs operand, const Iocs* result, const Iocs* comparand) {
  if (too_long(operand.count) || (result != nullptr && too_long(result->count)) ||
      (comparand != nullptr && too_long(comparand->count)))
    return -FI_EINVAL;
  const std::size_t size = datatype_bytes(c.datatype);
  if (size == 0) return -FI_EOPNOTSUPP;
  Atomic a;
  if (c.op != FI_ATOMIC_READ) a.operand = elements(operand.at, operand.count, size);
  if (result != nullptr) a.result = elements(result->at, result->count, size);
  if (comparand != nullptr) a.comparand = elements(comparand->at, comparand->count, size);
  a.fetch = result != nullptr;
  a.compare = comparand != nullptr;
  a.to = c.to;
  a.address = c.address;
  a.key = c.key;
  a.datatype = c.datatype;
  a.op = c.op;
  a.context = c.context;
  a.flags = c.flags;
  a.inject = c.inject;
  return guarded(c.f, [&](Endpoint& e) { return e.atomic(a); });
}

fi_ioc one(const void* at, std::size_t count) {
  return {const_cast<void*>(at), count};
}

AtomicCall from_message(fid_ep* f, const fi_msg_atomic* m, std::uint64_t flags) {
  return {f, m->addr, m->rma_iov->addr, m->rma_iov->key, m->datatype, m->op, m->context, flags};
}

ssize_t atomic_write(fid_ep* f, const void* at, std::size_t count, void*, fi_addr_t to, std::uint64_t address,
                     std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  const fi_ioc ioc = one(at, count);
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {&ioc, 1}, nullptr, nullptr);
}
ssize_t atomic_writev(fid_ep* f, const fi_ioc* iov, void**, std::size_t count, fi_addr_t to,
                      std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {iov, count}, nullptr, nullptr);
}
ssize_t atomic_writemsg(fid_ep* f, const fi_msg_atomic* m, std::uint64_t flags) {
  if (m->rma_iov_count != 1) return -FI_EINVAL;
  return atomic(from_message(f, m, flags), {m->msg_iov, m->iov_count}, nullptr, nullptr);
}
ssize_t atomic_inject(fid_ep* f, const void* at, std::size_t count, fi_addr_t to, std::uint64_t address,
                      std::uint64_t key, fi_datatype type, fi_op op) {
  const fi_ioc ioc = one(at, count);
  return atomic({f, to, address, key, type, op, nullptr, 0, true}, {&ioc, 1}, nullptr, nullptr);
}
ssize_t atomic_fetch(fid_ep* f, const void* at, std::size_t count, void*, void* result, void*, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op, void* context) {
  const fi_ioc ioc = one(at, count), out = one(result, count);
  const Iocs results{&out, 1};
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {&ioc, 1}, &results, nullptr);
}
ssize_t atomic_fetchv(fid_ep* f, const fi_ioc* iov, void**, std::size_t count, fi_ioc* result, void**,
                      std::size_t result_count, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                      fi_datatype type, fi_op op, void* context) {
  const Iocs results{result, result_count};
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {iov, count}, &results,
                nullptr);
}
ssize_t atomic_fetchmsg(fid_ep* f, const fi_msg_atomic* m, fi_ioc* result, void**, std::size_t result_count,
                        std::uint64_t flags) {
  if (m->rma_iov_count != 1) return -FI_EINVAL;
  const Iocs results{result, result_count};
  return atomic(from_message(f, m, flags), {m->msg_iov, m->iov_count}, &results, nullptr);
}
ssize_t atomic_compare(fid_ep* f, const void* at, std::size_t count, void*, const void* compare, void*,
                       void* result, void*, fi_addr_t to, std::uint64_t address, std::uint64_t key,
                       fi_datatype type, fi_op op, void* context) {
  const fi_ioc ioc = one(at, count), with = one(compare, count), out = one(result, count);
  const Iocs results{&out, 1}, comparands{&with, 1};
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {&ioc, 1}, &results,
                &comparands);
}
ssize_t atomic_comparev(fid_ep* f, const fi_ioc* iov, void**, std::size_t count, const fi_ioc* compare,
                        void**, std::size_t compare_count, fi_ioc* result, void**, std::size_t result_count,
                        fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype type, fi_op op,
                        void* context) {
  const Iocs results{result, result_count}, comparands{compare, compare_count};
  return atomic({f, to, address, key, type, op, context, handle(f).tx_flags}, {iov, count}, &results,
                &comparands);
}
ssize_t atomic_comparemsg(fid_ep* f, const fi_msg_atomic* m, const fi_ioc* compare, void**,
                          std::size_t compare_count, fi_ioc* result, void**, std::size_t result_count,
                          std::uint64_t flags) {
  if (m->rma_iov_count != 1) return -FI_EINVAL;
  const Iocs results{result, result_count}, comparands{compare, compare_count};
  return atomic(from_message(f, m, flags), {m->msg_iov, m->iov_count}, &results, &comparands);
}

int valid(fi_datatype type, fi_op op, AtomicKind kind, std::size_t* count) {
  if (!atomic_valid(type, op, kind)) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = atomic_bytes(kind) / datatype_bytes(type);
  return 0;
}
int base_valid(fid_ep*, fi_datatype type, fi_op op, std::size_t* count) {
  return valid(type, op, AtomicKind::base, count);
}
int fetch_valid(fid_ep*, fi_datatype type, fi_op op, std::size_t* count) {
  return valid(type, op, AtomicKind::fetch, count);
}
int compare_valid(fid_ep*, fi_datatype type, fi_op op, std::size_t* count) {
  return valid(type, op, AtomicKind::compare, count);
}

fi_ops_atomic atomic_ops = {sizeof(fi_ops_atomic), atomic_write,    atomic_writev,     atomic_writemsg,
                            atomic_inject,         atomic_fetch,    atomic_fetchv,     atomic_fetchmsg,
                            atomic_compare,        atomic_comparev, atomic_comparemsg, base_valid,
                            fetch_valid,           compare_valid};

// ------------------------------------------------------------------------------------------------------
// control

ssize_t ep_cancel(fid* f, void* context) {
  return guarded(&handle(f), [&](Endpoint& e) { return e.cancel(context); });
}

template <class T>
int option(void* value, std::size_t* bytes, T result) {
  if (*bytes < sizeof result) return -FI_ETOOSMALL;
  std::memcpy(value, &result, sizeof result);
  *bytes = sizeof result;
  return 0;
}

int ep_getopt(fid* f, int level, int name, void* value, std::size_t* bytes) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
      return option(value, bytes, handle(f).endpoint->min_multi_recv);
    case FI_OPT_CM_DATA_SIZE:
      return option(value, bytes, std::size_t{0});
    default:
      return -FI_ENOPROTOOPT;
  }
}

int ep_setopt(fid* f, int level, int name, const void* value, std::size_t bytes) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (bytes != sizeof(std::size_t)) return -FI_EINVAL;
  std::memcpy(&handle(f).endpoint->min_multi_recv, value, bytes);
  return 0;
}

ssize_t size_left(fid_ep* f) {
  return handle(f).endpoint->enabled() ? static_cast<ssize_t>(queue_size) : -FI_EOPBADSTATE;
}
int no_tx_context(fid_ep*, int, fi_tx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int no_rx_context(fid_ep*, int, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}

fi_ops_ep endpoint_ops = {sizeof(fi_ops_ep), ep_cancel,     ep_getopt, ep_setopt,
                          no_tx_context,     no_rx_context, size_left, size_left};

int cm_setname(fid* f, void* address, std::size_t bytes) try {
  Endpoint& e = *handle(f).endpoint;
  const Domain::Guard guard(e.domain);
  return e.set_name(address, bytes);
} catch (const std::system_error& e) {
  return -e.code().value();
}

int cm_getname(fid* f, void* to, std::size_t* bytes) {
  const Address address = handle(f).endpoint->address();
  const std::size_t room = *bytes;
  *bytes = sizeof address;
  if (to != nullptr) std::memcpy(to, &address, std::min(room, sizeof address));
  return room < sizeof address ? -FI_ETOOSMALL : 0;
}

int no_peer(fid_ep*, void*, std::size_t*) {
  return -FI_ENOSYS;
}
int no_connect(fid_ep*, const void*, const void*, std::size_t) {
  return -FI_ENOSYS;
}
int no_listen(fid_pep*) {
  return -FI_ENOSYS;
}
int no_accept(fid_ep*, const void*, std::size_t) {
  return -FI_ENOSYS;
}
int no_reject(fid_pep*, fid_t, const void*, std::size_t) {
  return -FI_ENOSYS;
}
int no_shutdown(fid_ep*, std::uint64_t) {
  return -FI_ENOSYS;
}
int no_join(fid_ep*, const void*, std::uint64_t, fid_mc**, void*) {
  return -FI_ENOSYS;
}

fi_ops_cm cm_ops = {sizeof(fi_ops_cm), cm_setname, cm_getname, no_peer,     no_connect,
                    no_listen,         no_accept,  no_reject,  no_shutdown, no_join};

int ep_close(fid* f) {
  Handle* const h = &handle(f);
  if (!h->alias) {
    Endpoint* const e = h->endpoint;
    if (e->uses > 0) return -FI_EBUSY;
    Domain& domain = e->domain;
    {
      const Domain::Guard guard(domain);
      e->flush();
      domain.remove(*e);
      delete e;
    }
    --domain.uses;
  } else {
    --h->endpoint->uses;
  }
  delete h;
  return 0;
}

int ep_bind(fid* f, fid* to, std::uint64_t flags) {
  Endpoint& e = *handle(f).endpoint;
  const Domain::Guard guard(e.domain);
  return e.bind(*to, flags);
}

int make_alias(Handle& original, struct fi_alias& request) {
  auto* const h = new (std::nothrow) Handle(original);
  if (h == nullptr) return -FI_ENOMEM;
  h->alias = true;
  ((request.flags & FI_TRANSMIT) != 0 ? h->tx_flags : h->rx_flags) =
      request.flags & ~std::uint64_t{FI_TRANSMIT | FI_RECV};
  ++original.endpoint->uses;
  *request.fid = &h->fid;
  return 0;
}

int ep_control(fid* f, int command, void* arg) {
  Handle& h = handle(f);
  const Domain::Guard guard(h.endpoint->domain);
  auto* const flags = static_cast<std::uint64_t*>(arg);
  switch (command) {
    case FI_ENABLE:
      return h.endpoint->enable();
    case FI_ALIAS:
      return make_alias(h, *static_cast<struct fi_alias*>(arg));
    case FI_GETOPSFLAG:
      if (((*flags & FI_TRANSMIT) != 0) == ((*flags & FI_RECV) != 0)) return -FI_EINVAL;
      *flags = (*flags & FI_TRANSMIT) != 0 ? h.tx_flags : h.rx_flags;
      return 0;
    case FI_SETOPSFLAG:
      if (((*flags & FI_TRANSMIT) != 0) == ((*flags & FI_RECV) != 0)) return -FI_EINVAL;
      ((*flags & FI_TRANSMIT) != 0 ? h.tx_flags : h.rx_flags) =
          *flags & ~std::uint64_t{FI_TRANSMIT | FI_RECV};
      return 0;
    default:
      return -FI_ENOSYS;
  }
}

fi_ops endpoint_fid_ops = {sizeof(fi_ops), ep_close, ep_bind, ep_control, unsupported<int>, nullptr, nullptr};

}  // namespace

int open_endpoint(fid_domain* f, fi_info* info, fid_ep** out, void* context) noexcept try {
  auto& domain = *static_cast<Domain*>(f);
  if (info == nullptr || info->ep_attr == nullptr ||
      (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC))
    return -FI_EINVAL;
  auto h = std::make_unique<Handle>();
  const Domain::Guard guard(domain);
  h->endpoint = new Endpoint(domain, *info);
  h->tx_flags = info->tx_attr != nullptr ? info->tx_attr->op_flags : 0;
  h->rx_flags = info->rx_attr != nullptr ? info->rx_attr->op_flags : 0;
  h->fid = {FI_CLASS_EP, context, &endpoint_fid_ops};
  h->ops = &endpoint_ops;
  h->cm = &cm_ops;
  h->msg = &msg_ops;
  h->tagged = &tagged_ops;
  h->rma = &rma_ops;
  h->atomic = &atomic_ops;
  domain.add(*h->endpoint);
  ++domain.uses;
  *out = h.release();
  return 0;
} catch (const std::system_error& e) {
  return -e.code().value();
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

}  // namespace nanet::fabric
