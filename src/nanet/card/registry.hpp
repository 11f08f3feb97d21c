// SPDX-License-Identifier: Apache-2.0
// Registry of cards by name. A new card is one entry: functions to open it and to replay a capture through
// it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/card/playback.hpp"

namespace nanet::card {

struct CardKind {
  std::function<std::unique_ptr<Card>()> open;
  // Empty: `nanet replay` uses the software datapath.
  PlaybackMaker open_playback;
};

// Registers a card before any is opened; replaces an entry with the same name. registry.cpp lists the cards
// of the core library.
void register_card(std::string name, CardKind kind);
// Throws std::invalid_argument naming the cards of this build.
const CardKind& card_kind(std::string_view name);
std::vector<std::string> card_names();

}  // namespace nanet::card
