// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket_card.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace nanet::card {
namespace {

constexpr std::size_t messages = 32;  // per recvmmsg of single datagrams
constexpr std::size_t trains =
    4;  // per recvmmsg of trains: what is read is worked on while it is in the cache
constexpr std::size_t message_bytes = 65536;  // the largest train that UDP_GRO hands over
// Apart by no power of two, or the first lines of all messages would share a few sets of the cache.
constexpr std::size_t message_stride = message_bytes + 33 * 64;

// Sends through one connected socket per destination: the route is looked up once.
class SocketTransmit final : public Transmit {
 public:
  SocketTransmit(const std::vector<wire::Endpoint>& destinations, Counters* const& counters)
      : counters_(counters) {
    for (const auto& d : destinations) sockets_.push_back(open_udp_sender(d));
  }
  std::uint32_t destinations() const noexcept override {
    return static_cast<std::uint32_t>(std::max<std::size_t>(sockets_.size(), 1));
  }

  std::size_t send(std::span<const Datagram> batch) noexcept override {
    if (sockets_.empty()) return batch.size();  // nobody was named: answers go nowhere
    std::size_t done = 0;
    while (done < batch.size()) {
      // A run to one destination leaves in one call.
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
      const int sent =
          sendmmsg(sockets_[destination].get(), message_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<std::size_t>(sent);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR)
        break;  // the socket is full: later
      // Refused (nobody listens there) and the like concern an earlier datagram or this one; it is counted
      // and passed over, since the sender may not stop for one receiver.
      if (counters_) ++counters_->send_errors;
      if (errno != ECONNREFUSED) ++done;
    }
    return done;
  }

 private:
  std::vector<Fd> sockets_;
  Counters* const& counters_;
  std::array<mmsghdr, 64> message_{};
  std::array<iovec, 64> vector_{};
};

}  // namespace

struct SocketCard::Port {
  std::vector<Fd> sockets;
  std::vector<Nanoseconds> read_up_to;  // per socket: everything that arrived before has been read
  std::vector<std::uint64_t> overflow;  // per socket, wraps counted
  std::vector<std::size_t> batch;       // per socket: messages to ask for
  Counters* counters = nullptr;
  std::unique_ptr<SocketTransmit> transmit;
  std::unique_ptr<Stream> stream;
};

// Room for one recvmmsg, shared by all sockets.
struct SocketCard::Room {
  std::vector<std::byte> bytes = std::vector<std::byte>(messages * message_stride);
  std::array<mmsghdr, messages> message{};
  std::array<iovec, messages> vector{};
  std::array<std::array<std::byte, receive_control_bytes>, messages> control{};

  Room() {
    for (std::size_t i = 0; i < messages; ++i) vector[i] = {bytes.data() + i * message_stride, message_bytes};
  }
  void reset(std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      message[i].msg_hdr = {};
      message[i].msg_hdr.msg_iov = &vector[i];
      message[i].msg_hdr.msg_iovlen = 1;
      message[i].msg_hdr.msg_control = control[i].data();
      message[i].msg_hdr.msg_controllen = control[i].size();
    }
  }
};

SocketCard::SocketCard() : room_(std::make_unique<Room>()) {
  room_->reset(messages);
}
SocketCard::~SocketCard() {
  stop();
}

Stream& SocketCard::open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) {
  auto port = std::make_unique<Port>();
  UdpReceiveOptions receive;
  receive.buffer_bytes = options.socket_buffer_bytes;
  receive.gro = true;
  for (const auto& endpoint : options.listen) {
    port->sockets.push_back(open_udp_receiver(endpoint, receive));
    local.push_back(local_endpoint(port->sockets.back().get()));
  }
  port->read_up_to.resize(port->sockets.size(), 0);
  port->overflow.resize(port->sockets.size(), 0);
  port->batch.resize(port->sockets.size(), messages);
  port->transmit = std::make_unique<SocketTransmit>(options.destinations, port->counters);
  ClopOptions timed = options;
  timed.clock = monotonic_now;
  port->stream = std::make_unique<Stream>(timed, next_stream_++, *port->transmit);
  port->counters = &port->stream->counters();
  ports_.push_back(std::move(port));
  return *ports_.back()->stream;
}

void SocketCard::close_stream(Stream& stream) noexcept {
  std::erase_if(ports_, [&](const auto& p) { return p->stream.get() == &stream; });
}

// One recvmmsg of one socket. True if anything came.
bool SocketCard::read(Port& port, std::size_t socket) noexcept {
  Room& room = *room_;
  const Nanoseconds before = monotonic_now();
  const std::size_t asked = port.batch[socket];
  const int got = recvmmsg(port.sockets[socket].get(), room.message.data(), static_cast<unsigned>(asked),
                           MSG_DONTWAIT, nullptr);
  if (got <= 0) {
    port.read_up_to[socket] = before;
    return false;
  }
  Receiver& receiver = port.stream->receiver();
  Nanoseconds stamp = before;
  bool train = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
    const mmsghdr& m = room.message[i];
    const ReceiveInfo info = receive_info(m.msg_hdr);
    stamp = info.realtime_ns ? clock_.to_monotonic(info.realtime_ns) : before;
    if (info.has_overflow) {  // a 32-bit running count
      const auto gone =
          static_cast<std::uint32_t>(info.overflow - static_cast<std::uint32_t>(port.overflow[socket]));
      port.overflow[socket] += gone;
      port.counters->lost[static_cast<std::size_t>(Lost::socket_overflow)] += gone;
    }
    const std::byte* at = room.bytes.data() + i * message_stride;
    train |= info.segment_bytes != 0;
    const std::size_t size = m.msg_len;
    const std::size_t step = info.segment_bytes ? info.segment_bytes : std::max<std::size_t>(size, 1);
    std::size_t from = 0;
    do {  // an empty datagram is a packet too
      receiver.packet({at + from, std::min(step, size - from)}, stamp);
      from += step;
    } while (from < size);
  }
  room.reset(static_cast<std::size_t>(got));
  // Fewer than asked for: the socket was empty when the call returned, so nothing older than its start is
  // left in it.
  port.read_up_to[socket] = static_cast<std::size_t>(got) < asked ? before : std::min(before, stamp);
  port.batch[socket] = train ? trains : messages;
  return true;
}

bool SocketCard::receive() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    Nanoseconds safe = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t s = 0; s < port->sockets.size(); ++s) {
      any |= read(*port, s);
      safe = std::min(safe, port->read_up_to[s]);
    }
    if (port->sockets.empty()) safe = monotonic_now();
    port->stream->receiver().expire(safe);
  }
  if (!ports_.empty() && !ports_[0]->read_up_to.empty()) clock_.refresh_if_older(ports_[0]->read_up_to[0]);
  return any;
}

bool SocketCard::send() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    if (port->stream->passed_all()) continue;
    any |= port->stream->sender().poll(monotonic_now(), monotonic_now) > 0;
  }
  return any;
}

void SocketCard::wait(Nanoseconds limit) noexcept {
  std::array<pollfd, 64> fds;
  nfds_t count = 0;
  const Nanoseconds now = monotonic_now();
  Nanoseconds until = now + limit;
  for (auto& port : ports_) {
    for (const Fd& fd : port->sockets)
      if (count < fds.size()) fds[count++] = {fd.get(), POLLIN, 0};
    until = std::min({until, port->stream->receiver().next_timer(), port->stream->sender().next_deadline()});
  }
  if (until <= now) return;
  const Nanoseconds left = until - now;
  const timespec time{left / 1'000'000'000, left % 1'000'000'000};
  ppoll(fds.data(), count, &time, nullptr);
}

void SocketCard::drain() noexcept {
  // What has arrived so far is read; a sender that never stops does not keep the card from ending.
  const Nanoseconds until = monotonic_now() + 1'000'000'000;
  while (receive() && monotonic_now() < until) send();
  for (auto& port : ports_) port->stream->receiver().drain(monotonic_now());
}

bool SocketCard::passed_all() const noexcept {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& p) { return p->stream->passed_all(); });
}

}  // namespace nanet::card
