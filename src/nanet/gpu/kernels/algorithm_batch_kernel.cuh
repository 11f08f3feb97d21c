// SPDX-License-Identifier: Apache-2.0
// Batch kernel of an algorithm: a warp per event with a Scratch, a thread per event without. An algorithm
// with a faster kernel specialises the template in the header that rich/algorithms.list names.
#pragma once

#include "nanet/gpu/kernels/thread_kernel.cuh"
#include "nanet/gpu/kernels/wide_kernel.cuh"

namespace nanet::gpu {

template <class A>
struct AlgorithmBatchKernel {
  static BatchKernel make() {
    BatchKernel kernel;
    kernel.name = A::name;
    if constexpr (requires { typename A::Scratch; })
      kernel.launch = launch_wide<A>;
    else
      kernel.launch = launch_thread<A>;
    return kernel;
  }
};

}  // namespace nanet::gpu
