// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/batch_kernel.hpp"

#include <stdexcept>

#include "nanet/gpu/kernels/plugin_batch_kernel.hpp"

namespace nanet::gpu {

extern const BatchKernel kernel_math, kernel_tripl, kernel_hough, kernel_pomh, kernel_domh, kernel_almagest,
    kernel_multiring;

const BatchKernel& kernel_of(std::string_view algorithm) {
  for (const BatchKernel* kernel : {&kernel_math, &kernel_tripl, &kernel_hough, &kernel_pomh, &kernel_domh,
                                    &kernel_almagest, &kernel_multiring}) {
    if (kernel->name == algorithm) return *kernel;
  }
  if (const rich::Plugin* plugin = rich::find_plugin(algorithm)) return plugin_batch_kernel(*plugin);
  throw std::invalid_argument("algorithm: '" + std::string(algorithm) +
                              "' has no kernel for GPUs: use --device cpu");
}

}  // namespace nanet::gpu
