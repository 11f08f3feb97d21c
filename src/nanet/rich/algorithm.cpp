// SPDX-License-Identifier: Apache-2.0
// Registry of ring algorithms: names, traits, parameters and makers, for library algorithms and plug-ins.
#include "nanet/rich/algorithm.hpp"

#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "nanet/generated/algorithms.hpp"
#include "nanet/rich/parameters.hpp"
#include "nanet/rich/plugins.hpp"
#include "nanet/rich/simd.hpp"

namespace nanet::rich {
namespace {

template <class A>
constexpr AlgorithmTraits traits_of() {
  AlgorithmTraits traits;
  if constexpr (requires { A::most_rings; }) traits.most_rings = A::most_rings;
  if constexpr (requires { A::rejects_noise; }) traits.rejects_noise = A::rejects_noise;
  if constexpr (requires { A::assumes_centre; }) traits.assumes_centre = A::assumes_centre;
  if constexpr (requires { A::is_fit; }) traits.is_fit = A::is_fit;
  return traits;
}

template <class A>
std::vector<ParameterInfo> parameters_of() {
  std::vector<ParameterInfo> list;
  if constexpr (requires { A::keys(); }) {
    const typename A::Parameters defaults;
    for (const auto& key : A::keys())
      list.push_back({key.name, parameter(defaults, key), key.low, key.high, key.meaning});
  }
  return list;
}

[[noreturn]] void refuse(std::string_view algorithm, std::string_view key, double value,
                         const std::string& sentence) {
  std::ostringstream text;
  text << "algorithm." << algorithm << '.' << key << " = " << value << ": " << sentence;
  throw std::invalid_argument(text.str());
}

template <class A>
std::unique_ptr<Reconstructor> make(const Parameters& complete, const Geometry& geometry,
                                    MakeReconstructor reconstructor) {
  A algorithm;
  if constexpr (requires { A::keys(); }) {
    for (const auto& key : A::keys()) {
      const double value = complete.at(key.name);
      if (whole(key) && value != std::floor(value))
        refuse(A::name, key.name, value, "must be a whole number");
      set_parameter(algorithm.parameters, key, value);
    }
  }
  const auto low = complete.find("r_min"), high = complete.find("r_max");
  if (low != complete.end() && high != complete.end() && !(low->second < high->second))
    refuse(A::name, "r_min", low->second, "must be less than r_max");
  if constexpr (requires { algorithm.parameters.model; }) algorithm.parameters.model = geometry.rings;
  return reconstructor(&algorithm, geometry);
}

std::unique_ptr<Reconstructor> make_from(const Plugin& plugin, const Parameters& complete,
                                         const Geometry& geometry) {
  std::vector<double> values;
  for (std::uint32_t i = 0; i < plugin.table->parameters; ++i) {
    const PluginParameter& p = plugin.table->parameter[i];
    const double value = complete.at(p.name);
    if (p.whole && value != std::floor(value))
      refuse(plugin.table->name, p.name, value, "must be a whole number");
    values.push_back(value);
  }
  return make_plugin(plugin, values, geometry);
}

struct Entry {
  std::string_view name;
  AlgorithmTraits traits;
  std::vector<ParameterInfo> (*parameters)();
  std::unique_ptr<Reconstructor> (*make)(const Parameters& complete, const Geometry& geometry,
                                         MakeReconstructor reconstructor);
  std::size_t position;  // in the list
};

template <class... A>
constexpr std::array<Entry, sizeof...(A)> entries_of(AlgorithmList<A...>) {
  std::size_t position = 0;
  return {Entry{A::name, traits_of<A>(), parameters_of<A>, make<A>, position++}...};
}

constexpr auto entries = entries_of(RingAlgorithms{});

// A library algorithm or a plug-in algorithm; the other pointer is null.
struct Found {
  const Entry* entry = nullptr;
  const Plugin* plugin = nullptr;
  std::string_view name() const { return entry ? entry->name : plugin->table->name; }
  std::vector<ParameterInfo> parameters() const {
    return entry ? entry->parameters() : plugin_parameters(*plugin);
  }
};

Found find(std::string_view name) {
  if (names_a_plugin(name)) return {nullptr, &load_plugin(name)};
  for (const Entry& entry : entries) {
    if (entry.name == name) return {&entry, nullptr};
  }
  if (const Plugin* plugin = find_plugin(name)) return {nullptr, plugin};
  std::ostringstream text;
  text << "algorithm: '" << name << "' is not known; choose one of:";
  for (const Entry& entry : entries) text << ' ' << entry.name;
  throw std::invalid_argument(text.str());
}

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

AlgorithmTraits algorithm_traits(std::string_view name) {
  const Found found = find(name);
  return found.entry ? found.entry->traits : AlgorithmTraits{};
}

std::vector<ParameterInfo> algorithm_parameters(std::string_view name) {
  return find(name).parameters();
}

std::unique_ptr<Reconstructor> make_reconstructor(std::string_view name, const Parameters& parameters,
                                                  const Geometry& geometry, std::string_view simd_name) {
  const SimdVariant& variant = simd_name.empty() ? simd() : choose_simd(simd_name);
  const Found found = find(name);
  const std::vector<ParameterInfo> known = found.parameters();
  Parameters complete;
  for (const ParameterInfo& info : known) complete[info.name] = info.value;
  Parameters given = parameters;  // those of the detector count where none is given
  const auto of_detector = geometry.parameters.find(std::string(found.name()));
  if (of_detector != geometry.parameters.end())
    given.insert(of_detector->second.begin(), of_detector->second.end());
  for (const auto& [key, value] : given) {
    const ParameterInfo* info = nullptr;
    for (const ParameterInfo& candidate : known) {
      if (candidate.name == key) info = &candidate;
    }
    std::ostringstream text;
    if (!info) {
      text << "no such parameter; " << (known.empty() ? "it has none" : "choose one of:");
      for (const ParameterInfo& candidate : known) text << ' ' << candidate.name;
      refuse(found.name(), key, value, text.str());
    }
    if (!(value >= info->low && value <= info->high)) {
      text << "must be from " << info->low << " to " << info->high;
      refuse(found.name(), key, value, text.str());
    }
    complete[key] = value;
  }
  return found.entry ? found.entry->make(complete, geometry, variant.makers()[found.entry->position])
                     : make_from(*found.plugin, complete, geometry);
}

}  // namespace nanet::rich
