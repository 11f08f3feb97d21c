// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/address_vector.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "nanet/fabric/event_queue.hpp"

namespace nanet::fabric {

fi_addr_t AddressVector::insert(Address address) {
  fi_addr_t index = entries_.size();
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    entries_.emplace_back();
  }
  entries_[index] = {address, true};
  index_.emplace(address.word(), index);  // the first index of an address is the one reported as source
  ++version_;
  return index;
}

bool AddressVector::remove(fi_addr_t index) {
  if (!contains(index)) return false;
  entries_[index].valid = false;
  free_.push_back(index);
  const std::uint64_t word = entries_[index].address.word();
  if (const auto found = index_.find(word); found != index_.end() && found->second == index) {
    index_.erase(found);
    for (fi_addr_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].valid && entries_[i].address.word() == word) {
        index_.emplace(word, i);
        break;
      }
  }
  ++version_;
  return true;
}

fi_addr_t AddressVector::find(Address address) const {
  const auto found = index_.find(address.word());
  return found == index_.end() ? FI_ADDR_NOTAVAIL : found->second;
}

namespace {

AddressVector& vector(fid_av* f) {
  return *static_cast<AddressVector*>(f);
}

int av_close(fid* f) {
  auto* const av = static_cast<AddressVector*>(reinterpret_cast<fid_av*>(f));
  if (av->uses > 0) return -FI_EBUSY;
  if (av->events != nullptr) --av->events->uses;
  --av->domain.uses;
  delete av;
  return 0;
}

int av_bind(fid* f, fid* to, std::uint64_t) {
  auto& av = *static_cast<AddressVector*>(reinterpret_cast<fid_av*>(f));
  if (to->fclass != FI_CLASS_EQ || av.events != nullptr) return -FI_EINVAL;
  av.events = static_cast<EventQueue*>(reinterpret_cast<fid_eq*>(to));
  ++av.events->uses;
  return 0;
}

int av_insert(fid_av* f, const void* addresses, std::size_t count, fi_addr_t* out, std::uint64_t flags,
              void* context) try {
  AddressVector& av = vector(f);
  if (addresses == nullptr && count > 0) return -FI_EINVAL;
  if (av.asynchronous && av.events == nullptr) return -FI_ENOEQ;
  {
    const Domain::Guard guard(av.domain);
    for (std::size_t i = 0; i < count; ++i) {
      Address address;
      std::memcpy(&address, static_cast<const std::byte*>(addresses) + i * sizeof address, sizeof address);
      const fi_addr_t index = av.insert(address);
      if (out != nullptr) out[i] = index;
    }
  }
  if ((flags & FI_SYNC_ERR) != 0 && context != nullptr) std::fill_n(static_cast<int*>(context), count, 0);
  if (!av.asynchronous) return static_cast<int>(count);
  const fi_eq_entry entry{&av.fid, context, count};
  av.events->add(FI_AV_COMPLETE, &entry, sizeof entry);
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

int av_remove(fid_av* f, fi_addr_t* indices, std::size_t count, std::uint64_t) {
  const Domain::Guard guard(vector(f).domain);
  int result = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!vector(f).remove(indices[i])) result = -FI_EINVAL;
  return result;
}

int av_lookup(fid_av* f, fi_addr_t index, void* to, std::size_t* bytes) {
  const Domain::Guard guard(vector(f).domain);
  if (!vector(f).contains(index)) return -FI_EINVAL;
  const Address address = vector(f).at(index);
  std::memcpy(to, &address, std::min(*bytes, sizeof address));
  *bytes = sizeof address;
  return 0;
}

const char* av_text(fid_av*, const void* address, char* to, std::size_t* bytes) {
  Address a;
  std::memcpy(&a, address, sizeof a);
  const int written = std::snprintf(to, *bytes, "fi_nanet://%u.%u.%u:%u", a.x, a.y, a.z, a.port);
  *bytes = static_cast<std::size_t>(written) + 1;
  return to;
}

int no_service(fid_av*, const char*, const char*, fi_addr_t*, std::uint64_t, void*) {
  return -FI_ENOSYS;
}
int no_symmetric(fid_av*, const char*, std::size_t, const char*, std::size_t, fi_addr_t*, std::uint64_t,
                 void*) {
  return -FI_ENOSYS;
}

fi_ops av_fid_ops = {sizeof(fi_ops), av_close, av_bind, unsupported<int>, unsupported<int>, nullptr, nullptr};
fi_ops_av av_ops = {sizeof(fi_ops_av), av_insert, no_service, no_symmetric,
                    av_remove,         av_lookup, av_text,    nullptr};

}  // namespace

int open_av(fid_domain* f, fi_av_attr* attr, fid_av** out, void* context) noexcept try {
  auto& domain = *static_cast<Domain*>(f);
  if (attr != nullptr) {
    if (attr->rx_ctx_bits > 0 || (attr->flags & ~std::uint64_t{FI_EVENT | FI_SYMMETRIC}) != 0)
      return -FI_EINVAL;
    if (attr->name != nullptr) return -FI_ENOSYS;  // shared address vectors
    if (attr->type == FI_AV_UNSPEC) attr->type = domain.av_type;
  }
  auto* const av = new AddressVector(domain);
  av->asynchronous = attr != nullptr && (attr->flags & FI_EVENT) != 0;
  av->fid = {FI_CLASS_AV, context, &av_fid_ops};
  av->ops = &av_ops;
  ++domain.uses;
  *out = av;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

}  // namespace nanet::fabric
