// SPDX-License-Identifier: Apache-2.0
// Torus card in a slot: rings and slots in memory of the process, doorbells and tables through registers.
// Not run on hardware.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "nanet/fabric/card/host.hpp"
#include "nanet/gateware/torus_driver.hpp"

namespace nanet::fabric::card {

// One port: the card has one put ring and one event queue.
class PcieHost final : public Host {
 public:
  // Resets the card and connects its links. Throws std::runtime_error.
  PcieHost(std::unique_ptr<gateware::Bus> bus, const torus::Lattice& size, const torus::Coordinates& node);
  std::unique_ptr<Attachment> attach(const Address* wanted, const std::string& bell, bool direct) override;
  bool alive() const noexcept override;
  // Whether a peer is there shows with the first packet: its domain follows from its port.
  PeerState peer(std::uint32_t port) const noexcept override;
  bool rings() const noexcept override { return false; }

 private:
  friend class PciePort;
  // Runs an access to the card. False: it does not respond, now or before.
  template <class Access>
  bool access(const Access& access) const noexcept {
    if (!dead_) try {
        access();
      } catch (const std::exception&) {
        dead_ = true;
      }
    return !dead_;
  }

  const std::unique_ptr<gateware::Bus> bus_;
  mutable gateware::TorusDriver driver_;
  const std::uint32_t port_;
  mutable bool dead_ = false;
  bool attached_ = false;
};

// As open_pcie_node().
std::unique_ptr<Host> open_pcie(const char* cards, const char* size);

}  // namespace nanet::fabric::card
