// SPDX-License-Identifier: Apache-2.0
// The list of algorithms: name, parameters, maker.
#include "nanet/rich/algorithm.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "nanet/rich/math_batch.hpp"

namespace nanet::rich {
namespace {

struct Entry {
  std::string_view name;
  std::vector<ParameterInfo> (*parameters)();
  std::unique_ptr<Reconstructor> (*make)(const Parameters& complete, const Geometry& geometry);
};

std::vector<ParameterInfo> math_parameters() {
  const Math::Parameters defaults;
  return {
      {"min_hits", static_cast<double>(defaults.min_hits), 3, max_event_hits, "fewest hits that make a ring"},
      {"r_min", static_cast<double>(defaults.r_min), 0, 1000, "smallest radius of a ring in mm"},
      {"r_max", static_cast<double>(defaults.r_max), 0, 1000, "largest radius of a ring in mm"},
  };
}

std::unique_ptr<Reconstructor> make_math_from(const Parameters& complete, const Geometry& geometry) {
  const auto require = [&](bool right, const char* key, const char* sentence) {
    if (right) return;
    std::ostringstream text;
    text << "algorithm.math." << key << " = " << complete.at(key) << ": " << sentence;
    throw std::invalid_argument(text.str());
  };
  require(complete.at("min_hits") == std::floor(complete.at("min_hits")), "min_hits",
          "must be a whole number");
  require(complete.at("r_min") < complete.at("r_max"), "r_min", "must be less than r_max");
  Math math;
  math.parameters.min_hits = static_cast<std::uint32_t>(complete.at("min_hits"));
  math.parameters.r_min = static_cast<float>(complete.at("r_min"));
  math.parameters.r_max = static_cast<float>(complete.at("r_max"));
  return make_math(math, geometry);
}

constexpr Entry entries[] = {{Math::name, math_parameters, make_math_from}};

const Entry& find(std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
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
  const Entry& entry = find(name);
  const std::vector<ParameterInfo> known = entry.parameters();
  const std::string where = "algorithm." + std::string(name) + ".";
  Parameters complete;
  for (const ParameterInfo& info : known) complete[info.name] = info.value;
  for (const auto& [key, value] : parameters) {
    const ParameterInfo* info = nullptr;
    for (const ParameterInfo& candidate : known) {
      if (candidate.name == key) info = &candidate;
    }
    std::ostringstream text;
    if (!info) {
      text << where << key << " = " << value << ": no such parameter; choose one of:";
      for (const ParameterInfo& candidate : known) text << ' ' << candidate.name;
      throw std::invalid_argument(text.str());
    }
    if (!(value >= info->low && value <= info->high)) {
      text << where << key << " = " << value << ": must be from " << info->low << " to " << info->high;
      throw std::invalid_argument(text.str());
    }
    complete[key] = value;
  }
  return entry.make(complete, geometry);
}

}  // namespace nanet::rich
