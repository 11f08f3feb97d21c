// SPDX-License-Identifier: Apache-2.0
// The `gateware` card: the card's gateware in simulation, driven by its driver. Packets from UDP sockets, or
// the frames of a capture, enter its MACs; what it writes lands in the contract's memory; what leaves its
// MACs is sent. Its clock goes on as fast as it can be simulated, and stands still while there is nothing to
// do.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"
#include "nanet/card/card.hpp"
#include "nanet/card/playback.hpp"
#include "nanet/gateware/driver.hpp"

namespace nanet::gateware {

struct SimulationOptions {
  sim::ModelOptions model;
  DriverOptions driver;
};

// A CLOP on a card of its own, with nothing on the wire yet.
class Simulation {
 public:
  // stream: its number. transmit outlives it. Throws std::invalid_argument, naming the option, or
  // std::system_error.
  Simulation(const card::ClopOptions& options, std::uint8_t stream, card::Transmit& transmit,
             const SimulationOptions& simulation);
  ~Simulation();

  card::Stream& stream() noexcept;
  sim::Model& model() noexcept;
  Driver& driver() noexcept;

  // No wire brings a longer frame. Kernels do, which join what came in pieces, and captures taken there.
  static constexpr std::size_t largest_frame = 9600;
  // A datagram to the card, or a captured frame of at most that size, onto the wire of a channel. A datagram
  // that is too long for it is counted as the card would refuse it.
  void datagram(unsigned channel, std::span<const std::byte> payload);
  void frame(unsigned channel, std::span<const std::byte> frame, std::size_t original);
  // Simulates so many cycles, then sees what came of them. True if anything did.
  bool run(std::uint64_t cycles);
  // Nothing is on the wire, no burst is open, every number is passed: what comes next can only come from
  // outside.
  bool at_rest() const noexcept;
  // Nothing is on the wire, nor between it and the host's memory.
  bool idle();
  // Reads the counters while the wires are held for a moment.
  void read_counters();
  // What the card's instruments showed when its counters were read last: cycles of its clock and per second
  // of wall time, the histogram of cycles from the first word of the packet that closes a frame to the
  // frame's event, what was translated and what the firmware did. In any thread.
  std::vector<std::pair<std::string, double>> figures() const;
  // Lets everything that is on the wire in, then tells the card that no packet will follow.
  void drain();
  bool passed_all();
  // Frames that were received and not passed yet; buffers that are out with the consumer.
  std::uint64_t waiting() const noexcept;
  std::size_t out() const noexcept;
  // Packets that the kernel has dropped before they came here.
  void lost_before(std::uint32_t packets) noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

std::unique_ptr<card::Card> make_simulated_card(const SimulationOptions& options = {});
std::unique_ptr<card::Playback> make_simulated_playback(const card::ClopOptions& clop, std::uint16_t port,
                                                        card::Transmit& transmit,
                                                        const SimulationOptions& options = {});

}  // namespace nanet::gateware
