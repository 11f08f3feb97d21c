// SPDX-License-Identifier: Apache-2.0
// Plug-in loader: opens shared objects with user algorithms (docs/writing-algorithms.md), checks them against
// this build, and provides them as reconstructors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/plugin_table.hpp"

namespace nanet::rich {

struct Plugin {
  std::string path;
  const PluginTable* table = nullptr;
};

// Build ID that a plug-in must have (plugin_build_id.hpp).
std::string_view build_id() noexcept;

// True if the algorithm is given as a file: the name has a slash or ends in ".so".
bool names_a_plugin(std::string_view algorithm) noexcept;

// Loads a plug-in once per file and process; it is never unloaded. Throws std::invalid_argument with file,
// fault and remedy. Thread-safe.
const Plugin& load_plugin(std::string_view path);

// Loaded plug-in with this algorithm name, or nullptr. Thread-safe.
const Plugin* find_plugin(std::string_view name);

std::vector<ParameterInfo> plugin_parameters(const Plugin& plugin);
// values: in the order of the table's parameters, already checked.
std::unique_ptr<Reconstructor> make_plugin(const Plugin& plugin, const std::vector<double>& values,
                                           const Geometry& geometry);

// GPU part of a plug-in. Throws std::invalid_argument for a build without CUDA.
const PluginCuda& plugin_cuda(const Plugin& plugin);

}  // namespace nanet::rich
