// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/raw/raw_card.hpp"

#include <poll.h>

#include <algorithm>
#include <stdexcept>

#include "nanet/card/socket/socket_reader.hpp"
#include "nanet/card/socket/transmit_thread.hpp"
#include "nanet/card/software/software_stream.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {
namespace {

constexpr std::size_t frames_at_once = 64;
constexpr std::size_t packets_between_answers = 4;  // about a microsecond of placement
// Intervals of system calls that almost never find anything: reading the sockets, and the drop counts.
constexpr Nanoseconds sockets_every = 100'000, drops_every = 100'000'000;

std::uint16_t destination_port(std::span<const std::byte> frame) {
  constexpr std::size_t at = 36;  // in a frame without IP options, the only kind that a source passes
  if (frame.size() < at + 2) return 0;
  return static_cast<std::uint16_t>(static_cast<unsigned>(frame[at]) << 8 |
                                    static_cast<unsigned>(frame[at + 1]));
}

}  // namespace

struct RawCard::Port {
  RawPort network;
  std::unique_ptr<SocketReader> reader;  // of the sockets
  std::vector<std::uint64_t> drops;      // per source, counted so far
  Counters* counters = nullptr;
  std::size_t placed = 0;  // packets since answers were last polled
  Nanoseconds read_up_to = 0, sockets_due = 0, drops_due = 0;
  std::unique_ptr<SoftwareStream> stream;
};

RawCard::RawCard(std::string name, OpenRawPort open) : name_(std::move(name)), open_(std::move(open)) {}
RawCard::~RawCard() {
  stop();
}

Stream& RawCard::open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) {
  if (options.allocator && !options.allocator->cpu_accessible())
    throw std::invalid_argument("the " + name_ + " card writes with a CPU, which cannot access this memory");
  if (options.threads > 2)
    throw std::invalid_argument("card_threads = " + std::to_string(options.threads) + ": the " + name_ +
                                " card receives in one thread; give at most 2");
  auto port = std::make_unique<Port>();
  port->network = open_(options, port->counters);
  if (options.threads > 1)
    port->network.transmit = std::make_unique<TransmitThread>(
        std::move(port->network.transmit), options.thread_cpus.empty() ? -1 : options.thread_cpus[0]);
  ClopOptions timed = options;
  timed.clock = os::monotonic_now;
  port->stream = std::make_unique<SoftwareStream>(timed, next_stream_++, *port->network.transmit);
  port->counters = &port->stream->counters();
  port->drops.resize(port->network.sources.size(), 0);
  std::vector<int> fds;
  for (const os::Fd& fd : port->network.sockets) fds.push_back(fd.get());
  port->reader = std::make_unique<SocketReader>(std::move(fds));
  local = port->network.local;
  ports_.push_back(std::move(port));
  return *ports_.back()->stream;
}

void RawCard::close_stream(Stream& stream) noexcept {
  std::erase_if(ports_, [&](const auto& p) { return p->stream.get() == &stream; });
}

void RawCard::packet(Port& port, std::span<const std::byte> datagram, Nanoseconds stamp) noexcept {
  port.stream->receiver().packet(datagram, stamp);
  // Ready answers leave before the rest of the batch is processed.
  if (++port.placed >= packets_between_answers) send_answers(port);
}

bool RawCard::read(Port& port) noexcept {
  bool any = false;
  const Nanoseconds now = os::monotonic_now();
  Nanoseconds safe = now;  // frames that arrived before it have been taken
  std::array<Arrival, frames_at_once> arrivals;
  for (auto& source : port.network.sources) {
    const std::size_t count = source->take(arrivals);
    if (count == 0) continue;
    any = true;
    // A queue that may hold more is read up to its last frame, so that timers run under sustained load.
    if (count == arrivals.size())
      safe = std::min(safe, arrivals[count - 1].stamp ? arrivals[count - 1].stamp : port.read_up_to);
    for (std::size_t i = 0; i < count; ++i) {
      const Arrival& arrival = arrivals[i];
      if (i + 1 < count) __builtin_prefetch(arrivals[i + 1].frame.data());
      const wire::UdpFrame udp =
          wire::parse_udp_frame(arrival.frame, arrival.frame.size(), destination_port(arrival.frame));
      if (udp.reason != wire::NotMgp::none) {
        ++not_mgp_[static_cast<std::size_t>(udp.reason)];
        continue;
      }
      packet(port, udp.payload, arrival.stamp ? arrival.stamp : now);
    }
    source->give_back();
  }
  port.read_up_to = std::max(port.read_up_to, safe);
  return any | read_sockets(port, now);
}

bool RawCard::read_sockets(Port& port, Nanoseconds now) noexcept {
  if (now < port.sockets_due || port.network.sockets.empty()) return false;
  port.sockets_due = now + sockets_every;
  return port.reader->round([&](const SocketBatch& batch) {
    for (std::size_t i = 0; i < batch.messages(); ++i)
      batch.datagrams(i, [&](std::span<const std::byte> datagram) { packet(port, datagram, now); });
    return batch.before();
  });
}

void RawCard::count_drops(Port& port) noexcept {
  const Nanoseconds now = os::monotonic_now();
  if (now < port.drops_due) return;
  port.drops_due = now + drops_every;
  for (std::size_t s = 0; s < port.network.sources.size(); ++s) {
    const std::uint64_t drops = port.network.sources[s]->drops();
    port.counters->lost[static_cast<std::size_t>(Lost::ring_overflow)] += drops - port.drops[s];
    port.drops[s] = drops;
  }
}

bool RawCard::receive() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    any |= read(*port);
    port->stream->receiver().expire(port->read_up_to);
    count_drops(*port);
  }
  return any;
}

bool RawCard::send_answers(Port& port) noexcept {
  port.placed = 0;
  return !port.stream->passed_all() && port.stream->sender().poll(os::monotonic_now(), os::monotonic_now) > 0;
}

bool RawCard::send() noexcept {
  bool any = false;
  for (auto& port : ports_) any |= send_answers(*port);
  return any;
}

void RawCard::wait(Nanoseconds limit) noexcept {
  std::array<pollfd, 128> fds;
  nfds_t count = 0;
  const Nanoseconds now = os::monotonic_now();
  Nanoseconds until = now + limit;
  const auto watch = [&](int fd) {
    if (fd >= 0 && count < fds.size()) fds[count++] = {fd, POLLIN, 0};
  };
  for (auto& port : ports_) {
    for (const auto& source : port->network.sources) watch(source->wait_fd());
    for (const os::Fd& fd : port->network.sockets) watch(fd.get());
    until = std::min({until, port->stream->receiver().next_timer(), port->stream->sender().next_deadline()});
    port->sockets_due = 0;
  }
  if (until <= now) return;
  const timespec time{(until - now) / 1'000'000'000, (until - now) % 1'000'000'000};
  ppoll(fds.data(), count, &time, nullptr);
}

void RawCard::drain() noexcept {
  // Reads what has arrived so far; a sender that never stops must not keep the card from ending.
  const Nanoseconds until = os::monotonic_now() + 1'000'000'000;
  for (auto& port : ports_) port->sockets_due = port->drops_due = 0;
  while (receive() && os::monotonic_now() < until) send();
  for (auto& port : ports_) port->stream->receiver().drain(os::monotonic_now());
}

bool RawCard::passed_all() const noexcept {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& p) { return p->stream->passed_all(); });
}

double RawCard::backlog() const noexcept {
  double most = 0;
  for (const auto& port : ports_)
    for (const auto& source : port->network.sources) most = std::max(most, source->backlog());
  return most;
}

std::array<std::uint64_t, wire::not_mgp_count> RawCard::not_mgp() const noexcept {
  std::array<std::uint64_t, wire::not_mgp_count> out{};
  std::copy(not_mgp_.begin(), not_mgp_.end(), out.begin());
  return out;
}

}  // namespace nanet::card
