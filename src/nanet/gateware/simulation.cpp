// SPDX-License-Identifier: Apache-2.0
#include <nanet_regs.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <numeric>
#include <utility>

#include "nanet/card/udp.hpp"
#include "nanet/gateware/follower.hpp"
#include "nanet/gateware/frames.hpp"
#include "nanet/gateware/sim_bus.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {
namespace {

constexpr NetworkAddress default_address{mac_of(0x0A000001), 0x0A000001};  // 10.0.0.1
// How long the card takes, at most, over packets that are in it, the firmware's answers included; in cycles.
constexpr unsigned settling = 200'000;
// How long the firmware takes over a request, at most, and the card over what follows from it.
constexpr unsigned closing = 20'000;
// Cycles between two looks at memory that a consumer in another thread writes.
constexpr std::uint64_t quantum = 1000;

// End of the bin in which that share of all counts is reached.
double percentile(const std::array<std::uint32_t, Driver::histogram_bins>& counts, double share) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  double sum = 0;
  for (unsigned bin = 0; bin < counts.size(); ++bin) {
    sum += counts[bin];
    if (counts[bin] && sum >= share * all) return Driver::bin_end(bin);
  }
  return 0;
}

}  // namespace

struct Simulation::Parts {
  Parts(const card::ClopOptions& options, std::uint8_t number, card::Transmit& out, SimulationOptions given)
      : simulation(std::move(given)),
        model(memory, simulation.model),
        bus(model, memory),
        driver(bus),
        transmit(out),
        destinations(options.destinations),
        stream(options, out,
               [&](card::Consumers& consumers, card::FrameTable& table, card::Counters& counters) {
                 if (simulation.driver.address.ip == 0) simulation.driver.address = default_address;
                 driver.open(options, consumers.views, number, simulation.driver);
                 auto made = std::make_unique<Follower>(driver, consumers, table, counters);
                 follower = made.get();
                 return made;
               }) {
    model.on_sent = [this](unsigned, std::span<const std::byte> frame, std::uint64_t) { sent(frame); };
    driver.start();
  }
  ~Parts() { driver.close(); }

  void sent(std::span<const std::byte> frame) {
    const auto datagram = sent_datagram(frame);
    if (!datagram) return;  // an answer to ARP
    const auto it = std::find(destinations.begin(), destinations.end(), datagram->to);
    if (it == destinations.end() && !destinations.empty()) return;
    leaving.push_back({{datagram->payload.begin(), datagram->payload.end()},
                       static_cast<std::uint32_t>(it - destinations.begin())});
  }
  // What the network took of what has left the card.
  bool flush() {
    bool any = false;
    while (!leaving.empty()) {
      const Leaving& first = leaving.front();
      const card::Datagram datagram{first.bytes.data(), static_cast<std::uint32_t>(first.bytes.size()),
                                    first.destination};
      if (transmit.send({&datagram, 1}) == 0) break;
      leaving.pop_front();
      any = true;
    }
    return any;
  }

  struct Leaving {
    std::vector<std::byte> bytes;
    std::uint32_t destination;
  };
  SimulationOptions simulation;
  SimMemory memory;
  sim::Model model;
  SimBus bus;
  Driver driver;
  card::Transmit& transmit;
  std::vector<wire::Endpoint> destinations;
  Follower* follower = nullptr;
  card::Stream stream;
  std::deque<Leaving> leaving;
  std::vector<std::byte> scratch;
  bool draining = false, settled = false;
  bool decided_all = true;  // no packet is between the wire and the host
  // Wall time in which cycles were simulated.
  double worked_s = 0;
  std::uint64_t worked = 0;
  mutable std::mutex mutex;
  std::vector<std::pair<std::string, double>> figures;
};

Simulation::Simulation(const card::ClopOptions& options, std::uint8_t stream, card::Transmit& transmit,
                       const SimulationOptions& simulation)
    : parts_(std::make_unique<Parts>(options, stream, transmit, simulation)) {}
Simulation::~Simulation() = default;

card::Stream& Simulation::stream() noexcept {
  return parts_->stream;
}
sim::Model& Simulation::model() noexcept {
  return parts_->model;
}
Driver& Simulation::driver() noexcept {
  return parts_->driver;
}

void Simulation::datagram(unsigned channel, std::span<const std::byte> payload) {
  Parts& p = *parts_;
  if (wire::udp_frame_overhead + payload.size() > largest_frame) {
    const auto reason = wire::mgp::validate(payload, p.stream.options().rules).refusal;
    ++p.follower->refused_before[static_cast<std::size_t>(reason)];
    p.stream.counters().bytes_in += payload.size();
    return;
  }
  p.scratch.resize(wire::udp_frame_overhead + payload.size());
  const wire::Endpoint card{p.simulation.driver.address.ip, p.simulation.driver.ports[0]};
  wire::build_udp_frame(p.scratch.data(), {0x0A000002, card.port}, card, payload);
  p.model.receive(channel, p.scratch);
  p.stream.counters().bytes_in += payload.size();
  p.settled = p.decided_all = false;
}

void Simulation::frame(unsigned channel, std::span<const std::byte> frame, std::size_t original) {
  Parts& p = *parts_;
  const auto& driver = p.simulation.driver;
  const wire::UdpFrame parsed = wire::parse_udp_frame(frame, original, driver.ports[0]);
  if (parsed.reason == wire::NotMgp::none) p.stream.counters().bytes_in += parsed.payload.size();
  address_to(p.scratch, frame, original, driver.address);
  p.model.receive(channel, p.scratch);
  p.settled = p.decided_all = false;
}

bool Simulation::run(std::uint64_t cycles) {
  Parts& p = *parts_;
  bool any = false;
  const Nanoseconds began = card::monotonic_now();
  const std::uint64_t from = p.model.cycle();
  for (std::uint64_t done = 0; done < cycles; done += quantum) {
    p.model.run(std::min(quantum, cycles - done));
    any |= p.follower->follow();
  }
  p.worked += p.model.cycle() - from;
  p.worked_s += static_cast<double>(card::monotonic_now() - began) * 1e-9;
  any |= p.flush();
  if (!p.decided_all) p.decided_all = idle();
  return any || !p.model.wire_idle();
}

bool Simulation::idle() {
  Parts& p = *parts_;
  return p.model.wire_idle() && (p.driver.read(offsetof(nanet_regs_t, status)) & NANET_REGS__STATUS__IDLE_bm);
}

bool Simulation::at_rest() const noexcept {
  const Parts& p = *parts_;
  return p.decided_all && p.model.wire_idle() && !p.follower->in_burst() && p.follower->waiting() == 0 &&
         p.leaving.empty();
}

std::uint64_t Simulation::waiting() const noexcept {
  return parts_->follower->waiting();
}

std::size_t Simulation::out() const noexcept {
  return parts_->follower->out();
}

void Simulation::lost_before(std::uint32_t packets) noexcept {
  parts_->follower->lost_before += packets;
}

void Simulation::read_counters() {
  Parts& p = *parts_;
  p.follower->follow();
  p.follower->pass_overruns();
  p.model.hold(true);
  for (unsigned tries = 0; tries < 8; ++tries) {
    p.model.run(quantum / 2);
    if (p.follower->read_counters()) break;
  }
  const auto counts = p.driver.histogram();
  p.model.hold(false);
  const CounterBank& bank = p.driver.counters();
  const auto counter = [&](std::size_t at) { return static_cast<double>(bank.at(at)); };
  std::vector<std::pair<std::string, double>> now = {
      {"cycles", static_cast<double>(p.model.cycle())},
      {"cycles_per_s", p.worked_s > 0 ? static_cast<double>(p.worked) / p.worked_s : 0},
      {"closing_cycles_p50", percentile(counts, 0.5)},
      {"closing_cycles_p99", percentile(counts, 0.99)},
      {"closing_cycles_max", percentile(counts, 1)},
      {"events", static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}))},
      {"tlb_hits", counter(offsetof(nanet_regs_t, frames.tlb_hits))},
      {"tlb_misses", counter(offsetof(nanet_regs_t, frames.tlb_misses))},
      {"firmware_requests", static_cast<double>(p.model.firmware_requests())},
  };
  const std::lock_guard lock(p.mutex);
  p.figures = std::move(now);
}

std::vector<std::pair<std::string, double>> Simulation::figures() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->figures;
}

void Simulation::drain() {
  Parts& p = *parts_;
  while (!p.model.wire_idle()) run(quantum);
  for (unsigned done = 0; done < settling && !idle(); done += quantum) run(quantum);
  p.driver.drain();
  p.draining = true;
  // Nothing tells that the firmware has found no buffer open.
  if (p.stream.options().gather == contract::Gather::packets)
    for (unsigned done = 0; done < closing; done += quantum) run(quantum);
}

// After drain(): the card goes on with what is owed, while the consumer answers.
bool Simulation::passed_all() {
  Parts& p = *parts_;
  if (!p.draining) return at_rest();
  if (p.settled) return true;
  run(quantum);
  if (p.follower->in_burst() || p.follower->out() || !p.leaving.empty()) return false;
  read_counters();
  // What has left the sender is still on its way to the wire.
  run(2 * quantum);
  p.settled = p.follower->passed_all() && p.leaving.empty();
  return p.settled;
}

}  // namespace nanet::gateware
