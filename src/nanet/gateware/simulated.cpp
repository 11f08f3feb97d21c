// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/simulated.hpp"

#include <nanet_regs.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "nanet/card/socket/socket_card.hpp"
#include "nanet/card/socket/socket_reader.hpp"
#include "nanet/gateware/admission.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::gateware {
namespace {

using card::ClopOptions;
using card::Stream;

constexpr std::uint64_t live_cycles = 4000;  // cycles per round
// With final trigger a round takes a frame, so that the consumer gets its turn in each. Behind this number of
// unanswered frames the card waits for the consumer: only the boards' pace is the experiment's.
constexpr std::uint64_t timed_cycles = 800;
constexpr std::uint64_t unanswered = 4;
constexpr timespec consumer_nap{0, 1'000'000};
// Longest time of a packet in a socket: the deadline, as long as it lasts in the simulation, which is some
// 150 times slower than the card. Above the pauses of a loaded host.
constexpr Nanoseconds slowdown = 150;
Nanoseconds longest_wait(Nanoseconds deadline) {
  return deadline > 0 ? slowdown * deadline : std::numeric_limits<Nanoseconds>::max();
}
constexpr unsigned most_reads = 256;                 // of the sockets, in a round
constexpr std::uint64_t sender_round = 12;           // answers that the sender sends in a round
constexpr std::size_t wire_round = live_cycles * 8;  // bytes that a wire carries in a round
// Bytes queued for the wire above which sockets are not read.
constexpr std::size_t wire_room = 256 << 10;
constexpr Nanoseconds counters_every = 50'000'000;
// The counters are read while the card is between packets, which takes several tries under load: at most a
// twentieth of the time.
constexpr Nanoseconds counters_share = 20;
constexpr Nanoseconds patience = 20'000'000'000;  // time limit for a card that does not end

void refuse_unfit(const ClopOptions& options) {
  if (options.threads > 1)
    throw std::invalid_argument("card_threads = " + std::to_string(options.threads) +
                                ": the simulated card runs in one thread; remove the option");
  if (options.allocator && !options.allocator->cpu_accessible())
    throw std::invalid_argument("the simulated card writes with a CPU, which cannot access this memory");
}

class SimulatedCard final : public card::Card {
 public:
  explicit SimulatedCard(SimulationOptions options) : options_(std::move(options)) {}
  ~SimulatedCard() override { stop(); }

  std::string_view name() const noexcept override { return "gateware"; }
  bool simulated() const noexcept override { return true; }

  bool receive() noexcept override {
    bool any = false;
    for (auto& port : ports_) {
      bool came = false;
      if ((queued(*port) < wire_room || port->simulation->held()) && !stopping_) came = read(*port);
      if (came || !port->simulation->at_rest()) came |= step(*port);
      any |= came;
    }
    return any;
  }
  bool send() noexcept override {
    bool any = false;
    for (auto& port : ports_)
      if (stopping_ || !port->simulation->at_rest())
        any |= port->simulation->run((port->simulation->timed() ? timed_cycles : live_cycles) / 4);
    return any;
  }
  void wait(Nanoseconds limit) noexcept override {
    std::array<pollfd, 64> fds;
    nfds_t count = 0;
    for (auto& port : ports_) {
      // Its timers need a running clock.
      if (!port->simulation->at_rest() && !port->simulation->held()) return;
      for (const os::Fd& fd : port->sockets)
        if (count < fds.size()) fds[count++] = {fd.get(), POLLIN, 0};
    }
    const timespec time{limit / 1'000'000'000, limit % 1'000'000'000};
    ppoll(fds.data(), count, &time, nullptr);
  }
  void drain() noexcept override {
    const Nanoseconds until = os::monotonic_now() + 1'000'000'000;
    for (auto& port : ports_) {
      while (port->reader->round([&](const card::SocketBatch& batch) { return take(*port, batch); }) &&
             os::monotonic_now() < until) {
      }
      port->simulation->drain();
    }
    stopping_ = true;
    give_up_ = os::monotonic_now() + patience;
  }
  bool passed_all() const noexcept override {
    bool all = true;
    for (const auto& port : ports_) all &= port->simulation->passed_all();
    return all || (stopping_ && os::monotonic_now() > give_up_);
  }
  std::vector<std::pair<std::string, double>> figures() const override {
    return ports_.empty() ? std::vector<std::pair<std::string, double>>{} : ports_[0]->simulation->figures();
  }
  double backlog() const noexcept override {
    double most = 0;
    for (const auto& port : ports_)
      for (const os::Fd& fd : port->sockets) most = std::max(most, os::receive_backlog(fd.get()));
    return most;
  }

 protected:
  Stream& open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) override {
    refuse_unfit(options);
    auto port = std::make_unique<Port>(options.deadline);
    std::vector<int> fds;
    for (const auto& endpoint : options.listen) {
      os::UdpReceiveOptions receive;
      receive.buffer_bytes = options.socket_buffer_bytes;
      receive.gro = true;
      port->sockets.push_back(os::open_udp_receiver(endpoint, receive));
      fds.push_back(port->sockets.back().get());
      local.push_back(os::local_endpoint(fds.back()));
    }
    port->overflow.resize(fds.size(), 0);
    port->transmit = card::open_transmit(options.destinations, port->counters);
    port->simulation = std::make_unique<Simulation>(options, static_cast<std::uint8_t>(ports_.size()),
                                                    *port->transmit, options_);
    port->counters = &port->simulation->stream().counters();
    port->reader = std::make_unique<card::SocketReader>(std::move(fds));
    ports_.push_back(std::move(port));
    return ports_.back()->simulation->stream();
  }
  void close_stream(Stream& stream) noexcept override {
    std::erase_if(ports_, [&](const auto& p) { return &p->simulation->stream() == &stream; });
  }

 private:
  struct Port {
    explicit Port(Nanoseconds deadline) : admission(longest_wait(deadline)) {}
    std::vector<os::Fd> sockets;
    std::vector<std::uint32_t> overflow;
    card::Counters* counters = nullptr;
    std::unique_ptr<card::Transmit> transmit;
    std::unique_ptr<Simulation> simulation;
    std::unique_ptr<card::SocketReader> reader;
    FrameAdmission admission;
    bool admitted = false;  // a packet of the last read
    os::ClockOffset clock;
    Nanoseconds next_look = 0;  // at the counters
  };

  // Bytes queued on the fullest wire.
  static std::size_t queued(const Port& port) noexcept {
    std::size_t most = 0;
    for (unsigned c = 0; c < sim::Model::channels(); ++c)
      most = std::max(most, port.simulation->model().waiting(c));
    return most;
  }
  // Reads as much as the wires carry in a round, so that no cycles are idle under load, but not more than the
  // sender takes; past packets that are left out. With final trigger in small steps, for the consumer.
  static bool read(Port& port) noexcept {
    bool any = false;
    for (unsigned i = 0; i < most_reads; ++i) {
      port.admitted = false;
      if (!port.reader->round([&](const card::SocketBatch& batch) { return take(port, batch); })) break;
      any = true;
      const bool full = queued(port) >= wire_round || port.simulation->waiting() > sender_round;
      if (port.admitted && (full || port.simulation->timed())) break;
    }
    return any;
  }
  static Nanoseconds take(Port& port, const card::SocketBatch& batch) noexcept {
    std::uint32_t& overflow = port.overflow[batch.source()];
    // With final trigger the card's time follows the boards.
    const bool timed = port.simulation->timed();
    port.clock.refresh_if_older(batch.before());
    for (std::size_t i = 0; i < batch.messages(); ++i) {
      const os::ReceiveInfo& info = batch.info(i);
      if (info.has_overflow) {
        port.simulation->lost_before(info.overflow - overflow);
        overflow = info.overflow;
      }
      const Nanoseconds waited =
          info.realtime_ns ? batch.before() - port.clock.arrival(info.realtime_ns, batch.before()) : 0;
      const std::span<const std::byte> bytes = batch.bytes(i);
      const std::size_t step =
          info.segment_bytes ? info.segment_bytes : std::max<std::size_t>(bytes.size(), 1);
      std::size_t from = 0;
      do {  // an empty datagram is a packet too
        const auto datagram = bytes.subspan(from, std::min(step, bytes.size() - from));
        // Each board uses a fixed link.
        const unsigned board = datagram.size() > 1 ? static_cast<unsigned>(datagram[1]) : 0;
        if (timed || port.admission.admits(datagram, waited)) {
          port.simulation->datagram(board % sim::Model::channels(), datagram);
          port.admitted = true;
        } else {
          port.simulation->lost_before(1);
        }
        from += step;
      } while (from < bytes.size());
    }
    return batch.before();
  }
  static bool step(Port& port) noexcept {
    Simulation& simulation = *port.simulation;
    const bool timed = simulation.timed();
    if (timed && simulation.waiting() > unanswered) nanosleep(&consumer_nap, nullptr);
    bool any = simulation.run(timed ? timed_cycles : live_cycles);
    const Nanoseconds now = os::monotonic_now();
    if (now >= port.next_look && port.simulation->counters_due()) {
      port.simulation->read_counters();
      const Nanoseconds took = os::monotonic_now() - now;
      port.next_look = now + std::max(counters_every, counters_share * took);
    }
    return any;
  }

  SimulationOptions options_;
  std::vector<std::unique_ptr<Port>> ports_;
  bool stopping_ = false;
  Nanoseconds give_up_ = 0;
};

class SimulatedPlayback final : public card::Playback {
 public:
  SimulatedPlayback(ClopOptions clop, std::uint16_t port, card::Transmit& transmit, SimulationOptions options)
      : port_(port) {
    refuse_unfit(clop);
    options.driver.ports = {port};
    options.driver.window_frames = 1024;
    clop.destinations = {{0x0A000003, 58914}};
    simulation_ = std::make_unique<Simulation>(clop, 0, transmit, options);
  }
  std::string_view name() const noexcept override { return "gateware"; }
  Stream& stream() noexcept override { return simulation_->stream(); }

  bool frame(std::span<const std::byte> frame, std::size_t original) noexcept override {
    const std::size_t buffers = stream().table().slots();
    // Limits: bytes in the card up to its channel buffer size; buffers held by the consumer up to a limit
    // that leaves a window of open frames and an equal gap.
    const bool giant = frame.size() > Simulation::largest_frame;
    const std::size_t bytes = std::min(frame.size(), Simulation::largest_frame) + 24;
    if (since_ && since_ + bytes > most_unread) {
      if (!simulation_->idle()) return false;
      since_ = 0;
    }
    if (simulation_->out() > buffers / 4) return false;
    since_ += bytes;
    if (giant) {
      const wire::UdpFrame parsed = wire::parse_udp_frame(frame, original, port_);
      if (parsed.reason == wire::NotMgp::none)
        simulation_->datagram(0, parsed.payload);
      else
        ++giants_[static_cast<std::size_t>(parsed.reason)];
      return true;
    }
    constexpr std::size_t ethernet_header = 14;
    if (frame.size() < ethernet_header)
      ++runts_;  // no MAC delivers these
    else
      simulation_->frame(0, frame, original);
    return true;
  }
  void work() noexcept override { simulation_->run(most_unread / 8); }
  bool decided() noexcept override { return simulation_->idle(); }
  void drain() noexcept override { simulation_->drain(); }
  bool passed_all() const noexcept override { return simulation_->passed_all(); }
  void settle() noexcept override { simulation_->read_counters(); }
  std::vector<std::pair<std::string, double>> figures() const override { return simulation_->figures(); }
  std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept override {
    const CounterBank& bank = simulation_->driver().counters();
    auto out = giants_;
    out[static_cast<std::size_t>(wire::NotMgp::cut_short)] += runts_;
    for (unsigned c = 0; c < sim::Model::channels(); ++c) {
      const auto at = [&](std::size_t field) {
        return bank.at(offsetof(nanet_regs_t, verdicts) + c * sizeof(verdicts_t__stride40_t) + field);
      };
      const auto add = [&](wire::NotMgp reason, std::size_t field) {
        out[static_cast<std::size_t>(reason)] += at(field);
      };
      add(wire::NotMgp::not_udp, offsetof(verdicts_t__stride40_t, not_udp));
      add(wire::NotMgp::other_port, offsetof(verdicts_t__stride40_t, other_port));
      add(wire::NotMgp::ip_fragment, offsetof(verdicts_t__stride40_t, ip_fragment));
      add(wire::NotMgp::bad_checksum, offsetof(verdicts_t__stride40_t, bad_checksum));
      add(wire::NotMgp::not_ipv4, offsetof(verdicts_t__stride40_t, not_ipv4));
      add(wire::NotMgp::not_ipv4, offsetof(verdicts_t__stride40_t, arp));
      add(wire::NotMgp::cut_short, offsetof(verdicts_t__stride40_t, cut_short));
      add(wire::NotMgp::udp_length, offsetof(verdicts_t__stride40_t, udp_length));
    }
    return out;
  }

 private:
  static constexpr std::size_t most_unread = 6000;  // bytes
  std::unique_ptr<Simulation> simulation_;
  std::size_t since_ = 0;
  std::uint64_t runts_ = 0;
  std::array<std::uint64_t, wire::not_mgp_count> giants_{};
  std::uint16_t port_;
};

}  // namespace

std::unique_ptr<card::Card> make_simulated_card(const SimulationOptions& options) {
  return std::make_unique<SimulatedCard>(options);
}

std::unique_ptr<card::Playback> make_simulated_playback(const ClopOptions& clop, std::uint16_t port,
                                                        card::Transmit& transmit,
                                                        const SimulationOptions& options) {
  return std::make_unique<SimulatedPlayback>(clop, port, transmit, options);
}

}  // namespace nanet::gateware
