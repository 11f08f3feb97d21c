// SPDX-License-Identifier: Apache-2.0
#include "nanet/loop/plugin_kernel.hpp"

#include <map>
#include <mutex>

#include "nanet/loop/gpu_queue.hpp"

namespace nanet::loop {

const LoopKernel& plugin_loop_kernel(const rich::Plugin& plugin) {
  static std::mutex mutex;
  static std::map<const rich::PluginTable*, LoopKernel> known;
  const rich::PluginCuda& part = rich::plugin_cuda(plugin, &rich::PluginCuda::loop_layout, loop_layout);
  const std::lock_guard lock(mutex);
  const auto it = known.find(plugin.table);
  if (it != known.end()) return it->second;
  LoopKernel kernel{};
  need(static_cast<cudaError_t>(part.loop(&kernel)), "the kernels of " + plugin.path);
  return known.emplace(plugin.table, kernel).first->second;
}

}  // namespace nanet::loop
