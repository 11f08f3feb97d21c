// SPDX-License-Identifier: Apache-2.0
// The part of a plug-in for GPUs: nanet's kernels with the user's algorithm in them. Included once, by the
// generated .cu file.
#pragma once

#include "nanet/cuda/plugin_kernel.hpp"
#include "nanet/cuda/thread_kernel.cuh"
#include "nanet/cuda/wide_kernel.cuh"
#include "nanet/loop/plugin_kernel.hpp"
#include "nanet/loop/resident.cuh"
#include "nanet/plugin/algorithm.hpp"

namespace nanet::plugin {

template <class A>
struct ExportCuda {
  using R = Running<A>;

  static void fill_batch(void* kernel) {
    auto& k = *static_cast<cuda::Kernel*>(kernel);
    k.name = A::name;
    if constexpr (Wide<A>)
      k.launch = cuda::launch_wide<R>;
    else
      k.launch = cuda::launch_thread<R>;
    k.work_bytes = [](std::uint32_t) -> std::size_t { return 0; };
  }
  // A kernel's host function means nothing to another CUDA runtime than the plug-in's own; its handle does.
  static cudaError_t shared(const void*& function) {
    cudaKernel_t handle = nullptr;
    const cudaError_t status = cudaGetKernel(&handle, function);
    function = reinterpret_cast<const void*>(handle);
    return status;
  }
  static int fill_loop(void* kernel) {
    loop::LoopKernel k = loop::loop_kernel<R>();
    for (const void** function : {&k.resident, &k.once})
      if (const cudaError_t status = shared(*function)) return static_cast<int>(status);
    *static_cast<loop::LoopKernel*>(kernel) = k;
    return 0;
  }
  static const rich::PluginCuda* part() {
    static_assert(fits<A>());
    static const rich::PluginCuda p{cuda::batch_layout, loop::loop_layout, fill_batch, fill_loop};
    return &p;
  }
};

}  // namespace nanet::plugin

#define NANET_ALGORITHM(Struct)                                      \
  extern "C" const nanet::rich::PluginCuda* nanet_algorithm_cuda() { \
    return nanet::plugin::ExportCuda<Struct>::part();                \
  }
