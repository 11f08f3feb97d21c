// SPDX-License-Identifier: Apache-2.0
// Receivers of trigger datagrams: boards and a farm, for the tests of the final trigger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "nanet/os/socket.hpp"
#include "nanet/trigger/live/final_trigger.hpp"

namespace nanet::trigger {

template <std::size_t board_count>
struct TriggerReceivers {
  TriggerReceivers() {
    // The farm takes datagrams at the port after that of its events.
    while (farm.get() < 0) {
      events = os::open_udp_receiver({0x7F000001, 0}, {});
      options.farm = os::local_endpoint(events.get());
      try {
        farm = os::open_udp_receiver({0x7F000001, static_cast<std::uint16_t>(options.farm.port + 1)}, {});
      } catch (const std::system_error&) {
      }
    }
    for (auto& board : boards) {
      board = os::open_udp_receiver({0x7F000001, 0}, {});
      options.boards.push_back(os::local_endpoint(board.get()));
    }
    options.masks[0] = {0x2000, 0x2000, 0x01, 1};
  }
  os::Fd events, farm;
  std::array<os::Fd, board_count> boards;
  FinalTriggerOptions options;
};

}  // namespace nanet::trigger
