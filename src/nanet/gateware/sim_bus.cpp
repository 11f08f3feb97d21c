// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/sim_bus.hpp"

#include <algorithm>
#include <numeric>

namespace nanet::gateware {

std::uint64_t SimMemory::map(std::byte* at, std::size_t bytes) {
  const std::uint64_t bus = first + pieces_.size() * piece_bytes;
  for (std::size_t done = 0; done < bytes; done += piece_bytes)
    pieces_.push_back({at + done, bytes - done, at});
  return bus;
}

std::vector<std::uint64_t> SimMemory::map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) {
  const std::size_t begin = pieces_.size(), count = (bytes + piece_bytes - 1) / piece_bytes;
  // A stride coprime to the count visits every piece once.
  std::size_t stride = count / 2 + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  pieces_.resize(begin + count);
  std::vector<std::uint64_t> bus;
  for (std::size_t i = 0, place = 0; i < count; ++i, place = (place + stride) % count) {
    const std::size_t done = i * piece_bytes, here = std::min(piece_bytes, bytes - done);
    pieces_[begin + place] = {at + done, here, at};
    const std::uint64_t base = first + (begin + place) * piece_bytes;
    for (std::size_t page = 0; page < here; page += page_bytes) bus.push_back(base + page);
  }
  return bus;
}

void SimMemory::unmap(std::byte* at) noexcept {
  for (Piece& piece : pieces_)
    if (piece.owner == at) piece = Piece{};
  while (!pieces_.empty() && !pieces_.back().owner) pieces_.pop_back();
}

}  // namespace nanet::gateware
