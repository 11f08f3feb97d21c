// SPDX-License-Identifier: Apache-2.0
// How an algorithm describes its parameters: a list of keys, each with the member that it sets. For the
// algorithms of this library and for those of plug-ins.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

namespace nanet::rich {

// A parameter of an algorithm whose Parameters are P: its key in the configuration and the member it sets.
template <class P>
struct Key {
  const char* name;
  std::variant<std::uint32_t P::*, float P::*> member;  // a whole number, or any
  double low, high;                                     // inclusive
  const char* meaning;                                  // a clause, with the unit
};
template <class P>
using Keys = std::vector<Key<P>>;

template <class P>
double parameter(const P& parameters, const Key<P>& key) {
  return std::visit([&](auto member) { return static_cast<double>(parameters.*member); }, key.member);
}
// The value is one that the key takes: within its range, and whole where whole() says so.
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

}  // namespace nanet::rich
