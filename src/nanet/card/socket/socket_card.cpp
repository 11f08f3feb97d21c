// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket/socket_card.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <stdexcept>

#include "nanet/card/socket/transmit_thread.hpp"
#include "nanet/card/software/software_stream.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::card {
namespace {

constexpr std::size_t packets_between_answers = 4;  // about a microsecond of placement

// One connected socket per destination, so that the kernel looks the route up once.
class SocketTransmit final : public Transmit {
 public:
  SocketTransmit(const std::vector<wire::Endpoint>& destinations, Counters* const& counters)
      : counters_(counters) {
    for (const auto& d : destinations) sockets_.push_back(os::open_udp_sender(d));
  }
  std::uint32_t destinations() const noexcept override {
    return static_cast<std::uint32_t>(std::max<std::size_t>(sockets_.size(), 1));
  }

  std::size_t send(std::span<const Datagram> batch) noexcept override {
    if (sockets_.empty()) return batch.size();  // no destination is configured: answers are dropped
    std::size_t done = 0;
    while (done < batch.size()) {
      // Consecutive datagrams to one destination leave in one call.
      const std::uint32_t destination = batch[done].destination;
      std::size_t count = 0;
      while (done + count < batch.size() && count < message_.size() &&
             batch[done + count].destination == destination) {
        const Datagram& d = batch[done + count];
        vector_[count] = {const_cast<std::byte*>(d.data), d.bytes};
        message_[count].msg_hdr = {};
        message_[count].msg_hdr.msg_iov = &vector_[count];
        message_[count].msg_hdr.msg_iovlen = 1;
        ++count;
      }
      // A single datagram, the usual case, takes the shorter call.
      const int fd = sockets_[destination].get();
      int sent = -1;
      if (count > 1)
        sent = sendmmsg(fd, message_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
      else if (::send(fd, batch[done].data, batch[done].bytes, MSG_DONTWAIT) >= 0)
        sent = 1;
      if (sent > 0) {
        done += static_cast<std::size_t>(sent);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR)
        break;  // the socket is full: retry later
      // Errors such as a refused connection concern an earlier datagram or this one. They are counted and
      // skipped: one destination must not stop the sender.
      if (counters_) ++counters_->send_errors;
      if (errno != ECONNREFUSED) ++done;
    }
    return done;
  }

 private:
  std::vector<os::Fd> sockets_;
  Counters* const& counters_;
  std::array<mmsghdr, 64> message_{};
  std::array<iovec, 64> vector_{};
};

}  // namespace

std::unique_ptr<Transmit> open_transmit(const std::vector<wire::Endpoint>& destinations,
                                        Counters* const& counters) {
  return std::make_unique<SocketTransmit>(destinations, counters);
}

struct SocketCard::Port {
  std::vector<os::Fd> sockets;
  std::vector<std::uint64_t> overflow;  // per socket, wraps counted
  Counters* counters = nullptr;
  std::size_t placed = 0;  // packets since answers were last polled
  std::unique_ptr<Transmit> transmit;
  std::unique_ptr<SocketReader> reader;
  std::unique_ptr<SoftwareStream> stream;
};

SocketCard::SocketCard() = default;
SocketCard::~SocketCard() {
  stop();
}

Stream& SocketCard::open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) {
  if (options.allocator && !options.allocator->cpu_accessible())
    throw std::invalid_argument("the socket card writes with a CPU, which cannot access this memory");
  auto port = std::make_unique<Port>();
  port->transmit = open_transmit(options.destinations, port->counters);
  if (options.threads > 1)
    port->transmit = std::make_unique<TransmitThread>(
        std::move(port->transmit), options.thread_cpus.empty() ? -1 : options.thread_cpus[0]);
  ClopOptions timed = options;
  timed.clock = os::monotonic_now;
  port->stream = std::make_unique<SoftwareStream>(timed, next_stream_++, *port->transmit);
  port->counters = &port->stream->counters();
  // Opened after the buffers, which take time to populate: packets received meanwhile would already be late.
  os::UdpReceiveOptions receive;
  receive.buffer_bytes = options.socket_buffer_bytes;
  receive.gro = true;
  receive.busy_poll_us = options.busy_poll_us;
  std::vector<int> fds;
  for (const auto& endpoint : options.listen) {
    port->sockets.push_back(os::open_udp_receiver(endpoint, receive));
    fds.push_back(port->sockets.back().get());
    local.push_back(os::local_endpoint(fds.back()));
  }
  port->overflow.resize(port->sockets.size(), 0);
  std::span<const int> readers_cpus = options.thread_cpus;
  readers_cpus = readers_cpus.subspan(std::min<std::size_t>(1, readers_cpus.size()));
  port->reader = std::make_unique<SocketReader>(std::move(fds), options.threads > 2 ? options.threads - 2 : 0,
                                                readers_cpus, options.rules);
  ports_.push_back(std::move(port));
  return *ports_.back()->stream;
}

void SocketCard::close_stream(Stream& stream) noexcept {
  std::erase_if(ports_, [&](const auto& p) { return p->stream.get() == &stream; });
}

// Passes one batch to the receiver; returns the time stamp of its last message.
Nanoseconds SocketCard::take(Port& port, const SocketBatch& batch) noexcept {
  Receiver& receiver = port.stream->receiver();
  Nanoseconds stamp = batch.before();
  std::size_t k = 0;
  std::uint64_t& overflow = port.overflow[batch.socket()];
  for (std::size_t i = 0; i < batch.messages(); ++i) {
    const os::ReceiveInfo& info = batch.info(i);
    stamp = info.realtime_ns ? clock_.to_monotonic(info.realtime_ns) : batch.before();
    if (info.has_overflow) {  // a 32-bit running count
      const auto gone = static_cast<std::uint32_t>(info.overflow - static_cast<std::uint32_t>(overflow));
      overflow += gone;
      port.counters->lost[static_cast<std::size_t>(Lost::socket_overflow)] += gone;
    }
    batch.datagrams(i, [&](std::span<const std::byte> datagram) {
      if (const wire::mgp::Checked* checked = batch.checked(k++))
        receiver.checked_packet(datagram, *checked, stamp);
      else
        receiver.packet(datagram, stamp);
      // Ready answers leave before the rest of the batch is processed.
      if (++port.placed >= packets_between_answers) send_answers(port);
    });
  }
  return stamp;
}

// Time before which every packet has been read, over all sockets.
Nanoseconds SocketCard::read_up_to(const Port& port) noexcept {
  Nanoseconds safe = std::numeric_limits<Nanoseconds>::max();
  for (std::size_t s = 0; s < port.sockets.size(); ++s) safe = std::min(safe, port.reader->read_up_to(s));
  return port.sockets.empty() ? os::monotonic_now() : safe;
}

bool SocketCard::receive() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    any |= port->reader->round([&](const SocketBatch& batch) { return take(*port, batch); });
    port->stream->receiver().expire(read_up_to(*port));
  }
  if (!ports_.empty() && !ports_[0]->sockets.empty())
    clock_.refresh_if_older(ports_[0]->reader->read_up_to(0));
  return any;
}

bool SocketCard::send_answers(Port& port) noexcept {
  port.placed = 0;
  return !port.stream->passed_all() && port.stream->sender().poll(os::monotonic_now(), os::monotonic_now) > 0;
}

bool SocketCard::send() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    any |= send_answers(*port);
  }
  return any;
}

void SocketCard::wait(Nanoseconds limit) noexcept {
  std::array<pollfd, 64> fds;
  nfds_t count = 0;
  const Nanoseconds now = os::monotonic_now();
  Nanoseconds until = now + limit;
  bool threaded = false;
  for (auto& port : ports_) {
    threaded |= port->reader->threaded();
    for (const os::Fd& fd : port->sockets)
      if (count < fds.size()) fds[count++] = {fd.get(), POLLIN, 0};
    until = std::min({until, port->stream->receiver().next_timer(), port->stream->sender().next_deadline()});
  }
  if (until <= now) return;
  // With reading threads, ppoll cannot wait on the sockets: poll them at intervals.
  constexpr Nanoseconds look = 50'000;
  const Nanoseconds left = threaded ? std::min(until - now, look) : until - now;
  const timespec time{left / 1'000'000'000, left % 1'000'000'000};
  ppoll(fds.data(), threaded ? 0 : count, &time, nullptr);
}

void SocketCard::drain() noexcept {
  // Reads packets that have arrived so far; a sender that never stops must not keep the card from ending.
  const Nanoseconds began = os::monotonic_now(), until = began + 1'000'000'000;
  const auto unread = [&](const auto& p) { return p->reader->threaded() && read_up_to(*p) < began; };
  while ((receive() || std::any_of(ports_.begin(), ports_.end(), unread)) && os::monotonic_now() < until)
    send();
  for (auto& port : ports_) port->stream->receiver().drain(os::monotonic_now());
}

bool SocketCard::passed_all() const noexcept {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& p) { return p->stream->passed_all(); });
}

double SocketCard::backlog() const noexcept {
  double most = 0;
  for (const auto& port : ports_)
    for (const os::Fd& fd : port->sockets) most = std::max(most, os::receive_backlog(fd.get()));
  return most;
}

}  // namespace nanet::card
