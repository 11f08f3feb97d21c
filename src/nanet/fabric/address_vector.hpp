// SPDX-License-Identifier: Apache-2.0
// Address vector: table of peers' addresses; the index is the fi_addr_t.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nanet/fabric/domain.hpp"
#include "nanet/fabric/packet.hpp"

namespace nanet::fabric {

class AddressVector : public fid_av {
 public:
  explicit AddressVector(Domain& owner) : fid_av{}, domain(owner) {}

  fi_addr_t insert(Address address);
  bool remove(fi_addr_t index);
  bool contains(fi_addr_t index) const noexcept { return index < entries_.size() && entries_[index].valid; }
  Address at(fi_addr_t index) const noexcept { return entries_[index].address; }
  // Index of an address, or FI_ADDR_NOTAVAIL.
  fi_addr_t find(Address address) const;
  // Changes with every insertion and removal.
  std::uint64_t version() const noexcept { return version_; }

  Domain& domain;
  Uses uses{0};
  EventQueue* events = nullptr;
  bool asynchronous = false;

 private:
  struct Entry {
    Address address;
    bool valid = false;
  };
  std::vector<Entry> entries_;
  std::vector<fi_addr_t> free_;
  std::unordered_map<std::uint64_t, fi_addr_t> index_;
  std::uint64_t version_ = 1;
};

}  // namespace nanet::fabric
