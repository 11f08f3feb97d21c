// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/registry.hpp"

#include <map>
#include <stdexcept>
#include <utility>

#include "nanet/card/socket/socket_card.hpp"
#include "nanet/card/xdp/xdp_card.hpp"

namespace nanet::card {
namespace {

using Registry = std::map<std::string, CardKind, std::less<>>;

Registry& kinds() {
  static Registry all{
      {"socket", {.open = [] { return std::make_unique<SocketCard>(); }, .open_playback = {}}},
      {"xdp", {.open = open_xdp_card, .open_playback = {}}},
  };
  return all;
}

}  // namespace

void register_card(std::string name, CardKind kind) {
  kinds()[std::move(name)] = std::move(kind);
}

const CardKind& card_kind(std::string_view name) {
  if (const auto it = kinds().find(name); it != kinds().end()) return it->second;
  std::string known;
  for (const auto& other : card_names()) known += (known.empty() ? "" : ", ") + other;
  throw std::invalid_argument("card = " + std::string(name) + " is unknown; cards of this build: " + known);
}

std::vector<std::string> card_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds()) names.push_back(name);
  return names;
}

std::unique_ptr<Card> open_card(std::string_view name) {
  return card_kind(name).open();
}

}  // namespace nanet::card
