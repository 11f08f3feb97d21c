// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket/socket_card.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "nanet/card/socket/receive_buffer.hpp"
#include "nanet/card/socket/socket_reader.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::card {
namespace {

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

namespace {

// Age up to which packets may wait in the socket: a quarter of the deadline, so that the other stages have
// time; above the stops of a usual host.
Nanoseconds tolerated_age(Nanoseconds deadline) {
  return deadline > 0 ? std::max<Nanoseconds>(deadline / 4, 5'000'000) : 0;
}

class SocketPort final : public SoftwarePort {
 public:
  SocketPort(const ClopOptions& options, std::uint8_t number, std::vector<wire::Endpoint>& local) {
    open(options, number, open_transmit(options.destinations, counters_));
    // Opened after the buffers, which take time to populate: packets received meanwhile would already be
    // late.
    os::UdpReceiveOptions receive;
    receive.buffer_bytes = options.socket_buffer_bytes;
    receive.gro = true;
    receive.busy_poll_us = options.busy_poll_us;
    std::vector<int> fds;
    for (const auto& endpoint : options.listen) {
      sockets_.push_back(os::open_udp_receiver(endpoint, receive));
      fds.push_back(sockets_.back().get());
      buffers_.emplace_back(fds.back(), tolerated_age(options.deadline), options.deadline);
      local.push_back(os::local_endpoint(fds.back()));
    }
    overflow_.resize(sockets_.size(), 0);
    const std::size_t threads = reading_threads(options);
    reader_ = std::make_unique<SocketReader>(std::move(fds), threads, reading_cpus(options), options.rules,
                                             threads > 0 ? stream().write_ahead() : nullptr, options.stops);
  }

  bool read() noexcept override {
    const bool any = reader_->round([this](const SocketBatch& batch) { return take(batch); });
    clock_.refresh_if_older(reader_->read_up_to());
    return any;
  }
  Nanoseconds read_up_to() const noexcept override { return reader_->read_up_to(); }
  bool threaded() const noexcept override { return reader_->threaded(); }
  void watch(PollSet& set) noexcept override {
    for (const os::Fd& fd : sockets_) set.add(fd.get());
  }
  double backlog() const noexcept override {
    double most = 0;
    for (const os::Fd& fd : sockets_) most = std::max(most, os::receive_backlog(fd.get()));
    return most;
  }

 private:
  // Passes one batch to the receiver; returns the time stamp of its last message.
  Nanoseconds take(const SocketBatch& batch) noexcept {
    Nanoseconds stamp = batch.before();
    std::size_t k = 0;
    std::uint64_t& overflow = overflow_[batch.source()];
    if (batch.messages() > 0) {
      const std::int64_t first = batch.info(0).realtime_ns;
      const Nanoseconds age = first ? batch.before() - clock_.arrival(first, batch.before()) : 0;
      counters_->lost[static_cast<std::size_t>(Lost::socket_overflow)] +=
          buffers_[batch.source()].observe(batch.before(), age, first);
    }
    for (std::size_t i = 0; i < batch.messages(); ++i) {
      const os::ReceiveInfo& info = batch.info(i);
      stamp = info.realtime_ns ? clock_.arrival(info.realtime_ns, batch.before()) : batch.before();
      if (info.has_overflow) {  // a 32-bit running count
        const auto gone = static_cast<std::uint32_t>(info.overflow - static_cast<std::uint32_t>(overflow));
        overflow += gone;
        counters_->lost[static_cast<std::size_t>(Lost::socket_overflow)] += gone;
      }
      batch.datagrams(i, [&](std::span<const std::byte> datagram) {
        const SocketBatch::Validated* const validated = batch.validated(k++);
        packet(datagram, validated ? &validated->checked : nullptr, stamp,
               validated ? validated->written : WrittenSegment{.foreign = true});
      });
    }
    return stamp;
  }

  std::vector<os::Fd> sockets_;
  std::vector<ReceiveBuffer> buffers_;   // per socket
  std::vector<std::uint64_t> overflow_;  // per socket, wraps counted
  std::unique_ptr<SocketReader> reader_;
  os::ClockOffset clock_;
};

}  // namespace

std::unique_ptr<SoftwarePort> SocketCard::open_port(const ClopOptions& options, std::uint8_t number,
                                                    std::vector<wire::Endpoint>& local) {
  return std::make_unique<SocketPort>(options, number, local);
}

}  // namespace nanet::card
