// SPDX-License-Identifier: Apache-2.0
// UDP sockets as the card and its neighbours need them: opening with errors that name the remedy, buffer
// sizes, kernel stamps, overflow counts and segment sizes out of control messages, and the way from
// CLOCK_REALTIME to CLOCK_MONOTONIC.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

// "HOST:PORT" -> endpoint; HOST is an IPv4 address or a name that resolves to one, empty or "*" any address
// (0.0.0.0). Throws std::invalid_argument that names the value and the remedy.
wire::Endpoint parse_endpoint(std::string_view text);
// "HOST:PORT,HOST:PORT": at least one. Throws like parse_endpoint.
std::vector<wire::Endpoint> parse_endpoints(std::string_view text);
std::string to_string(const wire::Endpoint& endpoint);  // "127.0.0.1:58913"
sockaddr_in to_sockaddr(const wire::Endpoint& endpoint) noexcept;
wire::Endpoint from_sockaddr(const sockaddr_in& address) noexcept;

struct UdpReceiveOptions {
  int buffer_bytes = 32 << 20;  // asked for; the kernel may grant less, see receive_buffer()
  bool timestamps = true;       // SO_TIMESTAMPNS: CLOCK_REALTIME of arrival
  bool overflow_count = true;   // SO_RXQ_OVFL
  bool gro = false;             // UDP_GRO: trains come as one message with a segment size
  bool reuse_port = false;      // SO_REUSEPORT: several sockets share the port
  bool reuse_address = false;
  int busy_poll_us = 0;  // SO_BUSY_POLL, where the driver knows it
};
// Opens, sets up and binds a non-blocking receiver; port 0 takes a free one (see local_endpoint). Throws
// std::system_error with a sentence that names the endpoint and the remedy (port in use, no permission, no
// such address).
Fd open_udp_receiver(const wire::Endpoint& endpoint, const UdpReceiveOptions& options = {});

struct UdpSendOptions {
  int buffer_bytes = 8 << 20;
  std::optional<wire::Endpoint> source;  // bind to it first
  bool connect = true;  // so that send() needs no address and the kernel looks the route up once
};
// Opens a non-blocking sender. Throws std::system_error with a sentence (no route, no permission, source in
// use).
Fd open_udp_sender(const wire::Endpoint& destination, const UdpSendOptions& options = {});

wire::Endpoint local_endpoint(int fd);  // what the socket is bound to

// Ask for a buffer of `bytes` (SO_RCVBUFFORCE first, then SO_RCVBUF within rmem_max) and return what is
// granted, in bytes of payload and bookkeeping as the kernel counts them (it doubles the figure asked for).
// Never fail.
int set_receive_buffer(int fd, int bytes) noexcept;
int set_send_buffer(int fd, int bytes) noexcept;
int receive_buffer(int fd) noexcept;
int send_buffer(int fd) noexcept;
// Whether the kernel takes UDP_SEGMENT (4.18) on this socket.
bool supports_segmentation(int fd) noexcept;

// What the control messages of one received message say.
struct ReceiveInfo {
  std::int64_t realtime_ns = 0;     // arrival, CLOCK_REALTIME; 0: no stamp
  std::uint32_t overflow = 0;       // datagrams this socket has dropped since it was opened
  bool has_overflow = false;        // the kernel leaves the message out while the count is 0
  std::uint16_t segment_bytes = 0;  // UDP_GRO: size of each segment but the last; 0: one datagram
};
// Room for the three of them.
inline constexpr std::size_t receive_control_bytes =
    CMSG_SPACE(2 * sizeof(std::int64_t)) + CMSG_SPACE(sizeof(std::uint32_t)) + CMSG_SPACE(sizeof(int));
ReceiveInfo receive_info(const msghdr& message) noexcept;

// Offset between the clock of the kernel's stamps and the one all times of nanet are in. refresh() costs some
// 100 ns (three pairs of clock reads, the tightest wins); call it now and then, since NTP steps and slews
// CLOCK_REALTIME.
class ClockOffset {
 public:
  ClockOffset() noexcept { refresh(); }
  void refresh() noexcept;
  // Refreshes when the last time was more than `every` ns ago; `now` is CLOCK_MONOTONIC.
  void refresh_if_older(Nanoseconds now, Nanoseconds every = 100'000'000) noexcept {
    if (now - refreshed_ > every) refresh();
  }
  Nanoseconds to_monotonic(std::int64_t realtime_ns) const noexcept { return realtime_ns - offset_; }

 private:
  std::int64_t offset_ = 0;  // realtime - monotonic
  Nanoseconds refreshed_ = 0;
};

Nanoseconds monotonic_now() noexcept;

// Share (0 - 1) of a socket's receive buffer that waits to be read; 0 where the kernel does not say.
double receive_backlog(int fd) noexcept;

}  // namespace nanet::card
