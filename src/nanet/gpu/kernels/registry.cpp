// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/registry.hpp"

#include "nanet/generated/kernel_names.hpp"

namespace nanet::gpu {

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const char* const* name = generated_kernel_names; *name; ++name) names.emplace_back(*name);
  return names;
}

std::string no_kernel_message(std::string_view algorithm) {
  std::string text = "trigger.algorithm = " + std::string(algorithm) + ": this build has GPU kernels for";
  for (const std::string& name : kernel_names()) text += ' ' + name;
  return text + " only: use --device cpu, or build with -DNANET_CUDA_ALGORITHMS=all";
}

}  // namespace nanet::gpu
