// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/plugins.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "nanet/rich/plugin_build_id.hpp"
#include "nanet/rich/reconstructor.hpp"

namespace nanet::rich {
namespace {

struct Loaded {
  std::mutex mutex;
  std::deque<Plugin> all;  // deque: addresses stay valid
};
Loaded& loaded() {
  static Loaded l;
  return l;
}

// Memory for a struct of a type defined in the plug-in.
class Room {
 public:
  Room(std::size_t bytes, std::size_t align)
      : bytes_(bytes), align_(std::max<std::size_t>(align, 64)), at_(allocate()) {
    std::memset(at_, 0, bytes_);
  }
  Room(const Room& other) : bytes_(other.bytes_), align_(other.align_), at_(allocate()) {
    std::memcpy(at_, other.at_, bytes_);
  }
  Room& operator=(const Room&) = delete;
  ~Room() { ::operator delete(at_, std::align_val_t{align_}); }
  void* at() noexcept { return at_; }
  const void* at() const noexcept { return at_; }

 private:
  void* allocate() const {
    return ::operator new(std::max<std::size_t>(bytes_, 1), std::align_val_t{align_});
  }
  std::size_t bytes_, align_;
  void* at_;
};

class PluginReconstructor final : public Reconstructor {
 public:
  PluginReconstructor(const PluginTable& table, const std::vector<double>& values, const Geometry& geometry)
      : table_(table),
        plane_(geometry),
        value_(table.value_bytes, table.value_align),
        scratch_(table.scratch_bytes, table.scratch_align) {
    table.make(values.data(), value_.at());
  }
  std::string_view name() const noexcept override { return table_.name; }
  std::unique_ptr<Reconstructor> clone() const override {
    return std::make_unique<PluginReconstructor>(*this);
  }
  const void* value() const noexcept override { return value_.at(); }
  void operator()(const EventBatch& batch, Rings* rings) noexcept override {
    table_.reconstruct(value_.at(), plane_.data(), scratch_.at(), &batch, rings);
  }
  void operator()(const PointBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t i = 0; i < batch.events; ++i) {
      const EventView event = plane_.hits(batch, i);
      const std::uint32_t first[2] = {0, event.hits};
      const EventBatch one{1, first, event.pm};
      table_.reconstruct(value_.at(), plane_.data(), scratch_.at(), &one, rings + i);
    }
  }

 private:
  const PluginTable& table_;
  Plane plane_;
  Room value_, scratch_;
};

[[noreturn]] void refuse(std::string_view path, const std::string& sentence) {
  throw std::invalid_argument("algorithm = " + std::string(path) + ": " + sentence);
}

constexpr const char* again = ": build it again with this nanet's headers (nanet build-algorithm)";

void check(std::string_view path, const PluginTable* table) {
  if (!table || table->magic != plugin_magic) refuse(path, std::string("is no algorithm of nanet") + again);
  if (std::string_view(table->build_id) != build_id())
    refuse(path, std::string("has build ID ") + table->build_id + ", this nanet has " +
                     std::string(build_id()) + again);
  const std::string_view name = table->name;
  const bool word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!word)
    refuse(path, "its algorithm's name is '" + std::string(name) + "': must be of a to z, 0 to 9 and _");
  const std::vector<std::string> own = algorithm_names();
  if (std::find(own.begin(), own.end(), name) != own.end())
    refuse(path, "its algorithm's name is '" + std::string(name) +
                     "', as of one of nanet's own: give it another `name`");
}

// Checks the processor, which may differ from the build machine, before any plug-in instruction runs.
void check_processor(std::string_view path, std::string_view needs) {
#if defined(__x86_64__)
  const std::pair<std::string_view, bool> sets[] = {
      {"sse4.2", __builtin_cpu_supports("sse4.2")},     {"popcnt", __builtin_cpu_supports("popcnt")},
      {"avx2", __builtin_cpu_supports("avx2")},         {"fma", __builtin_cpu_supports("fma")},
      {"bmi2", __builtin_cpu_supports("bmi2")},         {"avx512f", __builtin_cpu_supports("avx512f")},
      {"avx512vl", __builtin_cpu_supports("avx512vl")}, {"avx512bw", __builtin_cpu_supports("avx512bw")},
      {"avx512dq", __builtin_cpu_supports("avx512dq")}, {"avx512vbmi", __builtin_cpu_supports("avx512vbmi")}};
  std::string missing;
  for (; !needs.empty(); needs.remove_prefix(std::min(needs.find(' ') + 1, needs.size()))) {
    const std::string_view word = needs.substr(0, needs.find(' '));
    const auto* const known =
        std::find_if(std::begin(sets), std::end(sets), [&](const auto& set) { return set.first == word; });
    if (known == std::end(sets) || !known->second) missing += ' ' + std::string(word);
    if (word.size() == needs.size()) break;
  }
  if (!missing.empty())
    refuse(path, "was built for a processor with" + missing +
                     ", which this one has not: build it again here "
                     "(nanet build-algorithm)");
#else
  static_cast<void>(path);
  static_cast<void>(needs);
#endif
}

void check_parameters(std::string_view path, const PluginTable& table) {
  for (std::uint32_t i = 0; i < table.parameters; ++i) {
    const PluginParameter& p = table.parameter[i];
    if (p.value >= p.low && p.value <= p.high) continue;
    std::ostringstream text;
    text << "its parameter " << p.name << " is " << p.value << " where nothing is said: must be from "
         << p.low << " to " << p.high << ", as it declares itself";
    refuse(path, text.str());
  }
}

}  // namespace

std::string_view build_id() noexcept {
  return plugin_build_id.data();
}

bool names_a_plugin(std::string_view algorithm) noexcept {
  return algorithm.find('/') != std::string_view::npos || algorithm.ends_with(".so");
}

const Plugin& load_plugin(std::string_view path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(std::string(path), error);
  if (error) refuse(path, error.message() + ": give the .so that nanet build-algorithm made");
  Loaded& l = loaded();
  const std::lock_guard lock(l.mutex);
  for (const Plugin& plugin : l.all)
    if (plugin.path == whole) return plugin;
  void* const handle = dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): of this thread
  if (!handle)
    refuse(path,
           std::string("cannot be loaded: ") + dlerror() + ": give the .so that nanet build-algorithm made");
  const auto function = reinterpret_cast<PluginFunction>(dlsym(handle, plugin_symbol));
  try {
    if (!function)
      refuse(path,
             std::string("is no algorithm of nanet (it has no function ") + plugin_symbol + ")" + again);
    if (const auto* const needs = static_cast<const char*>(dlsym(handle, plugin_needs_symbol)))
      check_processor(path, needs);
    const PluginTable* const table = function();
    check(path, table);
    check_parameters(path, *table);
    for (const Plugin& plugin : l.all)
      if (std::string_view(plugin.table->name) == table->name)
        refuse(path, "its algorithm's name is '" + std::string(table->name) + "', as of " + plugin.path +
                         ": give one of them another `name`");
    l.all.push_back({whole, table});
  } catch (...) {
    dlclose(handle);
    throw;
  }
  return l.all.back();
}

const Plugin* find_plugin(std::string_view name) {
  Loaded& l = loaded();
  const std::lock_guard lock(l.mutex);
  for (const Plugin& plugin : l.all)
    if (name == plugin.table->name) return &plugin;
  return nullptr;
}

std::vector<ParameterInfo> plugin_parameters(const Plugin& plugin) {
  std::vector<ParameterInfo> list;
  for (std::uint32_t i = 0; i < plugin.table->parameters; ++i) {
    const PluginParameter& p = plugin.table->parameter[i];
    list.push_back({p.name, p.value, p.low, p.high, p.meaning});
  }
  return list;
}

std::unique_ptr<Reconstructor> make_plugin(const Plugin& plugin, const std::vector<double>& values,
                                           const Geometry& geometry) {
  return std::make_unique<PluginReconstructor>(*plugin.table, values, geometry);
}

const PluginCuda& plugin_cuda(const Plugin& plugin) {
  const PluginCuda* const cuda = plugin.table->cuda;
  if (!cuda)
    refuse(plugin.path,
           "was built without CUDA and runs on CPUs only: use --device cpu, or build it again "
           "where there is an nvcc");
  return *cuda;
}

}  // namespace nanet::rich
