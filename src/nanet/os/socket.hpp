// SPDX-License-Identifier: Apache-2.0
// UDP sockets: endpoint parsing, opening with errors that name the remedy, buffer sizes, and decoding of
// control messages (kernel time stamps, overflow counts, segment sizes).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::os {

// "HOST:PORT" -> endpoint; HOST is an IPv4 address or a name that resolves to one, empty or "*" any address
// (0.0.0.0). Throws std::invalid_argument that names the value and the remedy.
wire::Endpoint parse_endpoint(std::string_view text);
// "HOST:PORT,HOST:PORT": at least one. Throws like parse_endpoint.
std::vector<wire::Endpoint> parse_endpoints(std::string_view text);
// The same; the error names the key.
wire::Endpoint parse_endpoint(std::string_view key, std::string_view text);
std::vector<wire::Endpoint> parse_endpoints(std::string_view key, std::string_view text);
std::string to_string(const wire::Endpoint& endpoint);  // "127.0.0.1:58913"
sockaddr_in to_sockaddr(const wire::Endpoint& endpoint) noexcept;
wire::Endpoint from_sockaddr(const sockaddr_in& address) noexcept;

struct UdpReceiveOptions {
  int buffer_bytes = 32 << 20;  // requested; the kernel may grant less, see receive_buffer()
  bool timestamps = true;       // SO_TIMESTAMPNS: CLOCK_REALTIME of arrival
  bool overflow_count = true;   // SO_RXQ_OVFL
  bool gro = false;             // UDP_GRO: trains come as one message with a segment size
  bool reuse_port = false;      // SO_REUSEPORT: several sockets share the port
  bool reuse_address = false;
  int busy_poll_us = 0;  // set_busy_poll()
};
// Opens, configures and binds a non-blocking receiver; port 0 takes a free one (see local_endpoint). Throws
// std::system_error naming the endpoint and the remedy (port in use, no permission, no such address).
Fd open_udp_receiver(const wire::Endpoint& endpoint, const UdpReceiveOptions& options = {});

struct UdpSendOptions {
  int buffer_bytes = 8 << 20;
  std::optional<wire::Endpoint> source;  // bind to it first
  bool connect = true;                   // send() needs no address, and the kernel resolves the route once
};
// Opens a non-blocking sender. Throws std::system_error naming the destination (no route, no permission,
// source in use).
Fd open_udp_sender(const wire::Endpoint& destination, const UdpSendOptions& options = {});

wire::Endpoint local_endpoint(int fd);  // address the socket is bound to

// The kernel polls the NIC's queue for up to `microseconds` in calls that find the socket empty, instead of
// waiting for its interrupt (SO_BUSY_POLL, SO_PREFER_BUSY_POLL). 0: off. For drivers with NAPI; never fails.
void set_busy_poll(int fd, int microseconds) noexcept;

// Request a buffer of `bytes` (SO_RCVBUFFORCE first, then SO_RCVBUF within rmem_max). Return the granted
// size in bytes of payload and bookkeeping; the kernel doubles the requested figure. Never fail.
int set_receive_buffer(int fd, int bytes) noexcept;
int set_send_buffer(int fd, int bytes) noexcept;
int receive_buffer(int fd) noexcept;
int send_buffer(int fd) noexcept;
// True if the kernel accepts UDP_SEGMENT (Linux 4.18) on this socket.
bool supports_segmentation(int fd) noexcept;

// Decoded control messages of one received message.
struct ReceiveInfo {
  std::int64_t realtime_ns = 0;     // arrival, CLOCK_REALTIME; 0: no time stamp
  std::uint32_t overflow = 0;       // datagrams dropped since the socket was opened
  bool has_overflow = false;        // the kernel omits the message while the count is 0
  std::uint16_t segment_bytes = 0;  // UDP_GRO: size of every segment except the last; 0: one datagram
};
// Buffer size for these three messages.
inline constexpr std::size_t receive_control_bytes =
    CMSG_SPACE(2 * sizeof(std::int64_t)) + CMSG_SPACE(sizeof(std::uint32_t)) + CMSG_SPACE(sizeof(int));
ReceiveInfo receive_info(const msghdr& message) noexcept;

// Fill level (0 - 1) of a socket's receive buffer; 0 if the kernel does not report it.
double receive_backlog(int fd) noexcept;

// Discards the datagrams that arrived before `realtime_ns` (CLOCK_REALTIME), and at most 63 messages after
// them, without copying them. Returns their number. The socket has time stamps.
std::uint64_t discard_received(int fd, std::int64_t realtime_ns) noexcept;

}  // namespace nanet::os
