// SPDX-License-Identifier: Apache-2.0
// Fake card for driver tests: registers only, always ready and stopped.
#pragma once

#include <nanet_regs.h>

#include <map>

#include "nanet/gateware/bus.hpp"

namespace nanet::gateware {

class FakeBus final : public Bus {
 public:
  FakeBus() {
    registers[offsetof(nanet_regs_t, id)] = NANET_REGS__ID__VALUE_reset;
    registers[offsetof(nanet_regs_t, built)] =
        6u << NANET_REGS__BUILT__VERSION_bp | 2u << NANET_REGS__BUILT__CHANNELS_bp |
        4u << NANET_REGS__BUILT__FILTERS_bp | 4u << NANET_REGS__BUILT__DEVICES_bp |
        4u << NANET_REGS__BUILT__DESTINATIONS_bp;
    registers[offsetof(nanet_regs_t, status)] = NANET_REGS__STATUS__STOPPED_bm | NANET_REGS__STATUS__READY_bm;
  }
  std::uint32_t read(std::uint32_t address) override { return registers[address]; }
  void write(std::uint32_t address, std::uint32_t value) override { registers[address] = value; }
  std::uint64_t map(std::byte*, std::size_t) override { return 0; }
  std::vector<std::uint64_t> map_pages(std::byte*, std::size_t, std::size_t) override { return {}; }
  void unmap(std::byte*) noexcept override {}

  std::map<std::uint32_t, std::uint32_t> registers;
};

}  // namespace nanet::gateware
