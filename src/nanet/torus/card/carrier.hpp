// SPDX-License-Identifier: Apache-2.0
// Torus model as the network between the software interfaces of a torus job.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/torus/model.hpp"
#include "nanet/torus/packet.hpp"

namespace nanet::torus::card {

// Packet on its way.
struct WirePacket {
  Word header, footer;
  std::array<Word, max_payload_bytes / word_bytes> payload;
  std::uint32_t from = 0;   // node
  std::uint32_t owner = 0;  // port whose ring it comes from
  std::span<const Word> words() const { return {payload.data(), decode_header(header).payload_words()}; }
};

// Moves no bytes: the packets stay in place.
class Carrier {
 public:
  Carrier(Model& model, const Lattice& lattice) : model_(model), lattice_(lattice) { model.open(); }
  // Sends a packet, which stays in place until it arrives.
  void send(std::uint32_t id, const WirePacket& packet) {
    const Header h = decode_header(packet.header);
    model_.send(packet.from, lattice_.index(coordinates(h.to)), h.length, id);
  }
  // Runs until packets are delivered, for at most `cycles`; false: the network is empty, its clock stops.
  bool step(std::uint32_t cycles, std::vector<Arrival>& arrivals) { return model_.step(cycles, arrivals); }
  std::uint32_t waiting(std::uint32_t node) const { return model_.waiting(node); }  // not in the network yet
  std::uint64_t now() const { return model_.now(); }

 private:
  Model& model_;
  Lattice lattice_;
};

}  // namespace nanet::torus::card
