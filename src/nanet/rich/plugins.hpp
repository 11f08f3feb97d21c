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

// Whether an algorithm is named by its file: it has a slash or ends in ".so".
bool names_a_plugin(std::string_view algorithm) noexcept;

// Loads a plug-in, or gives the one that was loaded from there before; it stays for the life of the process.
// Throws std::invalid_argument with file, fault and remedy. From any thread.
const Plugin& load_plugin(std::string_view path);

// The loaded plug-in whose algorithm has this name, or nullptr. From any thread.
const Plugin* find_plugin(std::string_view name);

std::vector<ParameterInfo> plugin_parameters(const Plugin& plugin);
// values: in the order of the table's parameters, each checked.
std::unique_ptr<Reconstructor> make_plugin(const Plugin& plugin, const std::vector<double>& values,
                                           const Geometry& geometry);

// Its part for GPUs. Throws std::invalid_argument where it was built without CUDA, or with a layout other
// than `expected`; which: that one of PluginCuda.
const PluginCuda& plugin_cuda(const Plugin& plugin, std::uint64_t PluginCuda::* which,
                              std::uint64_t expected);

}  // namespace nanet::rich
