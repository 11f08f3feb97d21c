// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/batch_kernel.hpp"

#include <stdexcept>
#include <vector>

#include "nanet/generated/kernels.hpp"
#include "nanet/gpu/kernels/plugin_batch_kernel.hpp"
#include "nanet/gpu/kernels/registry.hpp"

namespace nanet::gpu {

const BatchKernel& kernel_of(std::string_view algorithm) {
  static const std::vector<BatchKernel> all = [] {
    std::vector<BatchKernel> kernels;
    for (const auto& make : batch_kernels) kernels.push_back(make());
    return kernels;
  }();
  for (const BatchKernel& kernel : all)
    if (kernel.name == algorithm) return kernel;
  if (const rich::Plugin* plugin = rich::find_plugin(algorithm)) return plugin_batch_kernel(*plugin);
  throw std::invalid_argument(no_kernel_message(algorithm));
}

}  // namespace nanet::gpu
