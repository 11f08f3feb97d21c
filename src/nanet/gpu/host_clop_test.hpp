// SPDX-License-Identifier: Apache-2.0
// GpuClop of tests without a GPU: a host thread per block.
#pragma once

#include <thread>
#include <vector>

#include "nanet/contract/atomic.hpp"
#include "nanet/gpu/clop.hpp"

namespace nanet::gpu {

// As GpuClop, without a GPU.
class HostClop {
 public:
  explicit HostClop(const contract::View& view) : done_(view.shape.events, 0) {
    clop.shape = view.shape;
    clop.clop = view.clop;
    clop.send_buffers = view.send_buffers;
    clop.send_address = reinterpret_cast<std::uintptr_t>(view.send_buffers);
    clop.queue = view.queue;
    clop.ring = view.ring;
    clop.returned = view.returned;
    clop.finished = view.finished;
    clop.doorbell = view.doorbell;
    clop.stop = &stop_;
    clop.state = &state;
    clop.done = done_.data();
    state.finished = contract::acquire(*view.finished);
  }
  ~HostClop() { stop(); }
  HostClop(const HostClop&) = delete;
  HostClop& operator=(const HostClop&) = delete;
  template <class BatchKernel>
  void start(unsigned blocks, BatchKernel kernel) {
    contract::release(stop_, 0u);
    state.claimed = state.finished;
    for (unsigned b = 0; b < blocks; ++b) blocks_.emplace_back([this, kernel] { kernel(clop); });
  }
  void stop() {
    contract::release(stop_, 1u);
    blocks_.clear();  // joins
  }
  Clop clop;
  contract::SharedReader state;

 private:
  std::uint32_t stop_ = 0;
  std::vector<std::uint32_t> done_;
  std::vector<std::jthread> blocks_;
};

}  // namespace nanet::gpu
