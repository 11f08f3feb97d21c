// SPDX-License-Identifier: Apache-2.0
// Transmit interface to a network: sockets, a capture, or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nanet::card {

struct Datagram {
  const std::byte* data;
  std::uint32_t bytes;
  std::uint32_t destination;  // index into the table of endpoints
};

class Transmit {
 public:
  virtual ~Transmit() = default;
  // Takes datagrams from the front of `batch`. Returns their number (0: try again later).
  virtual std::size_t send(std::span<const Datagram> batch) noexcept = 0;
  virtual std::uint32_t destinations() const noexcept = 0;
};

}  // namespace nanet::card
