// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/socket.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_BUSY_POLL
#define SO_BUSY_POLL 46
#endif

namespace nanet::os {
namespace {

[[noreturn]] void refuse_endpoint(std::string_view text, const char* why) {
  throw std::invalid_argument("'" + std::string(text) + "' is not an endpoint (" + why +
                              "): give HOST:PORT, e.g. 127.0.0.1:58913");
}

int set_buffer(int fd, int force, int plain, int bytes) noexcept {
  if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof bytes) != 0)
    (void)setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
  int granted = 0;
  socklen_t size = sizeof granted;
  (void)getsockopt(fd, SOL_SOCKET, plain, &granted, &size);
  return granted;
}

int get_int(int fd, int option) noexcept {
  int value = 0;
  socklen_t size = sizeof value;
  (void)getsockopt(fd, SOL_SOCKET, option, &value, &size);
  return value;
}

[[noreturn]] void fail(int error, const std::string& sentence) {
  throw std::system_error(error, std::generic_category(), sentence);
}

void bind_or_throw(int fd, const wire::Endpoint& endpoint) {
  const sockaddr_in address = to_sockaddr(endpoint);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  const int error = errno;
  const std::string where = "cannot bind to " + to_string(endpoint);
  switch (error) {
    case EADDRINUSE:
      fail(error, where + ": another program has the port; stop it or choose another port");
    case EACCES:
      fail(error, where + ": ports below 1024 need CAP_NET_BIND_SERVICE; choose a port above 1023");
    case EADDRNOTAVAIL:
      fail(error, where +
                      ": no interface of this machine has that address; use an address of this machine, or "
                      "0.0.0.0 for all");
    default:
      fail(error, where);
  }
}

Fd open_socket() {
  Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) fail(errno, "cannot open a UDP socket");
  return fd;
}

}  // namespace

wire::Endpoint parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse_endpoint(text, "no port");
  const std::string_view port_text = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc{} || end != port_text.data() + port_text.size() || port > 65535)
    refuse_endpoint(text, "the port is not a number from 0 to 65535");
  wire::Endpoint endpoint;
  endpoint.port = static_cast<std::uint16_t>(port);

  const std::string host(text.substr(0, colon));
  if (host.empty() || host == "*") {
    endpoint.address = INADDR_ANY;
    return endpoint;
  }
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) {
    endpoint.address = ntohl(address.s_addr);
    return endpoint;
  }
  if (host.find(':') != std::string::npos) refuse_endpoint(text, "IPv6 is not supported");
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0 || found == nullptr) {
    if (if_nametoindex(host.c_str()) != 0)
      throw std::invalid_argument("'" + std::string(text) + "' names an interface: give its address");
    refuse_endpoint(text, "the host has no IPv4 address");
  }
  sockaddr_in resolved{};
  std::memcpy(&resolved, found->ai_addr, sizeof resolved);
  freeaddrinfo(found);
  endpoint.address = ntohl(resolved.sin_addr.s_addr);
  return endpoint;
}

wire::Endpoint parse_endpoint(std::string_view key, std::string_view text) try {
  return parse_endpoint(text);
} catch (const std::invalid_argument& error) {
  throw std::invalid_argument(std::string(key) + ": " + error.what());
}

std::vector<wire::Endpoint> parse_endpoints(std::string_view key, std::string_view text) try {
  return parse_endpoints(text);
} catch (const std::invalid_argument& error) {
  throw std::invalid_argument(std::string(key) + ": " + error.what());
}

std::vector<wire::Endpoint> parse_endpoints(std::string_view text) {
  std::vector<wire::Endpoint> endpoints;
  while (true) {
    const auto comma = text.find(',');
    endpoints.push_back(parse_endpoint(text.substr(0, comma)));
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

std::string to_string(const wire::Endpoint& endpoint) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += std::to_string((endpoint.address >> shift) & 0xFF);
    text += shift ? '.' : ':';
  }
  return text + std::to_string(endpoint.port);
}

sockaddr_in to_sockaddr(const wire::Endpoint& endpoint) noexcept {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(endpoint.address);
  return address;
}

wire::Endpoint from_sockaddr(const sockaddr_in& address) noexcept {
  return {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

Fd open_udp_receiver(const wire::Endpoint& endpoint, const UdpReceiveOptions& options) {
  Fd fd = open_socket();
  const int on = 1;
  if (options.buffer_bytes > 0) set_receive_buffer(fd.get(), options.buffer_bytes);
  if (options.timestamps) (void)setsockopt(fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  if (options.overflow_count) (void)setsockopt(fd.get(), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
  if (options.gro) (void)setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  if (options.reuse_port) (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (options.reuse_address) (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  set_busy_poll(fd.get(), options.busy_poll_us);
  bind_or_throw(fd.get(), endpoint);
  return fd;
}

Fd open_udp_sender(const wire::Endpoint& destination, const UdpSendOptions& options) {
  Fd fd = open_socket();
  if (options.buffer_bytes > 0) set_send_buffer(fd.get(), options.buffer_bytes);
  if (options.source) bind_or_throw(fd.get(), *options.source);
  if (options.connect) {
    const sockaddr_in address = to_sockaddr(destination);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      if (error == ENETUNREACH || error == EHOSTUNREACH)
        fail(error,
             "cannot send to " + to_string(destination) + ": there is no route to it; check the address");
      if (error == EACCES || error == EPERM)
        fail(error,
             "cannot send to " + to_string(destination) + ": not allowed (broadcast address or firewall)");
      fail(error, "cannot send to " + to_string(destination));
    }
  }
  return fd;
}

wire::Endpoint local_endpoint(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail(errno, "cannot read the address of a socket");
  return from_sockaddr(address);
}

void set_busy_poll(int fd, int microseconds) noexcept {
  if (microseconds <= 0) return;
  constexpr int prefer = 69, budget = 70;  // SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET: Linux 5.11
  const int on = 1, packets = 64;          // of one poll
  (void)setsockopt(fd, SOL_SOCKET, prefer, &on, sizeof on);
  (void)setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &microseconds, sizeof microseconds);
  (void)setsockopt(fd, SOL_SOCKET, budget, &packets, sizeof packets);
}

int set_receive_buffer(int fd, int bytes) noexcept {
  return set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, bytes);
}
int set_send_buffer(int fd, int bytes) noexcept {
  return set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
}
int receive_buffer(int fd) noexcept {
  return get_int(fd, SO_RCVBUF);
}
int send_buffer(int fd) noexcept {
  return get_int(fd, SO_SNDBUF);
}

bool supports_segmentation(int fd) noexcept {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &value, &size) == 0;
}

ReceiveInfo receive_info(const msghdr& message) noexcept {
  ReceiveInfo info;
  // CMSG_NXTHDR takes a mutable header but does not write to it.
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
      info.realtime_ns = static_cast<std::int64_t>(stamp.tv_sec) * 1'000'000'000 + stamp.tv_nsec;
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      std::memcpy(&info.overflow, CMSG_DATA(c), sizeof info.overflow);
      info.has_overflow = true;
    } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      int bytes = 0;
      std::memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
      info.segment_bytes = static_cast<std::uint16_t>(bytes);
    }
  }
  return info;
}

double receive_backlog(int fd) noexcept {
  // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF of linux/sock_diag.h: the kernel compares them before it
  // drops a datagram.
  std::array<std::uint32_t, 9> memory{};
  socklen_t length = sizeof memory;
  if (::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &length) != 0 || memory[1] == 0) return 0;
  return std::min(1.0, static_cast<double>(memory[0]) / memory[1]);
}

std::uint64_t discard_received(int fd, std::int64_t realtime_ns) noexcept {
  constexpr unsigned at_once = 64;
  struct alignas(cmsghdr) Control {
    std::array<std::byte, receive_control_bytes> bytes;
  };
  std::array<mmsghdr, at_once> message{};
  std::array<Control, at_once> control;
  std::uint64_t datagrams = 0;
  for (;;) {
    for (unsigned i = 0; i < at_once; ++i) {
      message[i].msg_hdr = {};
      message[i].msg_hdr.msg_control = control[i].bytes.data();
      message[i].msg_hdr.msg_controllen = receive_control_bytes;
    }
    // MSG_TRUNC: lengths of the datagrams instead of the bytes copied, none.
    const int got = recvmmsg(fd, message.data(), at_once, MSG_DONTWAIT | MSG_TRUNC, nullptr);
    if (got <= 0) return datagrams;
    std::int64_t last = 0;
    for (int i = 0; i < got; ++i) {
      const ReceiveInfo info = receive_info(message[i].msg_hdr);
      const std::uint32_t segment = info.segment_bytes;
      datagrams += segment ? (message[i].msg_len + segment - 1) / segment : 1;
      last = info.realtime_ns;
    }
    if (static_cast<unsigned>(got) < at_once || last == 0 || last >= realtime_ns) return datagrams;
  }
}

}  // namespace nanet::os
