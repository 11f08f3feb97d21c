// SPDX-License-Identifier: Apache-2.0
// Gateware card in builds without the simulation: every use throws with the remedy.
#include <stdexcept>
#include <string>

#include "nanet/card/registry.hpp"
#include "nanet/gateware/bench.hpp"
#include "nanet/gateware/cards.hpp"

namespace nanet::gateware {

std::string_view simulation_missing() noexcept {
  return "this build has no simulated gateware: run it from a source tree with ./dev, which installs "
         "Verilator, "
         "or configure with -DNANET_GATEWARE=ON";
}

void register_cards() {
  const auto refuse = [](const auto&...) -> std::nullptr_t {
    throw std::invalid_argument("card = gateware: " + std::string(simulation_missing()) +
                                "; or use --card socket");
  };
  card::register_card("gateware", {.open = [=] { return std::unique_ptr<card::Card>(refuse()); },
                                   .open_playback =
                                       [=](const card::ClopOptions&, std::uint16_t, card::Transmit&) {
                                         return std::unique_ptr<card::Playback>(refuse());
                                       }});
}

PacketTimes packet_times(const CardBenchOptions&) {
  throw std::invalid_argument(std::string(simulation_missing()));
}

LineRate line_rate(const CardBenchOptions&) {
  throw std::invalid_argument(std::string(simulation_missing()));
}

MergeTimes merge_times(const std::string&) {
  throw std::invalid_argument(std::string(simulation_missing()));
}

}  // namespace nanet::gateware
