// SPDX-License-Identifier: Apache-2.0
// Bus between driver and card: registers and DMA memory. Implementations: the simulated card in this process,
// and VFIO for a board in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nanet::gateware {

class Bus {
 public:
  virtual ~Bus() = default;
  // Registers of BAR 0, 32 bits. Throw std::runtime_error when the card does not respond.
  virtual std::uint32_t read(std::uint32_t address) = 0;
  virtual void write(std::uint32_t address, std::uint32_t value) = 0;

  // Pins the memory and makes it accessible to the card; returns its bus address. `at` is page-aligned.
  // Throws std::system_error, usually because of a limit on locked memory.
  virtual std::uint64_t map(std::byte* at, std::size_t bytes) = 0;
  // The same for memory that the card translates page by page; page_bytes is a power of two from 4 KB to 2
  // MB. Returns the bus address of each page, a multiple of page_bytes.
  virtual std::vector<std::uint64_t> map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) = 0;
  // Undoes map() or map_pages().
  virtual void unmap(std::byte* at) noexcept = 0;

  // Advances a simulated card a little; no effect on hardware.
  virtual void progress() {}
};

}  // namespace nanet::gateware
