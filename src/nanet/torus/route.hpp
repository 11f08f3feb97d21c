// SPDX-License-Identifier: Apache-2.0
// Routing of the torus: output port and virtual channel of a packet at one node (docs/formats.md, Routing).
// Rules of INFN's firmware by default. The same function serves model, tests and reference of the gateware.
#pragma once

#include <array>
#include <cstdint>

#include "nanet/torus/packet.hpp"

namespace nanet::torus {

// Ports 0 - 5: X+, Y+, Z+, X-, Y-, Z-. A packet that travels in X+ enters at port 3.
inline constexpr std::uint8_t local_port = 6;
inline constexpr unsigned ports = 7;
inline constexpr unsigned virtual_channels = 2;

using Coordinates = std::array<std::uint8_t, 3>;  // x, y, z

constexpr Coordinates coordinates(Node node) {
  return {node.x, node.y, node.z};
}

// VC choice. infn: VC 1 up to and including the wrap-around link, else VC 0. balanced (nanet's own): packets
// that do not wrap take the VC given by the parity of coordinates.
enum class VcRule : std::uint8_t { infn, balanced };

struct Lattice {
  Coordinates size{4, 4, 4};  // at most 64, 32, 32
  Coordinates order{2, 1, 0};
  VcRule rule = VcRule::infn;

  constexpr std::uint32_t nodes() const { return std::uint32_t{size[0]} * size[1] * size[2]; }
  constexpr std::uint32_t index(const Coordinates& at) const {
    return at[0] + size[0] * (at[1] + std::uint32_t{size[1]} * at[2]);
  }
  constexpr Coordinates at(std::uint32_t index) const {
    return {static_cast<std::uint8_t>(index % size[0]), static_cast<std::uint8_t>(index / size[0] % size[1]),
            static_cast<std::uint8_t>(index / size[0] / size[1])};
  }
  // Node at the far end of the link of an output port 0 - 5; it receives at port (port + 3) % 6.
  constexpr Coordinates neighbour(Coordinates at, unsigned port) const {
    const unsigned d = port % 3;
    const unsigned step = port < 3 ? 1 : size[d] - 1u;
    at[d] = static_cast<std::uint8_t>((at[d] + step) % size[d]);
    return at;
  }
};

struct Routed {
  std::uint8_t port = local_port;
  std::uint8_t vchan = 0;  // b3:0 VC, b4: one hop is left in this dimension
  bool out_of_lattice = false;
  constexpr unsigned vc() const { return vchan & 1; }
  bool operator==(const Routed&) const = default;
};

// Next hop of a packet for `to` with VC code `vchan` that entered node `me` at `in_port`.
constexpr Routed route(const Lattice& lattice, const Coordinates& me, unsigned in_port, const Coordinates& to,
                       std::uint8_t vchan = vchan_inject) {
  for (unsigned d = 0; d < 3; ++d)
    if (to[d] >= lattice.size[d]) return {local_port, 0, true};
  for (const unsigned d : lattice.order) {
    if (to[d] == me[d]) continue;
    const unsigned k = lattice.size[d];
    const unsigned forward = to[d] > me[d] ? to[d] - me[d] : to[d] + k - me[d];
    const bool plus = forward <= k / 2;
    const unsigned left = plus ? forward : k - forward;
    const bool wraps = plus ? to[d] < me[d] : to[d] > me[d];
    unsigned vc = wraps ? 1 : 0;
    if (in_port == local_port && (vchan & 0x1E) != 0x10) {
      vc = vchan & 0xF;
    } else if (lattice.rule == VcRule::balanced && !wraps) {
      const unsigned straight = plus ? d + 3 : d;  // input of packets that stay in this direction
      if (in_port != straight)
        vc = (me[0] + me[1] + me[2] + to[0] + to[1] + to[2]) & 1u;
      else if (me[d] != (plus ? 0 : k - 1))
        vc = vchan & 0xF;
    }
    return {static_cast<std::uint8_t>(plus ? d : d + 3), static_cast<std::uint8_t>(vc | (left == 1) << 4),
            false};
  }
  return {local_port, 0, false};
}

// Hops of the shortest way.
constexpr unsigned hops(const Lattice& lattice, const Coordinates& from, const Coordinates& to) {
  unsigned sum = 0;
  for (unsigned d = 0; d < 3; ++d) {
    const unsigned k = lattice.size[d];
    const unsigned forward = (to[d] + k - from[d]) % k;
    sum += forward < k - forward ? forward : k - forward;
  }
  return sum;
}

}  // namespace nanet::torus
