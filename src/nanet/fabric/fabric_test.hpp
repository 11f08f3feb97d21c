// SPDX-License-Identifier: Apache-2.0
// Fixture of the provider's tests: endpoints opened through libfabric, as an application opens them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nanet/fabric/libfabric.hpp"

namespace nanet::fabric::testing {

struct Options {
  std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
  std::uint64_t bind_flags = 0;
  fi_progress progress = FI_PROGRESS_MANUAL;
  int mr_mode = 0;
};

inline void load_provider() {
  setenv("FI_PROVIDER_PATH", NANET_PROVIDER_DIR, 1);
  setenv("FI_PROVIDER", "nanet", 1);
}

inline fi_info* get_info(const Options& o = {}) {
  load_provider();
  fi_info* const hints = fi_allocinfo();
  hints->caps = o.caps;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->data_progress = o.progress;
  hints->domain_attr->mr_mode = o.mr_mode;
  hints->fabric_attr->prov_name = strdup("nanet");
  fi_info* info = nullptr;
  const int error = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
  EXPECT_EQ(error, 0) << fi_strerror(-error);
  fi_freeinfo(hints);
  return info;
}

// Endpoint with queues, counters and an address vector, in a separate fabric.
struct Side {
  explicit Side(const Options& o = {}) {
    info = get_info(o);
    EXPECT_EQ(fi_fabric(info->fabric_attr, &fabric, nullptr), 0);
    EXPECT_EQ(fi_domain(fabric, info, &domain, nullptr), 0);
    fi_cq_attr cq = {};
    cq.format = FI_CQ_FORMAT_TAGGED;
    cq.wait_obj = FI_WAIT_FD;
    EXPECT_EQ(fi_cq_open(domain, &cq, &tx, nullptr), 0);
    EXPECT_EQ(fi_cq_open(domain, &cq, &rx, nullptr), 0);
    fi_av_attr av_attr = {};
    av_attr.type = FI_AV_TABLE;
    EXPECT_EQ(fi_av_open(domain, &av_attr, &av, nullptr), 0);
    EXPECT_EQ(fi_endpoint(domain, info, &ep, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(ep, &av->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT | o.bind_flags), 0);
    EXPECT_EQ(fi_ep_bind(ep, &rx->fid, FI_RECV | o.bind_flags), 0);
    EXPECT_EQ(fi_enable(ep), 0);
  }
  ~Side() {
    for (fid_mr* mr : regions) EXPECT_EQ(fi_close(&mr->fid), 0);
    EXPECT_EQ(fi_close(&ep->fid), 0);
    EXPECT_EQ(fi_close(&av->fid), 0);
    EXPECT_EQ(fi_close(&tx->fid), 0);
    EXPECT_EQ(fi_close(&rx->fid), 0);
    EXPECT_EQ(fi_close(&domain->fid), 0);
    EXPECT_EQ(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  std::uint64_t name() const {
    std::uint64_t address = 0;
    std::size_t bytes = sizeof address;
    EXPECT_EQ(fi_getname(&ep->fid, &address, &bytes), 0);
    return address;
  }
  fi_addr_t insert(std::uint64_t address) {
    fi_addr_t index = FI_ADDR_UNSPEC;
    EXPECT_EQ(fi_av_insert(av, &address, 1, &index, 0, nullptr), 1);
    return index;
  }
  fid_mr* share(void* at, std::size_t bytes, std::uint64_t key,
                std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE) {
    fid_mr* mr = nullptr;
    EXPECT_EQ(fi_mr_reg(domain, at, bytes, access, 0, key, 0, &mr, nullptr), 0);
    if (mr != nullptr) regions.push_back(mr);
    return mr;
  }
  // Completion, or -FI_EAVAIL; polls both queues of both sides until it arrives.
  ssize_t wait(fid_cq* queue, fi_cq_tagged_entry& entry, Side* other = nullptr, fi_addr_t* from = nullptr) {
    for (int i = 0; i < 5'000'000; ++i) {
      fi_addr_t sender = FI_ADDR_UNSPEC;
      const ssize_t n = fi_cq_readfrom(queue, &entry, 1, &sender);
      if (n != -FI_EAGAIN) {
        if (from != nullptr) *from = sender;
        return n;
      }
      if (other != nullptr) fi_cq_read(other->rx, nullptr, 0);
    }
    return -FI_ETIMEDOUT;
  }
  fi_cq_err_entry error(fid_cq* queue) const {
    fi_cq_err_entry e = {};
    EXPECT_EQ(fi_cq_readerr(queue, &e, 0), 1);
    return e;
  }

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq *tx = nullptr, *rx = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  std::vector<fid_mr*> regions;
};

// Two endpoints of one process with each other in their address vectors.
struct Pair {
  explicit Pair(const Options& o = {}) : a(o), b(o), to_b(a.insert(b.name())), to_a(b.insert(a.name())) {}
  Side a, b;
  fi_addr_t to_b, to_a;
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed = 1) {
  std::vector<std::byte> v(bytes);
  for (std::size_t i = 0; i < bytes; ++i) v[i] = static_cast<std::byte>(i * 7 + (i >> 8) + seed);
  return v;
}

}  // namespace nanet::fabric::testing
