// SPDX-License-Identifier: Apache-2.0
// Binary interface of plug-ins: one C function that returns a table of plain data and C functions. The first
// four members never change, so that any version of nanet recognises tables of other versions; the rest has
// this form where the build ID is equal. Written by plugin/export_*.hpp, read by plugins.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/rich/ring.hpp"

namespace nanet::rich {

// Read by nanet 0.1.0 only, which has no build IDs and refuses all but 1.
inline constexpr std::uint32_t plugin_interface = 2;
inline constexpr std::uint64_t plugin_magic = 0x676C61'74656E616Eull;  // "nanetalg"
inline constexpr const char* plugin_symbol = "nanet_algorithm";
// Second exported symbol, a string: instruction sets of the target processor, each followed by a space.
inline constexpr const char* plugin_needs_symbol = "nanet_algorithm_needs";

struct PluginParameter {
  const char* name;
  double value, low, high;
  const char* meaning;
  std::uint32_t whole;  // 1: integers only
};

// GPU part: functions that fill structures defined above this layer. The results run in the plug-in's CUDA
// runtime, or are a cudaKernel_t, which any runtime of the process can launch.
struct PluginCuda {
  void (*batch)(void* kernel);  // fills a gpu::BatchKernel
  int (*frame)(void* kernel);   // fills a gpu::FrameKernel; returns a cudaError_t
};

struct PluginTable {
  std::uint64_t magic;
  std::uint32_t interface;
  std::uint32_t bytes;   // size of this table
  const char* build_id;  // plugin_build_id.hpp; of nanet 0.1.0: its version
  const char* name;      // name of the algorithm: characters a-z, 0-9, _
  std::uint32_t parameters;
  const PluginParameter* parameter;
  std::size_t value_bytes, value_align;      // algorithm struct
  std::size_t scratch_bytes, scratch_align;  // working memory; may be 0
  // Constructs the struct from parameter values in table order.
  void (*make)(const double* values, void* value);
  // Reconstructs the events of a batch in order. plane: plane_table() (reconstructor.hpp).
  void (*reconstruct)(const void* value, const Point* plane, void* scratch, const EventBatch* batch,
                      Rings* rings);
  const PluginCuda* cuda;  // null: built without CUDA
};
static_assert(offsetof(PluginTable, interface) == 8 && offsetof(PluginTable, bytes) == 12 &&
              offsetof(PluginTable, build_id) == 16);

using PluginFunction = const PluginTable* (*)();

}  // namespace nanet::rich
