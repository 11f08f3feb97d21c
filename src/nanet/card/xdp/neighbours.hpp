// SPDX-License-Identifier: Apache-2.0
// Next hops of destinations from the kernel's routing and neighbour tables (rtnetlink), kept up to date by a
// thread away from the path of the packets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card::xdp {

using Mac = std::array<std::uint8_t, 6>;

struct Interface {
  unsigned index = 0;
  std::string name;
  Mac mac{};
  unsigned mtu = 0;  // 0: unknown
};
// Interface with a local address. Throws std::invalid_argument naming the address and the interfaces' own.
Interface interface_of(std::uint32_t address);
// How often the link of an interface has gone down.
std::uint64_t times_down(const std::string& name);
// Number of receive queues of an interface, at least 1.
unsigned receive_queues(const std::string& name);

struct Route {
  unsigned interface = 0;      // index
  std::uint32_t next_hop = 0;  // gateway, or the destination
  std::uint32_t source = 0;    // preferred source address; 0: none given
};
// Route of the kernel to an address; nullopt: none.
std::optional<Route> route_to(std::uint32_t address);
// MAC address of a next hop, if the kernel has resolved it.
std::optional<Mac> neighbour(const Route& route);

// MAC addresses of the next hops of a list of destinations. found() may be called from any thread.
class Neighbours {
 public:
  // interface: of the frames; a destination behind another one is never found.
  Neighbours(std::vector<std::uint32_t> destinations, unsigned interface);
  ~Neighbours();

  std::optional<Mac> found(std::size_t destination) const noexcept;

 private:
  static constexpr std::uint64_t valid = std::uint64_t{1} << 63;
  void refresh();
  void run(const std::stop_token& stop);

  std::vector<std::uint32_t> destinations_;
  unsigned interface_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> mac_;  // with `valid`; 0: not resolved
  os::Fd wake_;                                        // ends the thread's wait
  std::jthread thread_;
};

}  // namespace nanet::card::xdp
