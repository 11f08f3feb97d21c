// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/domain.hpp"

#include <algorithm>
#include <new>
#include <system_error>

#include "nanet/fabric/completion.hpp"
#include "nanet/fabric/endpoint.hpp"
#include "nanet/fabric/event_queue.hpp"

namespace nanet::fabric {
namespace {

bool virtual_addressing(const fi_info& info) {
  return info.domain_attr->mr_mode == FI_MR_BASIC ||
         (info.domain_attr->mr_mode > FI_MR_SCALABLE && (info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0);
}
bool keys_by_provider(const fi_info& info) {
  return info.domain_attr->mr_mode == FI_MR_BASIC ||
         (info.domain_attr->mr_mode > FI_MR_SCALABLE && (info.domain_attr->mr_mode & FI_MR_PROV_KEY) != 0);
}

std::unique_ptr<Node> open_node() {
  const Parameters& p = parameters();
  if (p.cards != nullptr) return open_pcie_node(p.cards, p.size, p.directory, p.direct);
  return p.torus != nullptr ? open_card_node(p.torus, p.directory, p.direct)
                            : open_shm_node(p.directory, p.direct);
}

}  // namespace

Domain::Domain(Fabric& owner, const fi_info& info)
    : fid_domain{},
      fabric(owner),
      api(owner.api_version),
      virtual_addresses(virtual_addressing(info)),
      provider_keys(keys_by_provider(info)),
      av_type(info.domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info.domain_attr->av_type),
      node(open_node()),
      shared_(info.domain_attr->threading != FI_THREAD_DOMAIN ||
              info.domain_attr->data_progress == FI_PROGRESS_AUTO) {
  if (info.domain_attr->data_progress == FI_PROGRESS_AUTO) thread_ = std::thread([this] { run_progress(); });
}

Domain::~Domain() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Domain::progress() {
  bool any = false;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) any |= endpoints_[i]->progress();
  idle_ = any ? 0 : idle_ + 1;
  if (idle_ >= node->idle_polls()) {
    idle_ = 0;
    node->rest();
  }
}

// Automatic progress: sleeps while nothing arrives.
void Domain::run_progress() {
  Waiter waiter(*this, FI_WAIT_FD);
  while (!stopping_) {
    {
      const Guard guard(*this);
      waiter.arm();
      progress();
    }
    waiter.sleep(10);
    const Guard guard(*this);
    waiter.disarm();
  }
}

void Domain::add(Endpoint& endpoint) {
  endpoints_.push_back(&endpoint);
  for (const auto& [key, region] : regions_) endpoint.publish(region->registration);
}
void Domain::remove(Endpoint& endpoint) {
  std::erase(endpoints_, &endpoint);
}

void Domain::listen(bool on) {
  listeners_ += on ? 1 : -1;
  node->listen(listeners_ > 0);
}

MemoryRegion* Domain::region(std::uint64_t key) const {
  const auto found = regions_.find(key);
  return found == regions_.end() ? nullptr : found->second;
}

std::byte* Domain::locate(std::uint64_t key, std::uint64_t offset, std::uint64_t bytes, std::uint64_t right,
                          int& error, MemoryRegion** found) const {
  MemoryRegion* const r = region(key);
  error = FI_ENOKEY;
  if (r == nullptr) return nullptr;
  const Registration& g = r->registration;
  error = FI_EACCES;
  if (!(right == FI_REMOTE_READ ? g.read : g.write)) return nullptr;
  const std::uint64_t address = g.base + offset;
  error = FI_EINVAL;
  if (address < g.begin || bytes > g.bytes || address - g.begin > g.bytes - bytes) return nullptr;
  error = 0;
  if (found != nullptr) *found = r;
  return reinterpret_cast<std::byte*>(address);
}

std::uint64_t Domain::free_key() const {
  while (regions_.contains(next_key_)) ++next_key_;
  return next_key_++;
}

int Domain::insert(MemoryRegion& region) {
  if (!regions_.emplace(region.key, &region).second) return -FI_ENOKEY;
  for (Endpoint* const e : endpoints_) e->publish(region.registration);
  return 0;
}

void Domain::erase(MemoryRegion& region) {
  regions_.erase(region.key);
  for (Endpoint* const e : endpoints_) e->withdraw(region.key);
}

namespace {

// ------------------------------------------------------------------------------------------------- memory

MemoryRegion& region(fid* f) {
  return *static_cast<MemoryRegion*>(reinterpret_cast<fid_mr*>(f));
}

int mr_close(fid* f) {
  MemoryRegion& r = region(f);
  {
    const Domain::Guard guard(*r.domain);
    r.domain->erase(r);
    for (auto& [counter, rights] : r.counters) --counter->uses;
  }
  --r.domain->uses;
  delete &r;
  return 0;
}

int mr_bind(fid* f, fid* to, std::uint64_t flags) {
  MemoryRegion& r = region(f);
  const Domain::Guard guard(*r.domain);
  if (to->fclass == FI_CLASS_CNTR) {
    auto* const counter = static_cast<Counter*>(reinterpret_cast<fid_cntr*>(to));
    ++counter->uses;
    r.counters.emplace_back(counter, flags);
  }
  return to->fclass == FI_CLASS_CNTR || to->fclass == FI_CLASS_EP ? 0 : -FI_EINVAL;
}

int mr_control(fid*, int command, void*) {
  return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

fi_ops mr_fid_ops = {sizeof(fi_ops), mr_close, mr_bind, mr_control, unsupported<int>, nullptr, nullptr};

int register_attr(fid* f, const fi_mr_attr* attr, std::uint64_t, fid_mr** out) try {
  if (f->fclass != FI_CLASS_DOMAIN || attr == nullptr || attr->iov_count != 1) return -FI_EINVAL;
  auto& domain = *static_cast<Domain*>(reinterpret_cast<fid_domain*>(f));
  if (FI_VERSION_GE(domain.api, FI_VERSION(1, 5)) && attr->offset != 0) return -FI_EINVAL;
  constexpr std::uint64_t rights =
      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;
  if ((attr->access & ~rights) != 0) return -FI_EBADFLAGS;
  auto r = std::make_unique<MemoryRegion>();
  r->domain = &domain;
  Registration& g = r->registration;
  g.begin = reinterpret_cast<std::uint64_t>(attr->mr_iov->iov_base);
  g.bytes = attr->mr_iov->iov_len;
  g.base = domain.virtual_addresses ? 0 : g.begin;
  g.read = (attr->access & FI_REMOTE_READ) != 0;
  g.write = (attr->access & FI_REMOTE_WRITE) != 0;
  r->fid = {FI_CLASS_MR, attr->context, &mr_fid_ops};
  r->mem_desc = r.get();
  const Domain::Guard guard(domain);
  g.key = r->key = domain.provider_keys ? domain.free_key() : attr->requested_key;
  if (const int error = domain.insert(*r); error != 0) return error;
  ++domain.uses;
  *out = r.release();
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

int register_vector(fid* f, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t offset,
                    std::uint64_t key, std::uint64_t flags, fid_mr** out, void* context) {
  fi_mr_attr attr = {};
  attr.mr_iov = iov;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = key;
  attr.context = context;
  return register_attr(f, &attr, flags, out);
}

int register_buffer(fid* f, const void* at, std::size_t bytes, std::uint64_t access, std::uint64_t offset,
                    std::uint64_t key, std::uint64_t flags, fid_mr** out, void* context) {
  const iovec iov{const_cast<void*>(at), bytes};
  return register_vector(f, &iov, 1, access, offset, key, flags, out, context);
}

// ------------------------------------------------------------------------------------------------- domain

int domain_close(fid* f) {
  auto* const domain = static_cast<Domain*>(reinterpret_cast<fid_domain*>(f));
  if (domain->uses > 0) return -FI_EBUSY;
  if (domain->events != nullptr) --domain->events->uses;
  --domain->fabric.uses;
  delete domain;
  return 0;
}

int domain_bind(fid* f, fid* to, std::uint64_t flags) {
  auto& domain = *static_cast<Domain*>(reinterpret_cast<fid_domain*>(f));
  if (to->fclass != FI_CLASS_EQ || (flags & FI_REG_MR) != 0 || domain.events != nullptr) return -FI_EINVAL;
  domain.events = static_cast<EventQueue*>(reinterpret_cast<fid_eq*>(to));
  ++domain.events->uses;
  return 0;
}

int no_endpoints(fid_domain*, fi_info*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int no_shared_tx(fid_domain*, fi_tx_attr*, fid_stx**, void*) {
  return -FI_ENOSYS;
}
int no_shared_rx(fid_domain*, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}

fi_ops domain_fid_ops = {sizeof(fi_ops),   domain_close, domain_bind, unsupported<int>,
                         unsupported<int>, nullptr,      nullptr};
fi_ops_domain domain_ops = {
    .size = sizeof(fi_ops_domain),
    .av_open = open_av,
    .cq_open = open_cq,
    .endpoint = open_endpoint,
    .scalable_ep = no_endpoints,
    .cntr_open = open_counter,
    .poll_open = open_poll_set,
    .stx_ctx = no_shared_tx,
    .srx_ctx = no_shared_rx,
    .query_atomic = query_atomic,
    .query_collective = nullptr,
    .endpoint2 = nullptr,
};

// ------------------------------------------------------------------------------------------------- fabric

int fabric_close(fid* f) {
  auto* const fabric = static_cast<Fabric*>(reinterpret_cast<fid_fabric*>(f));
  if (fabric->uses > 0) return -FI_EBUSY;
  delete fabric;
  return 0;
}

int try_wait(fid_fabric*, fid** objects, int count) {
  for (int i = 0; i < count; ++i)
    if (const int result = prepare_wait(objects[i]); result != 0) return result;
  return 0;
}

int no_passive(fid_fabric*, fi_info*, fid_pep**, void*) {
  return -FI_ENOSYS;
}
int no_wait_set(fid_fabric*, fi_wait_attr*, fid_wait**) {
  return -FI_ENOSYS;
}

fi_ops fabric_fid_ops = {sizeof(fi_ops),   fabric_close, unsupported<int>, unsupported<int>,
                         unsupported<int>, nullptr,      nullptr};
fi_ops_fabric fabric_ops = {sizeof(fi_ops_fabric), open_domain, no_passive, open_event_queue,
                            no_wait_set,           try_wait,    nullptr};

}  // namespace

fi_ops_mr memory_ops = {sizeof(fi_ops_mr), register_buffer, register_vector, register_attr};

int open_domain(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept try {
  if (info == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
  auto& fabric = *static_cast<Fabric*>(f);
  auto* const domain = new Domain(fabric, *info);
  domain->fid = {FI_CLASS_DOMAIN, context, &domain_fid_ops};
  domain->ops = &domain_ops;
  domain->mr = &memory_ops;
  ++fabric.uses;
  *out = domain;
  return 0;
} catch (const std::system_error& e) {
  return -e.code().value();
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** out, void* context) noexcept try {
  if (attr != nullptr && attr->name != nullptr && std::string_view(attr->name) != fabric_name)
    return -FI_ENODATA;
  auto* const fabric = new Fabric;
  fabric->fid = {FI_CLASS_FABRIC, context, &fabric_fid_ops};
  fabric->ops = &fabric_ops;
  fabric->api_version = attr != nullptr ? attr->api_version : FI_VERSION(1, 17);
  *out = fabric;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

}  // namespace nanet::fabric
