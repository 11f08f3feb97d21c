// SPDX-License-Identifier: Apache-2.0
// How the driver reaches a card: its registers, and the memory that it may write to. Two implementations: the
// simulated card in this process, and VFIO for a board in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nanet::gateware {

class Bus {
 public:
  virtual ~Bus() = default;
  // Registers of BAR 0, 32 bits. Throw std::runtime_error when the card does not answer.
  virtual std::uint32_t read(std::uint32_t address) = 0;
  virtual void write(std::uint32_t address, std::uint32_t value) = 0;

  // Keeps the memory where it is and lets the card reach it; gives its bus address. `at` lies on a page
  // boundary. Throws std::system_error (a limit on locked memory, mostly).
  virtual std::uint64_t map(std::byte* at, std::size_t bytes) = 0;
  // The same for memory that the card reaches through its own translation, page by page; page_bytes is a
  // power of two from 4 KB to 2 MB. Gives the bus address of each page, a multiple of page_bytes.
  virtual std::vector<std::uint64_t> map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) = 0;
  // Undoes either.
  virtual void unmap(std::byte* at) noexcept = 0;

  // Where the card does not run by itself: lets it run a little.
  virtual void progress() {}
};

}  // namespace nanet::gateware
