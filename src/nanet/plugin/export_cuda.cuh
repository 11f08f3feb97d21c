// SPDX-License-Identifier: Apache-2.0
// Plug-in table with the GPU functions: nanet's kernels, instantiated with the user's algorithm. Included
// once, by the generated .cu file.
#pragma once

#include "nanet/gpu/kernels/algorithm_batch_kernel.cuh"
#include "nanet/gpu/resident/frame_kernel.cuh"
#include "nanet/plugin/algorithm.hpp"
#include "nanet/rich/plugin_table.hpp"

namespace nanet::plugin {

template <class A>
struct ExportCuda {
  using R = Running<A>;

  static void fill_batch(void* kernel) {
    *static_cast<gpu::BatchKernel*>(kernel) = gpu::make_batch_kernel<R>();
  }
  // Kernel handle for other CUDA runtimes of the process; a kernel's host function is valid only in the
  // plug-in's runtime.
  static cudaError_t shared(const void*& function) {
    cudaKernel_t handle = nullptr;
    const cudaError_t status = cudaGetKernel(&handle, function);
    function = reinterpret_cast<const void*>(handle);
    return status;
  }
  static int fill_frame(void* kernel) {
    gpu::FrameKernel k = gpu::frame_kernel<R>();
    for (const void** function : {&k.resident, &k.resident_merged, &k.once, &k.serving}) {
      if (!*function) continue;
      if (const cudaError_t status = shared(*function)) return static_cast<int>(status);
    }
    *static_cast<gpu::FrameKernel*>(kernel) = k;
    return 0;
  }
  static const rich::PluginCuda* part() {
    static_assert(fits<A>());
    static const rich::PluginCuda p{fill_batch, fill_frame};
    return &p;
  }
};

}  // namespace nanet::plugin

#define NANET_ALGORITHM(Struct)                                      \
  extern "C" const nanet::rich::PluginCuda* nanet_algorithm_cuda() { \
    return nanet::plugin::ExportCuda<Struct>::part();                \
  }
