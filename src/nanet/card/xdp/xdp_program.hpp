// SPDX-License-Identifier: Apache-2.0
// XDP program that redirects UDP datagrams of given endpoints to AF_XDP sockets; all other frames pass on to
// the kernel. Assembled here, so that no compiler and no library is needed at run time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card::xdp {

inline constexpr std::size_t most_queues = 64;     // entries of the map
inline constexpr std::size_t most_endpoints = 16;  // of one interface

// Map from receive queue to AF_XDP socket. Throws std::system_error with the remedy.
os::Fd make_socket_map();
// Adds a socket for a queue of the interface.
void map_socket(int map, unsigned queue, int socket);

// Loads the program. It writes the time of arrival (CLOCK_MONOTONIC, 8 bytes) in front of the frame where the
// driver has room for metadata. Endpoints with address 0 match any address. Throws std::system_error with the
// remedy, std::invalid_argument for more than most_endpoints.
os::Fd load_program(int map, std::span<const wire::Endpoint> endpoints);

struct Attached {
  os::Fd link;  // detaches the program when closed
  bool native;  // in the driver; else in the generic path of the kernel
};
// Attaches a program to an interface: native, or generic where the driver has no XDP. Throws
// std::system_error with the remedy (another program is attached, no permission).
Attached attach(int program, unsigned interface, const std::string& name);

}  // namespace nanet::card::xdp
