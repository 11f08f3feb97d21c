// SPDX-License-Identifier: Apache-2.0
// RDMA nodes without a GPU: host memory, a thread as emulated card of each node. Blocks are threads of the
// caller. For tests, and to try programs of rdma.hpp.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/gpu/rdma/node_memory.hpp"

namespace nanet::gpu {

class HostRdma {
 public:
  // Throws std::invalid_argument.
  explicit HostRdma(RdmaOptions options)
      : options_(std::move(options)), layout_(options_), table_(options_.gpus.size(), options_.buffers) {
    options_.gpus.assign(options_.gpus.size(), -1);
    for (std::size_t n = 0; n < options_.gpus.size(); ++n) {
      memory_.emplace_back(static_cast<std::byte*>(::operator new(layout_.bytes, alignment)));
      bases_.push_back(memory_.back().get());
    }
    clear();
  }
  ~HostRdma() { stop(); }
  HostRdma(const HostRdma&) = delete;
  HostRdma& operator=(const HostRdma&) = delete;

  unsigned nodes() const noexcept { return static_cast<unsigned>(bases_.size()); }
  static std::uint16_t domain(unsigned node) noexcept { return static_cast<std::uint16_t>(node + 1); }

  // Registers memory of a node; returns the key for the other nodes. Cards that run have the buffer when this
  // returns. Throws std::invalid_argument or std::length_error.
  RdmaKey register_memory(unsigned node, const void* at, std::size_t bytes,
                          std::uint8_t rights = read_and_write) {
    const RdmaKey key = table_.add(node, at, bytes, -1, rights, domain(node));
    publish_table();
    return key;
  }
  // No card uses the buffer when this returns. Throws std::invalid_argument.
  void unregister_memory(unsigned node, RdmaKey key) {
    table_.remove(node, key);
    publish_table();
  }

  // Starts the cards, with empty rings and queues.
  void start() {
    stop();
    clear();
    for (unsigned n = 0; n < nodes(); ++n)
      cards_.emplace_back([this, n, state = std::make_unique<CardState>()] {
        run_card(card_argument(options_, layout_, bases_, n), *state);
      });
    await_answers();
  }
  // Argument of the blocks of a node.
  Rdma argument(unsigned node) const {
    return rdma_argument(options_, layout_, bases_[node], node, domain(node));
  }
  // The cards finish the operations posted so far and end; blocks that wait end after them.
  void stop() noexcept {
    interrupt();
    cards_.clear();  // joins
  }
  // The same, without waiting for the end. From any thread.
  void interrupt() noexcept {
    for (unsigned n = 0; n < nodes(); ++n)
      contract::HostAccess::release(control(n).command, std::uint32_t{1});
  }
  RdmaCounters counters(unsigned node) const { return counters_of(control(node)); }
  CardControl& control(unsigned node) const { return *reinterpret_cast<CardControl*>(bases_[node]); }

 private:
  static constexpr std::align_val_t alignment{alignof(CardControl)};
  struct Free {
    void operator()(std::byte* at) const noexcept { ::operator delete(at, alignment); }
  };

  void clear() {
    for (std::byte* const base : bases_) {
      std::memset(base, 0, layout_.bytes);
      new (base) CardControl;
      reinterpret_cast<CardControl*>(base)->command = 2;
      std::memcpy(base + layout_.table, table_.data(), table_.bytes());
    }
    command_ = 2;
  }
  void publish_table() {
    for (std::byte* const base : bases_) std::memcpy(base + layout_.table, table_.data(), table_.bytes());
    if (cards_.empty()) return;
    command_ += 2;
    for (unsigned n = 0; n < nodes(); ++n) contract::HostAccess::release(control(n).command, command_);
    await_answers();
  }
  void await_answers() const {
    for (unsigned n = 0; n < nodes(); ++n)
      while (contract::HostAccess::acquire(control(n).answered) != command_) std::this_thread::yield();
  }

  RdmaOptions options_;
  NodeLayout layout_;
  BufferTable table_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<std::byte*> bases_;
  std::vector<std::jthread> cards_;
  std::uint32_t command_ = 0;
};

}  // namespace nanet::gpu
