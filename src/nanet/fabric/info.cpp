// SPDX-License-Identifier: Apache-2.0
// fi_getinfo: what the provider offers, and whether it satisfies the caller's hints.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "nanet/fabric/capabilities.hpp"
#include "nanet/fabric/libfabric.hpp"
#include "nanet/fabric/packet.hpp"

namespace nanet::fabric {
namespace {

bool differs(const char* wanted, const char* offered) {
  return wanted != nullptr && std::strcmp(wanted, offered) != 0;
}

// Named endpoint: a service, a number or any text, on this host.
Address named_address(const char* service) {
  std::uint32_t number = 0;
  if (char* end = nullptr; std::isdigit(static_cast<unsigned char>(*service)) != 0) {
    number = static_cast<std::uint32_t>(std::strtoul(service, &end, 10));
    if (*end != 0) number = 0;
  }
  if (number == 0) {
    number = 2166136261u;  // FNV-1a
    for (const char* c = service; *c != 0; ++c)
      number = (number ^ static_cast<unsigned char>(*c)) * 16777619u;
  }
  Address a;
  a.port = number | 1u << 31;
  return a;
}

int set_address(Address address, void*& to, std::size_t& bytes) {
  to = std::malloc(sizeof address);  // freed by fi_freeinfo
  if (to == nullptr) return -FI_ENOMEM;
  std::memcpy(to, &address, sizeof address);
  bytes = sizeof address;
  return 0;
}

int copy_address(const void* from, std::size_t from_bytes, void*& to, std::size_t& bytes) {
  if (from == nullptr) return 0;
  if (from_bytes != sizeof(Address)) return -FI_EINVAL;
  Address address;
  std::memcpy(&address, from, sizeof address);
  return set_address(address, to, bytes);
}

bool satisfies(std::uint32_t version, const fi_info& h) {
  if ((h.caps & ~all_caps) != 0) return false;
  if (h.addr_format != FI_FORMAT_UNSPEC) return false;
  if (const auto* e = h.ep_attr) {
    if (e->type != FI_EP_UNSPEC && e->type != FI_EP_RDM) return false;
    if (e->protocol != FI_PROTO_UNSPEC && e->protocol != protocol) return false;
    if (e->protocol_version > 1 || e->max_msg_size > max_message || e->msg_prefix_size > 0) return false;
    if (e->tx_ctx_cnt > 1 || e->rx_ctx_cnt > 1 || e->auth_key_size != 0) return false;
  }
  if (const auto* t = h.tx_attr) {
    if ((t->caps & ~all_caps) != 0 || (t->op_flags & ~tx_op_flags) != 0 || (t->msg_order & ~all_orders) != 0)
      return false;
    if ((t->comp_order & ~std::uint64_t{FI_ORDER_NONE}) != 0) return false;
    if (t->inject_size > inject_bytes || t->size > queue_size || t->iov_limit > max_iov ||
        t->rma_iov_limit > 1)
      return false;
  }
  if (const auto* r = h.rx_attr) {
    if ((r->caps & ~all_caps) != 0 || (r->op_flags & ~rx_op_flags) != 0 || (r->msg_order & ~all_orders) != 0)
      return false;
    if ((r->comp_order & ~std::uint64_t{FI_ORDER_NONE}) != 0) return false;
    if (r->size > queue_size || r->iov_limit > max_iov || r->total_buffered_recv > buffered_bytes)
      return false;
  }
  if (const auto* d = h.domain_attr) {
    if (differs(d->name, domain_name)) return false;
    if (d->cq_data_size > 8 || d->mr_key_size > 8 || d->max_ep_tx_ctx > 1 || d->max_ep_rx_ctx > 1)
      return false;
    if (d->max_ep_stx_ctx > 0 || d->max_ep_srx_ctx > 0 || d->mr_iov_limit > 1) return false;
    if (d->auth_key_size != 0 || (d->caps & ~domain_caps) != 0) return false;
    // A caller of libfabric before 1.5 that needs basic registration receives it.
    if (FI_VERSION_LT(version, FI_VERSION(1, 5)) && d->mr_mode > FI_MR_SCALABLE) return false;
  }
  if (const auto* f = h.fabric_attr)
    if (differs(f->name, fabric_name)) return false;
  return true;
}

int memory_mode(std::uint32_t version, const fi_info* hints) {
  const int wanted = hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->mr_mode : 0;
  if (wanted == FI_MR_BASIC) return FI_MR_BASIC;
  // Offsets and keys of the caller's choice; no other mode is needed.
  return FI_VERSION_LT(version, FI_VERSION(1, 5)) || wanted == FI_MR_SCALABLE ? FI_MR_SCALABLE : 0;
}

void describe(std::uint32_t version, const fi_info* h, fi_info& i) {
  std::uint64_t caps = default_caps;
  if (h != nullptr && h->caps != 0)
    caps = complete_caps(h->caps) | FI_LOCAL_COMM | FI_REMOTE_COMM | (default_caps & secondary_caps);
  std::uint64_t order = default_orders;
  for (const auto wanted : {h != nullptr && h->tx_attr != nullptr ? h->tx_attr->msg_order : 0,
                            h != nullptr && h->rx_attr != nullptr ? h->rx_attr->msg_order : 0})
    order |= wanted;
  i.caps = caps;
  i.mode = 0;
  i.addr_format = FI_FORMAT_UNSPEC;

  auto& t = *i.tx_attr;
  t.caps = caps & tx_caps;
  if (h != nullptr && h->tx_attr != nullptr) t.op_flags = h->tx_attr->op_flags;
  t.msg_order = order;
  t.comp_order = FI_ORDER_NONE;
  t.inject_size = inject_bytes;
  t.size = queue_size;
  t.iov_limit = max_iov;
  t.rma_iov_limit = 1;

  auto& r = *i.rx_attr;
  r.caps = caps & rx_caps;
  if (h != nullptr && h->rx_attr != nullptr) r.op_flags = h->rx_attr->op_flags;
  r.msg_order = order;
  r.comp_order = FI_ORDER_NONE;
  r.total_buffered_recv = buffered_bytes;
  r.size = queue_size;
  r.iov_limit = max_iov;

  auto& e = *i.ep_attr;
  e.type = FI_EP_RDM;
  e.protocol = protocol;
  e.protocol_version = 1;
  e.max_msg_size = max_message;
  e.max_order_raw_size = e.max_order_war_size = e.max_order_waw_size = SIZE_MAX;
  e.mem_tag_format = ~std::uint64_t{0};
  e.tx_ctx_cnt = e.rx_ctx_cnt = 1;

  auto& d = *i.domain_attr;
  const fi_domain_attr* const wanted = h != nullptr ? h->domain_attr : nullptr;
  d.name = strdup(domain_name);
  d.threading =
      wanted != nullptr && wanted->threading != FI_THREAD_UNSPEC ? wanted->threading : FI_THREAD_SAFE;
  d.control_progress = wanted != nullptr && wanted->control_progress != FI_PROGRESS_UNSPEC
                           ? wanted->control_progress
                           : FI_PROGRESS_MANUAL;
  d.data_progress = wanted != nullptr && wanted->data_progress != FI_PROGRESS_UNSPEC ? wanted->data_progress
                                                                                     : FI_PROGRESS_MANUAL;
  d.resource_mgmt = FI_RM_ENABLED;
  d.av_type = wanted != nullptr && wanted->av_type != FI_AV_UNSPEC ? wanted->av_type : FI_AV_TABLE;
  d.mr_mode = memory_mode(version, h);
  d.mr_key_size = 8;
  d.cq_data_size = 8;
  d.cq_cnt = d.ep_cnt = d.tx_ctx_cnt = d.rx_ctx_cnt = 512;
  d.cntr_cnt = 1024;
  d.max_ep_tx_ctx = d.max_ep_rx_ctx = 1;
  d.mr_iov_limit = 1;
  d.mr_cnt = 65536;
  d.caps = domain_caps;
  d.max_err_data = sizeof(Address);

  auto& f = *i.fabric_attr;
  f.name = strdup(fabric_name);
  f.prov_version = provider.version;
  f.api_version = version;
}

}  // namespace

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) noexcept {
  *info = nullptr;
  if (hints != nullptr && !satisfies(version, *hints)) return -FI_ENODATA;
  fi_info* const i = library().dupinfo(nullptr);
  if (i == nullptr) return -FI_ENOMEM;
  describe(version, hints, *i);
  int error = 0;
  if ((flags & FI_SOURCE) != 0) {
    if (service != nullptr) error = set_address(named_address(service), i->src_addr, i->src_addrlen);
  } else if (service != nullptr && node != nullptr) {
    error = set_address(named_address(service), i->dest_addr, i->dest_addrlen);
  }
  if (hints != nullptr && error == 0 && i->src_addr == nullptr)
    error = copy_address(hints->src_addr, hints->src_addrlen, i->src_addr, i->src_addrlen);
  if (hints != nullptr && error == 0 && i->dest_addr == nullptr)
    error = copy_address(hints->dest_addr, hints->dest_addrlen, i->dest_addr, i->dest_addrlen);
  if (error != 0) {
    library().freeinfo(i);
    return error;
  }
  *info = i;
  return 0;
}

}  // namespace nanet::fabric
