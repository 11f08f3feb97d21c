// SPDX-License-Identifier: Apache-2.0
// Endpoint: messages with software matching, RMA and atomic operations over packets of a port.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nanet/fabric/address_vector.hpp"
#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/buffer.hpp"
#include "nanet/fabric/completion.hpp"
#include "nanet/fabric/domain.hpp"
#include "nanet/fabric/operation.hpp"

namespace nanet::fabric {

struct Outgoing {
  Buffer buffer;
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t tag = 0, data = 0;
  void* context = nullptr;
  std::uint64_t flags = 0;
  bool tagged = false, has_data = false, inject = false;
};

struct Incoming {
  Buffer buffer;
  fi_addr_t from = FI_ADDR_UNSPEC;
  std::uint64_t tag = 0, ignore = 0;
  void* context = nullptr;
  std::uint64_t flags = 0;
  bool tagged = false;
};

struct Rma {
  Buffer buffer;
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t address = 0, key = 0, data = 0;
  void* context = nullptr;
  std::uint64_t flags = 0;
  bool write = false, has_data = false, inject = false;
};

struct Atomic {
  Buffer operand, comparand, result;
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t address = 0, key = 0;
  fi_datatype datatype{};
  fi_op op{};
  void* context = nullptr;
  std::uint64_t flags = 0;
  bool fetch = false, compare = false, inject = false;
};

class Endpoint final : public Receiver {
 public:
  Endpoint(Domain& domain, const fi_info& info);
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Calls of the application; they need the domain's guard. They return 0 or a negative error code.
  int bind(fid& object, std::uint64_t flags);
  int enable();
  int set_name(const void* address, std::size_t bytes);
  ssize_t send(const Outgoing& message);
  ssize_t receive(const Incoming& wanted);
  ssize_t rma(const Rma& transfer);
  ssize_t atomic(const Atomic& operation);
  ssize_t cancel(void* context);

  // False: nothing happened.
  bool progress();
  // Sends queued operations, for a limited time.
  void flush();
  void publish(const Registration& registration) { port_->publish(registration); }
  void withdraw(std::uint64_t key) { port_->withdraw(key); }
  void refuse_direct() { port_->refuse_direct(); }
  Address address() const { return port_->address(); }
  bool enabled() const { return enabled_; }

  Domain& domain;
  std::size_t min_multi_recv = default_min_multi_recv;
  Uses uses{0};

  void receive(unsigned link, Address from, const Packet& packet, const std::byte* payload) override;
  void transferred(std::uint64_t token, Direct result) override;
  void lost(int error) override;

 private:
  struct Matching {  // of tagged or untagged messages
    List<Receive> posted;
    List<Unexpected> unexpected;
  };

  // Peers and transmission.
  Peer* peer(fi_addr_t index);
  Peer& peer(Address address);
  Channel* channel(Peer& peer, int& error);
  void renew(Peer& peer);
  fi_addr_t source(Peer& peer);
  Operation& new_operation(Peer& peer);
  void free_operation(Operation& op);
  void expect_answer(Operation& op);
  Operation* answered(std::uint64_t token, const Peer& peer);
  ssize_t submit(Operation& op);
  bool transmit(Operation& op);
  bool transmit_fragments(Operation& op, Channel& way);
  bool push(Peer& peer);
  void reply(Peer& peer, const Packet& packet);
  void sent(Operation& op);
  void count_waiting(Operation& op, unsigned n);
  bool full() const { return queued_ >= queue_size; }
  bool wants_report(std::uint64_t flags) const { return !tx_selective_ || (flags & FI_COMPLETION) != 0; }
  void complete(Operation& op);
  void fail(Operation& op, int error);
  void report_error(Operation& op, int error);
  void fail_peer(Peer& peer, int error);
  void check_peers();

  // Messages.
  void message(Peer& from, const Packet& packet, const std::byte* payload);
  bool matches(const Receive& receive, const Peer& from, const Packet& packet) const;
  Receive* match(Peer& from, const Packet& packet);
  Receive* take(Receive& posted, const Packet& packet);
  void deliver(Receive& receive, Peer& from, const Packet& packet, const std::byte* payload);
  void fetch(Receive& receive, Peer& from, const Packet& packet, const std::byte* payload);
  void finish(Receive& receive, Peer& from, const Packet& packet, int error);
  void acknowledge(Peer& to, const Packet& packet, int error = 0);
  void discard(Unexpected& message);
  ssize_t peek(const Incoming& wanted, Receive& probe);
  ssize_t claim(const Incoming& wanted);
  void match_multi(Receive& receive);
  void withdraw(Matching& side, Receive& posted, int error);
  void fail_posted(int error);
  Receive& new_receive(const Incoming& wanted);
  void free_receive(Receive& receive);
  void free_unexpected(Unexpected& message);

  // RMA and atomic operations at the target.
  void put(Peer& from, const Packet& packet, const std::byte* payload);
  void read(Peer& from, const Packet& packet);
  void execute(Peer& from, const Packet& packet, const std::byte* payload);
  void data(Peer& from, const Packet& packet, const std::byte* payload);
  void remote_data(Peer& from, const Packet& packet);
  void count_remote(const MemoryRegion* region, std::uint64_t right);
  bool direct(const Rma& transfer, Peer& to, std::uint64_t token, Direct& result);

  std::unique_ptr<Port> port_;
  AddressVector* av_ = nullptr;
  CompletionQueue *tx_queue_ = nullptr, *rx_queue_ = nullptr;
  Counter *send_count_ = nullptr, *recv_count_ = nullptr, *read_count_ = nullptr, *write_count_ = nullptr,
          *remote_read_count_ = nullptr, *remote_write_count_ = nullptr;
  std::vector<Uses*> bound_;
  const std::uint64_t caps_;
  const bool rma_ordered_;  // RMA must not overtake messages
  bool tx_selective_ = false, rx_selective_ = false, enabled_ = false;

  std::unordered_map<std::uint64_t, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> by_index_;  // of the address vector
  std::uint64_t by_index_version_ = 0;
  std::vector<Peer*> by_link_;
  std::vector<Peer*> active_;  // with queued operations
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_operations_;
  std::vector<std::unique_ptr<Receive>> receives_;
  std::vector<Receive*> free_receives_;
  Matching tagged_, untagged_;
  List<Unexpected> claimed_;
  std::size_t queued_ = 0, waiting_ = 0;
  unsigned ticks_ = 0;
  int lost_ = 0;  // error code of the end of the network
  Nanoseconds checked_ = 0;
};

}  // namespace nanet::fabric
