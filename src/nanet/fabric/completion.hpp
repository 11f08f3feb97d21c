// SPDX-License-Identifier: Apache-2.0
// Completion queues, counters, poll sets, and the objects that threads wait on.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "nanet/fabric/domain.hpp"
#include "nanet/fabric/libfabric.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::fabric {

// Wait object of a queue or counter: readable after signal(), or when the node's bell rings.
class Waiter {
 public:
  // Throws std::system_error.
  Waiter(Domain& domain, fi_wait_obj kind);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  fi_wait_obj kind() const noexcept { return kind_; }
  int fd() const noexcept { return epoll_.get(); }
  // With the domain's guard: prepares a wait; afterwards every packet makes fd() readable.
  void arm();
  void disarm();
  void signal() noexcept;
  // Without the guard. Returns after timeout_ms, or earlier; -1: no limit.
  void sleep(int timeout_ms) noexcept;
  void interrupt() noexcept;

 private:
  Domain& domain_;
  fi_wait_obj kind_;
  os::Fd epoll_, event_;
  bool armed_ = false;
};

struct Completion {
  fi_cq_tagged_entry entry;
  fi_addr_t source;
};

// fi_cq_err_entry of libfabric 1.20 and later ends with the source address.
struct CompletionError {
  fi_cq_err_entry entry;
  fi_addr_t source;
  std::uint64_t address;  // err_data
};

class CompletionQueue : public fid_cq {
 public:
  CompletionQueue(Domain& domain, const fi_cq_attr& attr, fi_wait_obj kind);
  void add(const Completion& completion);
  void add_error(const CompletionError& error);
  bool empty() const noexcept { return head_ == tail_ && errors_.empty(); }

  ssize_t read(void* to, std::size_t count, fi_addr_t* sources);
  ssize_t wait(void* to, std::size_t count, fi_addr_t* sources, int timeout_ms);
  ssize_t read_error(fi_cq_err_entry& to);

  Domain& domain;
  Waiter waiter;
  Uses uses{0};
  std::atomic<bool> interrupted{false};

 private:
  ssize_t take(void* to, std::size_t count, fi_addr_t* sources);

  fi_cq_format format_;
  std::vector<Completion> ring_;
  std::size_t head_ = 0, tail_ = 0;
  std::deque<CompletionError> errors_;
  std::uint64_t error_data_ = 0;
};

class Counter : public fid_cntr {
 public:
  Counter(Domain& owner, fi_wait_obj kind);
  void add(std::uint64_t n = 1) {
    value.fetch_add(n);
    waiter.signal();
  }
  void add_error(std::uint64_t n = 1) {
    errors.fetch_add(n);
    waiter.signal();
  }

  Domain& domain;
  Waiter waiter;
  Uses uses{0};
  std::atomic<std::uint64_t> value{0}, errors{0};
  std::uint64_t seen = 0;  // by a poll set
};

// For fi_trywait: 0, or -FI_EAGAIN if an event is available.
int prepare_wait(fid* object);

}  // namespace nanet::fabric
