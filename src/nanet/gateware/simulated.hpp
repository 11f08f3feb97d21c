// SPDX-License-Identifier: Apache-2.0
// The `gateware` card: the gateware in simulation, controlled by its driver. Packets from UDP sockets or a
// capture enter its MACs; it writes to contract memory; packets from its MACs are sent. The simulated clock
// stops while the card is idle.
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

// A CLOP on a simulated card, with an idle wire.
class Simulation {
 public:
  // stream: stream number. transmit outlives the simulation. Throws std::invalid_argument, naming the option,
  // or std::system_error.
  Simulation(const card::ClopOptions& options, std::uint8_t stream, card::Transmit& transmit,
             const SimulationOptions& simulation);
  ~Simulation();

  card::Stream& stream() noexcept;
  sim::Model& model() noexcept;
  Driver& driver() noexcept;

  // Longest frame on a wire. Kernels join fragments into longer frames, which captures may contain.
  static constexpr std::size_t largest_frame = 9600;
  // Puts a datagram, or a captured frame of at most that size, on the wire of a channel. A longer datagram is
  // counted as refused.
  void datagram(unsigned channel, std::span<const std::byte> payload);
  void frame(unsigned channel, std::span<const std::byte> frame, std::size_t original);
  // Simulates this many cycles, up to the limit of the experiment's time, and processes their results. True
  // if there were any.
  bool run(std::uint64_t cycles);
  // The card releases the final triggers, in the experiment's time.
  bool timed() const noexcept;
  // The card has reached the limit of the experiment's time, and waits for packets.
  bool held() const noexcept;
  // Enough cycles have passed since the last read of the counters, which holds the wires or, with final
  // trigger, waits for a gap between the packets; the cycles that it takes delay none.
  bool counters_due() const noexcept;
  // The wire is idle, no burst is open, and every number is passed: only external input causes further
  // activity.
  bool at_rest() const noexcept;
  // Nothing is on the wire or between it and host memory.
  bool idle();
  // Reads the counters while nothing comes from the wires; a part of them in a burst with final trigger.
  void read_counters();
  // Figures of the card at the last read of its counters: clock cycles, cycles per second of wall time,
  // translations and firmware requests. Also the histogram of cycles from the first word of a frame's last
  // packet to the frame's event. Thread-safe.
  std::vector<std::pair<std::string, double>> figures() const;
  // Waits until the wire is empty, then drains the card.
  void drain();
  bool passed_all();
  // Frames received and not yet passed; buffers held by the consumer.
  std::uint64_t waiting() const noexcept;
  std::size_t out() const noexcept;
  // Adds packets that the kernel has dropped.
  void lost_before(std::uint32_t packets) noexcept;

 private:
  struct Parts;
  void read_between_frames();
  std::unique_ptr<Parts> parts_;
};

std::unique_ptr<card::Card> make_simulated_card(const SimulationOptions& options = {});
std::unique_ptr<card::Playback> make_simulated_playback(const card::ClopOptions& clop, std::uint16_t port,
                                                        card::Transmit& transmit,
                                                        const SimulationOptions& options = {});

}  // namespace nanet::gateware
