// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/cards.hpp"

#include "nanet/card/registry.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {

std::string_view simulation_missing() noexcept {
  return {};
}

void register_cards() {
  card::register_card("gateware",
                      {.open = [] { return make_simulated_card(); },
                       .open_playback =
                           [](const card::ClopOptions& clop, std::uint16_t port, card::Transmit& transmit) {
                             return make_simulated_playback(clop, port, transmit);
                           }});
}

}  // namespace nanet::gateware
