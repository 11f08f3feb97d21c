// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/kernels/plugin_frame_kernel.hpp"

#include <map>
#include <mutex>

#include "nanet/gpu/gpu_queue.hpp"

namespace nanet::gpu {

const FrameKernel& plugin_frame_kernel(const rich::Plugin& plugin) {
  static std::mutex mutex;
  static std::map<const rich::PluginTable*, FrameKernel> known;
  const rich::PluginCuda& part = rich::plugin_cuda(plugin);
  const std::lock_guard lock(mutex);
  const auto it = known.find(plugin.table);
  if (it != known.end()) return it->second;
  FrameKernel kernel{};
  require(static_cast<cudaError_t>(part.frame(&kernel)), "the kernels of " + plugin.path);
  return known.emplace(plugin.table, kernel).first->second;
}

}  // namespace nanet::gpu
