// SPDX-License-Identifier: Apache-2.0
// The gateware card of a build without the simulation: the reason.
#include <stdexcept>
#include <string>

#include "nanet/card/card.hpp"
#include "nanet/card/playback.hpp"
#include "nanet/gateware/bench.hpp"
#include "nanet/gateware/cards.hpp"

namespace nanet::gateware {

std::string_view simulation_missing() noexcept {
  return "this build has no simulated gateware: run it from a source tree with ./dev, which gets Verilator, "
         "or configure with -DNANET_GATEWARE=ON";
}

void add_cards() {
  const auto refuse = [](const auto&...) -> std::nullptr_t {
    throw std::invalid_argument("card = gateware: " + std::string(simulation_missing()) +
                                "; or use --card socket");
  };
  card::add_card("gateware", [=] { return std::unique_ptr<card::Card>(refuse()); });
  card::add_playback("gateware", [=](const card::ClopOptions&, std::uint16_t, card::Transmit&) {
    return std::unique_ptr<card::Playback>(refuse());
  });
}

PacketTimes packet_times(const CardBenchOptions&) {
  throw std::invalid_argument(std::string(simulation_missing()));
}

LineRate line_rate(const CardBenchOptions&) {
  throw std::invalid_argument(std::string(simulation_missing()));
}

}  // namespace nanet::gateware
