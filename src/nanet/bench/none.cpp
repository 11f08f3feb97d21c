// SPDX-License-Identifier: Apache-2.0
// GPU benchmarks in builds without CUDA: report the missing component.
#include <stdexcept>

#include "nanet/bench/buffers_cuda.hpp"
#include "nanet/bench/rdma.hpp"
#include "nanet/bench/rings_cuda.hpp"

namespace nanet::bench {

RingsCudaResult rings_cuda(const rich::EventBatch&, const RingsCudaOptions&) {
  throw std::invalid_argument("this build has no CUDA component");
}

void buffers_cuda(const BuffersOptions&, BuffersResult&) {
  throw std::runtime_error("this build has no CUDA component");
}

std::unique_ptr<RdmaBench> open_rdma_cuda(int, int) {
  throw std::runtime_error("this build has no CUDA component");
}

}  // namespace nanet::bench
