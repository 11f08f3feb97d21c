// SPDX-License-Identifier: Apache-2.0
// Domain: the node, its lock, progress of all endpoints, registered memory, and sleeping.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/libfabric.hpp"
#include "nanet/units.hpp"

namespace nanet::fabric {

class Endpoint;
class Counter;

// Reference count of an object that others are bound to; such an object cannot be closed.
using Uses = std::atomic<int>;

struct Fabric : fid_fabric {
  Uses uses{0};
};

struct EventQueue;

struct MemoryRegion : fid_mr {
  class Domain* domain = nullptr;
  Registration registration;
  std::vector<std::pair<Counter*, std::uint64_t>> counters;  // with FI_REMOTE_READ, FI_REMOTE_WRITE
};

class Domain : public fid_domain {
 public:
  Domain(Fabric& fabric, const fi_info& info);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Serialises all calls, unless the application does (FI_THREAD_DOMAIN).
  class Guard {
   public:
    explicit Guard(Domain& domain) : domain_(domain) {
      if (domain_.shared_) domain_.mutex_.lock();
    }
    ~Guard() {
      if (domain_.shared_) domain_.mutex_.unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Domain& domain_;
  };

  // The functions below need the guard.
  void progress();
  void add(Endpoint& endpoint);
  void remove(Endpoint& endpoint);
  MemoryRegion* region(std::uint64_t key) const;
  // Address of `bytes` at `offset` of a region; nullptr and an error code of libfabric.
  std::byte* locate(std::uint64_t key, std::uint64_t offset, std::uint64_t bytes, std::uint64_t right,
                    int& error, MemoryRegion** found = nullptr) const;
  int insert(MemoryRegion& region);
  void erase(MemoryRegion& region);
  std::uint64_t free_key() const;

  // Starts and ends listening for the bell, for one waiter more or less.
  void listen(bool on);
  void ring_own_bell() noexcept;

  Fabric& fabric;
  const std::uint32_t api;
  const bool virtual_addresses, provider_keys;
  const fi_av_type av_type;
  std::unique_ptr<Node> node;
  Uses uses{0};
  EventQueue* events = nullptr;

 private:
  void run_progress();

  const bool shared_;
  std::mutex mutex_;
  std::vector<Endpoint*> endpoints_;
  std::unordered_map<std::uint64_t, MemoryRegion*> regions_;
  mutable std::uint64_t next_key_ = 1;
  int listeners_ = 0;
  unsigned idle_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) noexcept;
int open_event_queue(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** queue, void* context) noexcept;
int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context) noexcept;
int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) noexcept;
int open_counter(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context) noexcept;
int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** set) noexcept;
int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) noexcept;
int query_atomic(fid_domain* domain, fi_datatype datatype, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept;
extern fi_ops_mr memory_ops;

}  // namespace nanet::fabric
