// SPDX-License-Identifier: Apache-2.0
#include "nanet/cuda/kernel.hpp"

#include <stdexcept>

#include "nanet/cuda/plugin_kernel.hpp"

namespace nanet::cuda {

extern const Kernel kernel_math, kernel_tripl, kernel_hough, kernel_pomh, kernel_domh, kernel_almagest,
    kernel_multiring;

const Kernel& kernel_of(std::string_view algorithm) {
  for (const Kernel* kernel : {&kernel_math, &kernel_tripl, &kernel_hough, &kernel_pomh, &kernel_domh,
                               &kernel_almagest, &kernel_multiring}) {
    if (kernel->name == algorithm) return *kernel;
  }
  if (const rich::Plugin* plugin = rich::find_plugin(algorithm)) return plugin_kernel(*plugin);
  throw std::invalid_argument("algorithm: '" + std::string(algorithm) +
                              "' has no kernel for GPUs: use --device cpu");
}

}  // namespace nanet::cuda
