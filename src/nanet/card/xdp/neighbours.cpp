// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/xdp/neighbours.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "nanet/os/socket.hpp"

namespace nanet::card::xdp {
namespace {

std::string text(std::uint32_t address) {
  std::string endpoint = os::to_string({address, 0});
  return endpoint.substr(0, endpoint.rfind(':'));
}

// One request to rtnetlink with attributes, and the attributes of the first answer.
class Request {
 public:
  template <class Header>
  Request(std::uint16_t type, const Header& header) {
    auto* message = reinterpret_cast<nlmsghdr*>(bytes_.data());
    message->nlmsg_len = NLMSG_LENGTH(sizeof header);
    message->nlmsg_type = type;
    message->nlmsg_flags = NLM_F_REQUEST;
    std::memcpy(NLMSG_DATA(message), &header, sizeof header);
  }
  template <class T>
  void attribute(std::uint16_t type, const T& value) {
    auto* message = reinterpret_cast<nlmsghdr*>(bytes_.data());
    auto* added = reinterpret_cast<rtattr*>(bytes_.data() + NLMSG_ALIGN(message->nlmsg_len));
    added->rta_type = type;
    added->rta_len = RTA_LENGTH(sizeof value);
    std::memcpy(RTA_DATA(added), &value, sizeof value);
    message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + RTA_ALIGN(added->rta_len);
  }
  // Sends the request and calls f(header, attribute) for each attribute of the answer. False: no such entry.
  template <class Header, class F>
  bool answer(const F& f) {
    const os::Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    const auto* message = reinterpret_cast<const nlmsghdr*>(bytes_.data());
    if (!fd || send(fd.get(), message, message->nlmsg_len, 0) < 0) return false;
    alignas(nlmsghdr) std::array<std::byte, 8192> reply;
    const ssize_t got = recv(fd.get(), reply.data(), reply.size(), 0);
    const auto* first = reinterpret_cast<const nlmsghdr*>(reply.data());
    if (got < 0 || !NLMSG_OK(first, static_cast<std::size_t>(got)) || first->nlmsg_type == NLMSG_ERROR)
      return false;
    const auto* header = static_cast<const Header*>(NLMSG_DATA(first));
    auto left = first->nlmsg_len - NLMSG_LENGTH(sizeof *header);
    const auto* a = reinterpret_cast<const rtattr*>(reinterpret_cast<const std::byte*>(header) +
                                                    NLMSG_ALIGN(sizeof *header));
    for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) f(*header, *a);
    return true;
  }

 private:
  alignas(nlmsghdr) std::array<std::byte, 256> bytes_{};
};

template <class T>
T value_of(const rtattr& attribute) {
  T value{};
  std::memcpy(&value, RTA_DATA(&attribute), std::min(sizeof value, RTA_PAYLOAD(&attribute)));
  return value;
}

}  // namespace

Interface interface_of(std::uint32_t address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all)) throw std::system_error(errno, std::generic_category(), "cannot list interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  Interface found;
  std::string others;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    const auto local = ntohl(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr);
    others += (others.empty() ? "" : ", ") + text(local) + " (" + one->ifa_name + ")";
    if (local == address) found.name = one->ifa_name;
  }
  if (found.name.empty())
    throw std::invalid_argument("card.listen: " + text(address) +
                                " is no address of an interface; the xdp card needs one of " + others);
  found.index = if_nametoindex(found.name.c_str());
  const os::Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  found.name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (fd && ioctl(fd.get(), SIOCGIFHWADDR, &request) == 0)
    std::memcpy(found.mac.data(), request.ifr_hwaddr.sa_data, found.mac.size());
  if (fd && ioctl(fd.get(), SIOCGIFMTU, &request) == 0) found.mtu = static_cast<unsigned>(request.ifr_mtu);
  return found;
}

std::uint64_t times_down(const std::string& name) {
  std::uint64_t count = 0;
  std::ifstream("/sys/class/net/" + name + "/carrier_down_count") >> count;
  return count;
}

unsigned receive_queues(const std::string& name) {
  std::error_code ignored;
  unsigned count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net/" + name + "/queues", ignored))
    count += entry.path().filename().string().starts_with("rx-");
  return std::max(count, 1U);
}

std::optional<Route> route_to(std::uint32_t address) {
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_dst_len = 32;
  Request request(RTM_GETROUTE, header);
  request.attribute(RTA_DST, htonl(address));
  Route route;
  route.next_hop = address;
  const bool found = request.answer<rtmsg>([&](const rtmsg&, const rtattr& a) {
    if (a.rta_type == RTA_OIF) route.interface = value_of<std::uint32_t>(a);
    if (a.rta_type == RTA_GATEWAY) route.next_hop = ntohl(value_of<std::uint32_t>(a));
    if (a.rta_type == RTA_PREFSRC) route.source = ntohl(value_of<std::uint32_t>(a));
  });
  if (!found || route.interface == 0) return std::nullopt;
  return route;
}

std::optional<Mac> neighbour(const Route& route) {
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_ifindex = static_cast<int>(route.interface);
  Request request(RTM_GETNEIGH, header);
  request.attribute(NDA_DST, htonl(route.next_hop));
  std::optional<Mac> mac;
  request.answer<ndmsg>([&](const ndmsg& entry, const rtattr& a) {
    constexpr unsigned resolved = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;
    if (a.rta_type == NDA_LLADDR && (entry.ndm_state & resolved) && RTA_PAYLOAD(&a) == sizeof(Mac))
      mac = value_of<Mac>(a);
  });
  return mac;
}

Neighbours::Neighbours(std::vector<std::uint32_t> destinations, unsigned interface)
    : destinations_(std::move(destinations)),
      interface_(interface),
      mac_(std::make_unique<std::atomic<std::uint64_t>[]>(destinations_.size())),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  refresh();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Neighbours::~Neighbours() {
  thread_.request_stop();
  (void)eventfd_write(wake_.get(), 1);
}

std::optional<Mac> Neighbours::found(std::size_t destination) const noexcept {
  const std::uint64_t word = mac_[destination].load(std::memory_order_relaxed);
  if (!(word & valid)) return std::nullopt;
  Mac mac;
  std::memcpy(mac.data(), &word, mac.size());
  return mac;
}

void Neighbours::refresh() {
  for (std::size_t i = 0; i < destinations_.size(); ++i) {
    std::uint64_t word = 0;
    if (const auto route = route_to(destinations_[i]); route && route->interface == interface_)
      if (const auto mac = neighbour(*route)) {
        std::memcpy(&word, mac->data(), mac->size());
        word |= valid;
      }
    mac_[i].store(word, std::memory_order_relaxed);
  }
}

void Neighbours::run(const std::stop_token& stop) {
  // Notifications of changes; a refresh per second covers those that get lost.
  const os::Fd changes(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_NEIGH | RTMGRP_IPV4_ROUTE | RTMGRP_LINK;
  // NOLINTNEXTLINE(bugprone-unused-return-value): without notifications, the refresh per second remains
  (void)bind(changes.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> fds{pollfd{changes.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    poll(fds.data(), fds.size(), 1000);
    std::array<std::byte, 8192> ignored;
    while (recv(changes.get(), ignored.data(), ignored.size(), 0) > 0) {
    }
    refresh();
  }
}

}  // namespace nanet::card::xdp
