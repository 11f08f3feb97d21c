// SPDX-License-Identifier: Apache-2.0
// Stage times of router and link in cycles of the router's clock: constants of the model. Router values are
// those of gateware/rtl/torus (header to header: route_cycles + out_cycles), link values are estimates.
#pragma once

#include <cstdint>

namespace nanet::torus {

struct Timing {
  std::uint32_t route_cycles = 3;   // header into a router -> earliest grant
  std::uint32_t out_cycles = 2;     // grant -> header out
  std::uint32_t link_cycles = 0;    // header out -> header into the next router, cell storage not included
  std::uint32_t credit_cycles = 3;  // grant -> credit of the first word usable at the router before, links of
                                    // both ways not included
  std::uint32_t cell_words = 0;     // words per control word of the reliable link; 0: no cells
  std::uint32_t packet_cycles = 0;  // further link words per packet (apelink: MAGIC, START, CREDIT)
  std::uint32_t retry_cycles = 0;   // damaged cell -> its repetition (reliable link): round trip
  std::uint32_t buffer_words = 512;  // per VC of an input
  std::uint32_t turn_packets = 8;    // of an input VC, before others have priority at an output
  // A packet from the node enters a link only if beyond it another of its size would fit, or half of the rest
  // of the buffer is free.
  bool reserve = false;
  // Packets of the two VCs of a link do not interleave. Also the better approximation of the gateware's
  // turns by word: its saturation differs less from this than from two packets at half rate.
  bool atomic = true;

  constexpr std::uint32_t hop_cycles() const { return route_cycles + out_cycles; }
  constexpr std::uint32_t cells(std::uint32_t words) const {
    return cell_words == 0 ? 0 : (words + cell_words - 1) / cell_words;
  }
  // Cycles that a packet of `words` words occupies a link.
  constexpr std::uint32_t occupied(std::uint32_t words) const { return words + packet_cycles + cells(words); }
  // Header out of a router -> header into the next. A cell is released when its control word is there.
  constexpr std::uint32_t passage(std::uint32_t words) const {
    return link_cycles + (cell_words == 0 ? 0 : (words < cell_words ? words : cell_words));
  }
};

// Routers with direct wires, as in the simulation of routers alone.
inline constexpr Timing router_timing{};
// `reliable` link: cells of 16 words. link_cycles: estimate of lanes and cable, 8.5 Gb/s per lane.
// retry_cycles: both ways, and 40 cycles in the ports (bench of reliable_port).
inline constexpr Timing reliable_timing{.link_cycles = 24, .cell_words = 16, .retry_cycles = 88};
// `apelink` link: MAGIC, START, one CREDIT per packet.
inline constexpr Timing apelink_timing{.link_cycles = 24, .packet_cycles = 3, .atomic = true};

// 4 lanes x 8.5 Gb/s after 8b10b carry one word of 128 bits per cycle: 34 Gb/s x 0.8 / 128 bit.
inline constexpr double clock_hz = 212.5e6;

}  // namespace nanet::torus
