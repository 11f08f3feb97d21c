// SPDX-License-Identifier: Apache-2.0
// Registers the `gateware` card. In a build without the simulation, opening it throws with the remedy.
#pragma once

#include <string_view>

namespace nanet::gateware {

void register_cards();
// Reason why this build has no simulated card; empty if it has one.
std::string_view simulation_missing() noexcept;

}  // namespace nanet::gateware
