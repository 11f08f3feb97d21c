// SPDX-License-Identifier: Apache-2.0
// Bus of the simulated card: registers and memory of the model in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model.hpp"
#include "nanet/gateware/bus.hpp"

namespace nanet::gateware {

// Process memory that the card can access. Bus addresses are artificial, in pieces of 2 MB. Translated pages
// are assigned out of order, so that a wrong translation shows.
class SimMemory final : public sim::HostMemory {
 public:
  std::byte* at(std::uint64_t bus, std::size_t bytes) noexcept override {
    const std::uint64_t from = bus - first, piece = from / piece_bytes, offset = from % piece_bytes;
    if (bus < first || piece >= pieces_.size()) return nullptr;
    const Piece& p = pieces_[piece];
    return offset + bytes <= p.bytes ? p.at + offset : nullptr;
  }
  std::uint64_t map(std::byte* at, std::size_t bytes);
  std::vector<std::uint64_t> map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes);
  void unmap(std::byte* at) noexcept;

 private:
  static constexpr std::uint64_t first = std::uint64_t{0x5A} << 32;
  static constexpr std::size_t piece_bytes = std::size_t{1} << 21;
  struct Piece {
    std::byte* at = nullptr;
    std::size_t bytes = 0;  // to the end of the mapped memory
    std::byte* owner = nullptr;
  };
  std::vector<Piece> pieces_;
};

class SimBus final : public Bus {
 public:
  explicit SimBus(sim::Model& model, SimMemory& memory) : model_(model), memory_(memory) {}
  std::uint32_t read(std::uint32_t address) override { return model_.read(address); }
  void write(std::uint32_t address, std::uint32_t value) override { model_.write(address, value); }
  std::uint64_t map(std::byte* at, std::size_t bytes) override { return memory_.map(at, bytes); }
  std::vector<std::uint64_t> map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) override {
    return memory_.map_pages(at, bytes, page_bytes);
  }
  void unmap(std::byte* at) noexcept override { memory_.unmap(at); }
  void progress() override { model_.run(64); }

 private:
  sim::Model& model_;
  SimMemory& memory_;
};

}  // namespace nanet::gateware
