// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/plugin_batch_kernel.hpp"

#include <map>
#include <mutex>

namespace nanet::gpu {

const BatchKernel& plugin_batch_kernel(const rich::Plugin& plugin) {
  static std::mutex mutex;
  static std::map<const rich::PluginTable*, BatchKernel> known;
  const rich::PluginCuda& part = rich::plugin_cuda(plugin);
  const std::lock_guard lock(mutex);
  const auto it = known.find(plugin.table);
  if (it != known.end()) return it->second;
  BatchKernel kernel;
  part.batch(&kernel);
  return known.emplace(plugin.table, kernel).first->second;
}

}  // namespace nanet::gpu
