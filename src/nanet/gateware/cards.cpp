// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/cards.hpp"

#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {

std::string_view simulation_missing() noexcept {
  return {};
}

void add_cards() {
  card::add_card("gateware", [] { return make_simulated_card(); });
  card::add_playback("gateware",
                     [](const card::ClopOptions& clop, std::uint16_t port, card::Transmit& transmit) {
                       return make_simulated_playback(clop, port, transmit);
                     });
}

}  // namespace nanet::gateware
