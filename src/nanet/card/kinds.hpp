// SPDX-License-Identifier: Apache-2.0
// Kinds of something by name, each with what makes one, and the one refusal of a name that is not there.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace nanet::card {

template <class Maker>
class Kinds {
 public:
  // known: kinds that are made elsewhere, named in refusals.
  explicit Kinds(std::string known = {}) : known_(std::move(known)) {}

  // One that is there already is replaced.
  void add(std::string kind, Maker make) { makers_[std::move(kind)] = std::move(make); }
  // Throws std::invalid_argument naming the kinds there are.
  const Maker& at(std::string_view kind) const {
    if (const auto it = makers_.find(kind); it != makers_.end()) return it->second;
    std::string there = known_;
    for (const auto& [name, make] : makers_) there += (there.empty() ? "" : ", ") + name;
    throw std::invalid_argument("card = " + std::string(kind) +
                                " is not there; cards of this build: " + there);
  }

 private:
  std::string known_;
  std::map<std::string, Maker, std::less<>> makers_;
};

}  // namespace nanet::card
