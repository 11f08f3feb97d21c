// SPDX-License-Identifier: Apache-2.0
// The list of algorithms: name, parameters, maker.
#include "nanet/rich/algorithm.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "nanet/rich/almagest.hpp"
#include "nanet/rich/domh.hpp"
#include "nanet/rich/hough.hpp"
#include "nanet/rich/math_batch.hpp"
#include "nanet/rich/multiring.hpp"
#include "nanet/rich/parameters.hpp"
#include "nanet/rich/plugins.hpp"
#include "nanet/rich/pomh.hpp"
#include "nanet/rich/tripl.hpp"
#include "nanet/rich/wide.hpp"

namespace nanet::rich {
namespace {

// ---- The algorithms: an overload of keys_of for each, and a line in `entries` below.

template <class P>
Keys<P> ring_keys() {  // of every algorithm
  return {
      {"min_hits", &P::min_hits, 3, max_event_hits, "fewest hits that make a ring"},
      {"r_min", &P::r_min, 0, 1000, "smallest radius of a ring in mm"},
      {"r_max", &P::r_max, 0, 1000, "largest radius of a ring in mm"},
  };
}

template <class P>
Keys<P> robust_keys(const Keys<P>& more = {}) {  // of those that tell a ring's hits from others
  Keys<P> keys = ring_keys<P>();
  keys.push_back({"cut", &P::cut, 1, 100, "half the band about a ring that its hits lie in, in mm"});
  keys.push_back({"ambiguity_margin", &P::ambiguity_margin, 0, max_event_hits,
                  "a ring with fewer than min_hits + this many hits makes the event ambiguous"});
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Keys<Math::Parameters> keys_of(const Math&) {
  return ring_keys<Math::Parameters>();
}

Keys<Tripl::Parameters> keys_of(const Tripl&) {
  using P = Tripl::Parameters;
  return robust_keys<P>({
      {"triplets", &P::triplets, 1, Tripl::max_triplets, "triplets of hits looked at, 32 at a time"},
      {"separation", &P::separation, 0, 1000, "least distance between two hits of a triplet in mm"},
  });
}

Keys<Hough::Parameters> keys_of(const Hough&) {
  using P = Hough::Parameters;
  return robust_keys<P>({{"cell", &P::cell, 1, 100, "step of the coarse trial centres in mm"}});
}

Keys<Pomh::Parameters> keys_of(const Pomh&) {
  return robust_keys<Pomh::Parameters>();
}

Keys<Domh::Parameters> keys_of(const Domh&) {
  return robust_keys<Domh::Parameters>();
}

Keys<Almagest::Parameters> keys_of(const Almagest&) {
  using P = Almagest::Parameters;
  return robust_keys<P>({
      {"triplets", &P::triplets, 1, Almagest::max_triplets, "seed triplets for each ring, 32 at a time"},
      {"separation", &P::separation, 0, 1000, "least distance between two hits of a seed in mm"},
      {"ptolemy", &P::ptolemy, 1, 10000,
       "how far from Ptolemy's equation a hit of the seed's ring may be, in mm^2"},
      {"max_rings", &P::max_rings, 1, max_rings, "rings looked for"},
  });
}

Keys<Multiring::Parameters> keys_of(const Multiring&) {
  using P = Multiring::Parameters;
  return {
      {"min_hits", &P::min_hits, 3, max_event_hits, "fewest hits that make a ring"},
      {"r_min", &P::r_min, 5, 1000, "smallest radius of a ring in mm"},
      {"r_max", &P::r_max, 5, 1000, "radius at beta = 1 in mm: no ring is larger"},
      {"yield", &P::yield, 1, 100, "photoelectrons of a ring of radius r_max, on average"},
      {"noise", &P::noise, 0.05, 50, "noise hits per event, on average"},
      {"centre_x", &P::centre_x, -1000, 1000, "middle of the rings' centres in x in mm; in y it is 0"},
      {"centre_sigma", &P::centre_sigma, 5, 10000, "spread of the rings' centres per axis in mm"},
      {"radius_prior", &P::radius_prior, 0, 5,
       "rings are spread in radius as (1.06 - (r / r_max)^2)^-this; 0: evenly"},
      {"first_cost", &P::first_cost, 0, 50, "ln of the odds against an event's first ring"},
      {"ring_cost", &P::ring_cost, 0, 50, "ln of the odds against each further ring"},
      {"noise_adaption", &P::noise_adaption, 0, 5,
       "how much an event's stray hits count against its only ring; 0: not at all"},
      {"ambiguity_margin", &P::ambiguity_margin, 0, 50,
       "an event is ambiguous when another number of rings comes this near in ln of the odds"},
      {"breadth", &P::breadth, 1, Multiring::max_breadth,
       "ways of taking rings followed side by side: more is better and slower"},
  };
}

std::unique_ptr<Reconstructor> reconstructor_of(const Math& algorithm, const Geometry& geometry) {
  return make_math(algorithm, geometry);
}

template <class A>
std::unique_ptr<Reconstructor> reconstructor_of(const A& algorithm, const Geometry& geometry) {
  return std::make_unique<WideReconstructor<A>>(algorithm, geometry);
}

// ---- The same for all.

template <class A>
std::vector<ParameterInfo> parameters_of() {
  const typename A::Parameters defaults;
  std::vector<ParameterInfo> list;
  for (const auto& key : keys_of(A{})) {
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
std::unique_ptr<Reconstructor> make(const Parameters& complete, const Geometry& geometry) {
  A algorithm;
  for (const auto& key : keys_of(algorithm)) {
    const double value = complete.at(key.name);
    if (whole(key) && value != std::floor(value)) refuse(A::name, key.name, value, "must be a whole number");
    set_parameter(algorithm.parameters, key, value);
  }
  if (!(complete.at("r_min") < complete.at("r_max")))
    refuse(A::name, "r_min", complete.at("r_min"), "must be less than r_max");
  return reconstructor_of(algorithm, geometry);
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
  std::vector<ParameterInfo> (*parameters)();
  std::unique_ptr<Reconstructor> (*make)(const Parameters& complete, const Geometry& geometry);
};

template <class A>
constexpr Entry entry{A::name, parameters_of<A>, make<A>};

constexpr Entry entries[] = {entry<Math>, entry<Tripl>,    entry<Hough>,    entry<Pomh>,
                             entry<Domh>, entry<Almagest>, entry<Multiring>};

// An algorithm of this list, or one of a plug-in: the other is null.
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

std::vector<ParameterInfo> algorithm_parameters(std::string_view name) {
  return find(name).parameters();
}

std::unique_ptr<Reconstructor> make_reconstructor(std::string_view name, const Parameters& parameters,
                                                  const Geometry& geometry) {
  const Found found = find(name);
  const std::vector<ParameterInfo> known = found.parameters();
  Parameters complete;
  for (const ParameterInfo& info : known) complete[info.name] = info.value;
  for (const auto& [key, value] : parameters) {
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
  return found.entry ? found.entry->make(complete, geometry) : make_from(*found.plugin, complete, geometry);
}

}  // namespace nanet::rich
