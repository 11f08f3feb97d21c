// SPDX-License-Identifier: Apache-2.0
// Makes the `gateware` card known to open_card and open_playback. In a build without the simulation, naming
// it says what is missing.
#pragma once

#include <string_view>

namespace nanet::gateware {

void add_cards();
// Why there is no simulated card in this build; empty: there is one.
std::string_view simulation_missing() noexcept;

}  // namespace nanet::gateware
