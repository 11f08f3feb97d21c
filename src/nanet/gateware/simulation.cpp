// SPDX-License-Identifier: Apache-2.0
#include <nanet_regs.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "nanet/gateware/burst_clock.hpp"
#include "nanet/gateware/frames.hpp"
#include "nanet/gateware/queue_monitor.hpp"
#include "nanet/gateware/sim_bus.hpp"
#include "nanet/gateware/simulated.hpp"
#include "nanet/gateware/trigger_unit.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gateware {
namespace {

constexpr NetworkAddress default_address{mac_of(0x0A000001), 0x0A000001};  // 10.0.0.1
// Upper bound of the time that a packet spends in the card, firmware included; in cycles.
constexpr unsigned settling = 200'000;
// Upper bound of the time for a firmware request and its consequences; in cycles.
constexpr unsigned closing = 20'000;
// Cycles between two reads of memory that a consumer in another thread writes.
constexpr std::uint64_t quantum = 1000;
// Upper bound of the cycles until time is locked and the latency memory is cleared.
constexpr unsigned locking = 200'000;
// Cycles between two reads of a part of the counters in a burst with final trigger: 12 frames. A part takes
// up to three frames, the firmware's work included: less than the card stays behind the boards.
constexpr std::uint64_t counters_every = 12'000;
constexpr unsigned counter_parts = 3;
// Longest search for a gap between the packets of two frames in which the counters can be read, and what the
// last packet takes in the card: in cycles.
constexpr std::uint64_t gap_search = 2000, gap_settle = 150;

// Upper limit of the bin in which the cumulative fraction reaches `share`.
double percentile(const std::array<std::uint32_t, Driver::histogram_bins>& counts, double share) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  double sum = 0;
  for (unsigned bin = 0; bin < counts.size(); ++bin) {
    sum += counts[bin];
    if (counts[bin] && sum >= share * all) return Driver::bin_end(bin);
  }
  return 0;
}

SimulationOptions with_address(SimulationOptions options) {
  if (options.driver.address.ip == 0) options.driver.address = default_address;
  return options;
}

// Stream of a card that receives and sends in hardware: the driver configures the card, the queue monitor
// keeps the account.
class HardwareStream final : public card::Stream {
 public:
  HardwareStream(const card::ClopOptions& options, std::uint8_t number, Driver& driver,
                 const DriverOptions& with)
      : Stream(options), monitor_(open(driver, number, with), consumers(), table(), counters()) {}
  using Stream::receive_status;
  card::ReceiveStatus& receive_status() noexcept override { return monitor_; }
  const card::CardTriggerCounts* release_triggers(const card::CardTriggerOptions& options,
                                                  card::TriggerObserver* observer) override {
    return on_release_triggers(options, observer);
  }
  void choke_triggers(bool on) noexcept override { on_choke(on); }
  std::function<const card::CardTriggerCounts*(const card::CardTriggerOptions&, card::TriggerObserver*)>
      on_release_triggers;
  std::function<void(bool on)> on_choke;
  QueueMonitor& monitor() noexcept { return monitor_; }
  const QueueMonitor& monitor() const noexcept { return monitor_; }

 private:
  Driver& open(Driver& driver, std::uint8_t number, const DriverOptions& with) {
    driver.open(options(), consumers().views, number, with);
    return driver;
  }
  QueueMonitor monitor_;
};

}  // namespace

struct Simulation::Parts {
  Parts(const card::ClopOptions& options, std::uint8_t number, card::Transmit& out, SimulationOptions given)
      : simulation(with_address(std::move(given))),
        model(memory, simulation.model),
        bus(model, memory),
        driver(bus),
        transmit(out),
        destinations(options.destinations),
        stream(options, number, driver, simulation.driver) {
    model.on_sent = [this](unsigned, std::span<const std::byte> frame, std::uint64_t) { sent(frame); };
    stream.on_release_triggers = [this](const auto& final, card::TriggerObserver* to) {
      return release_triggers(final, to);
    };
    stream.on_choke = [this](bool on) {
      if (time && on != choked) unit.choke(choked = on);
    };
    driver.start();
  }
  ~Parts() { driver.close(); }

  void sent(std::span<const std::byte> frame) {
    const auto datagram = sent_datagram(frame);
    if (!datagram) return;  // an answer to ARP
    const auto it = std::find(destinations.begin(), destinations.end(), datagram->to);
    if (it == destinations.end() && !destinations.empty()) return;
    if (observer) observer->answered(datagram->payload);
    leaving.push_back({{datagram->payload.begin(), datagram->payload.end()},
                       static_cast<std::uint32_t>(it - destinations.begin())});
  }
  // The card decides and releases the final triggers, in the time of a TTC line that follows the packets.
  const card::CardTriggerCounts* release_triggers(const card::CardTriggerOptions& final,
                                                  card::TriggerObserver* to) {
    TriggerUnit::check(final);
    latency = final.latency;
    observer = to;
    time.emplace(latency, model.cycle(), stream.options().rules.boards);
    model.ttc_line = [this] { return time->samples(); };
    model.on_trigger = [this](unsigned kind, std::uint32_t timestamp, std::uint64_t cycle) {
      released(static_cast<std::uint8_t>(kind), timestamp, cycle);
    };
    unit.open(final);
    for (unsigned done = 0; !unit.ready(); done += quantum) {
      if (done > locking) throw std::runtime_error("the simulated card does not lock to its TTC line");
      model.run(quantum);
    }
    return &counts;
  }
  void released(std::uint8_t kind, Timestamp timestamp, std::uint64_t cycle) noexcept {
    if (kind >= TriggerUnit::first_special) {
      const unsigned which = static_cast<unsigned>(kind) - TriggerUnit::sob;
      if (which < counts.specials.size()) ++counts.specials[which];
      return;
    }
    const double after = static_cast<double>(cycle) - time->cycle_of(timestamp, cycle);
    const auto delay = static_cast<std::uint64_t>(std::max(after, 0.0));
    if (!any_release || delay < counts.release_min) counts.release_min.set(delay);
    if (!any_release || delay > counts.release_max) counts.release_max.set(delay);
    any_release = to_flush = true;
    observer->released(time->burst_at(cycle), timestamp - latency, kind);
  }
  void flush_releases() noexcept {
    if (std::exchange(to_flush, false)) observer->flush();
  }
  // Cycles in which a decision of now can still be released.
  std::uint64_t latency_cycles() const noexcept {
    return static_cast<std::uint64_t>((latency + 256) * period_ns / sim::cycle_ns);
  }

  // Sends datagrams that have left the card, as many as the network accepts.
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
  HardwareStream stream;
  std::deque<Leaving> leaving;
  std::vector<std::byte> scratch;
  bool draining = false, settled = false;
  bool decided_all = true;  // no packet is between the wire and the host
  // Final trigger.
  std::optional<BurstClock> time;
  TriggerUnit unit{driver};
  card::CardTriggerCounts counts;
  card::TriggerObserver* observer = nullptr;
  Timestamp latency = 0;
  bool any_release = false, to_flush = false, choked = false;
  std::uint64_t counters_read = 0;  // cycle
  unsigned counter_part = 0;        // next to be read in a burst
  std::array<std::uint32_t, Driver::histogram_bins> histogram{};
  std::uint64_t last_release = 0;  // cycle, after drain; 0: not all numbers are passed
  // Wall time spent simulating.
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
    ++p.stream.monitor().refused_before[static_cast<std::size_t>(reason)];
    p.stream.counters().bytes_in += payload.size();
    return;
  }
  p.scratch.resize(wire::udp_frame_overhead + payload.size());
  const wire::Endpoint card{p.simulation.driver.address.ip, p.simulation.driver.ports[0]};
  wire::build_udp_frame(p.scratch.data(), {0x0A000002, card.port}, card, payload);
  p.model.receive(channel, p.scratch, false, p.time ? p.time->packet(payload, p.model.cycle()) : 0);
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
  p.flush_releases();
  if (held()) return p.flush();
  bool any = false;
  const Nanoseconds began = os::monotonic_now();
  const std::uint64_t from = p.model.cycle();
  for (std::uint64_t done = 0; done < cycles && !held(); done += quantum) {
    std::uint64_t some = std::min(quantum, cycles - done);
    if (p.time) some = std::min(some, p.time->limit() - p.model.cycle());
    p.model.run(some);
    any |= p.stream.monitor().poll();
  }
  p.worked += p.model.cycle() - from;
  p.worked_s += static_cast<double>(os::monotonic_now() - began) * 1e-9;
  any |= p.flush();
  if (!p.decided_all) p.decided_all = idle();
  p.flush_releases();
  return any || !p.model.wire_idle();
}

bool Simulation::timed() const noexcept {
  return parts_->time.has_value();
}

bool Simulation::held() const noexcept {
  const Parts& p = *parts_;
  return p.time && p.model.cycle() >= p.time->limit();
}

bool Simulation::counters_due() const noexcept {
  const Parts& p = *parts_;
  return !p.time || !p.time->in_burst() ||
         (p.time->behind() && p.model.cycle() >= p.counters_read + counters_every);
}

bool Simulation::idle() {
  Parts& p = *parts_;
  return p.model.wire_idle() && (p.driver.read(offsetof(nanet_regs_t, status)) & NANET_REGS__STATUS__IDLE_bm);
}

bool Simulation::at_rest() const noexcept {
  const Parts& p = *parts_;
  return p.decided_all && p.model.wire_idle() && !p.stream.monitor().in_burst() &&
         p.stream.monitor().waiting() == 0 && p.leaving.empty() &&
         (!p.time || p.model.cycle() >= p.time->busy_until());
}

std::uint64_t Simulation::waiting() const noexcept {
  return parts_->stream.monitor().waiting();
}

std::size_t Simulation::out() const noexcept {
  return parts_->stream.monitor().out();
}

void Simulation::lost_before(std::uint32_t packets) noexcept {
  parts_->stream.monitor().lost_before += packets;
}

// With final trigger packets have their times: the wire is not held, and the counters are read in a gap.
// Without one the values of the read before stay.
void Simulation::read_between_frames() {
  Parts& p = *parts_;
  const std::uint64_t until = p.model.cycle() + gap_search;
  do {
    while (p.model.next_frame() < p.model.cycle() + gap_settle && p.model.cycle() < until)
      p.model.run(gap_settle / 2);
    p.model.run(gap_settle);
    if (p.stream.monitor().read_counters()) return;
  } while (p.model.cycle() < until);
}

void Simulation::read_counters() {
  Parts& p = *parts_;
  p.stream.monitor().poll();
  p.stream.monitor().pass_overruns();
  const bool all = !p.time || !p.time->in_burst();
  const unsigned part = p.counter_part++ % counter_parts;
  if (p.time) {
    if (all || part == 0) read_between_frames();
  } else {
    p.model.hold(true);
    for (unsigned tries = 0; tries < 8; ++tries) {
      p.model.run(quantum / 2);
      if (p.stream.monitor().read_counters()) break;
    }
  }
  if (all || part == 1) p.histogram = p.driver.histogram();
  p.model.hold(false);
  if (p.time && (all || part == 2)) p.unit.read(p.counts);
  p.counters_read = p.model.cycle();
  p.flush_releases();
  const auto& counts = p.histogram;
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
  if (p.time) p.time->drain();
  while (!p.model.wire_idle()) run(quantum);
  for (unsigned done = 0; done < settling && !idle(); done += quantum) run(quantum);
  p.driver.drain();
  p.draining = true;
  // The firmware does not report that it found no open buffer.
  if (p.stream.options().gather == contract::Gather::packets)
    for (unsigned done = 0; done < closing; done += quantum) run(quantum);
}

// After drain(): the card passes pending numbers while the consumer answers.
bool Simulation::passed_all() {
  Parts& p = *parts_;
  if (!p.draining) return at_rest();
  if (p.settled) return true;
  run(quantum);
  if (p.stream.monitor().in_burst() || p.stream.monitor().out() || !p.leaving.empty()) return false;
  if (p.time) {
    if (p.last_release == 0)
      p.last_release = std::max(p.time->busy_until(), p.model.cycle() + p.latency_cycles());
    if (p.model.cycle() < p.last_release) return false;
  }
  read_counters();
  // Packets that have left the sender may still be on their way to the wire.
  run(2 * quantum);
  p.settled = p.stream.monitor().passed_all() && p.leaving.empty();
  return p.settled;
}

}  // namespace nanet::gateware
