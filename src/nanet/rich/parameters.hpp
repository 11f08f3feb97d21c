// SPDX-License-Identifier: Apache-2.0
// Parameter keys of an algorithm: name, member, range and meaning. For library algorithms and plug-ins.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::rich {

// One key of the section [algorithm.NAME]. P: the algorithm's Parameters.
template <class P>
struct Key {
  const char* name;
  std::variant<std::uint32_t P::*, float P::*> member;  // uint32_t: whole numbers only
  double low, high;                                     // inclusive
  const char* meaning;                                  // description, with the unit
};
template <class P>
using Keys = std::vector<Key<P>>;

template <class P>
double parameter(const P& parameters, const Key<P>& key) {
  return std::visit([&](auto member) { return static_cast<double>(parameters.*member); }, key.member);
}
// value: within the range of the key, and an integer if whole(key).
template <class P>
void set_parameter(P& parameters, const Key<P>& key, double value) {
  std::visit(
      [&](auto member) {
        auto& set = parameters.*member;
        set = static_cast<std::remove_reference_t<decltype(set)>>(value);
      },
      key.member);
}
template <class P>
bool whole(const Key<P>& key) {
  return std::holds_alternative<std::uint32_t P::*>(key.member);
}

// Keys of every ring algorithm.
template <class P>
Keys<P> ring_keys() {
  return {
      {"min_hits", &P::min_hits, 3, max_event_hits, "fewest hits that make a ring"},
      {"r_min", &P::r_min, 0, 1000, "smallest radius of a ring in mm"},
      {"r_max", &P::r_max, 0, 1000, "largest radius of a ring in mm"},
  };
}

// Keys of the algorithms that reject noise hits (RingLimits), followed by `more`.
template <class P>
Keys<P> robust_keys(const Keys<P>& more = {}) {
  Keys<P> keys = ring_keys<P>();
  keys.push_back({"cut", &P::cut, 1, 100, "half the band about a ring that its hits lie in, in mm"});
  keys.push_back({"ambiguity_margin", &P::ambiguity_margin, 0, max_event_hits,
                  "a ring with fewer than min_hits + this many hits makes the event ambiguous"});
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace nanet::rich
