// SPDX-License-Identifier: Apache-2.0
// Batch kernels of an algorithm: a warp per event with a Scratch, a thread per event without. An algorithm
// with a faster kernel specialises the template in the header that rich/algorithms.list names; this one stays
// for hits at free positions and PM IDs of 16 bits.
#pragma once

#include "nanet/gpu/kernels/thread_kernel.cuh"
#include "nanet/gpu/kernels/wide_kernel.cuh"

namespace nanet::gpu {

template <class A>
cudaError_t launch_plain(const void* value, const DeviceBatch& batch,
                         const trigger::DecisionOptions& decision, int multiprocessors, cudaStream_t stream) {
  if constexpr (requires { typename A::Scratch; })
    return launch_wide<A>(value, batch, decision, multiprocessors, stream);
  else
    return launch_thread<A>(value, batch, decision, multiprocessors, stream);
}

template <class A>
struct AlgorithmBatchKernel {
  static BatchKernel make() {
    BatchKernel kernel;
    kernel.name = A::name;
    kernel.launch = launch_plain<A>;
    return kernel;
  }
};

template <class A>
BatchKernel make_batch_kernel() {
  BatchKernel kernel = AlgorithmBatchKernel<A>::make();
  kernel.launch_plain = launch_plain<A>;
  return kernel;
}

}  // namespace nanet::gpu
