// SPDX-License-Identifier: Apache-2.0
// Frame injector: Ethernet frames enter a veth interface as from a network card, without a socket buffer of a
// sender. BPF_PROG_RUN with live frames, Linux 5.18.
#pragma once

#include <cstdint>

#include "nanet/wire/ethernet.hpp"

namespace nanet::bench {

struct InjectOptions {
  wire::Endpoint to;  // behind a veth interface of this namespace
  double seconds = 3;
  double packets_per_s = 100e3;
  // UDP checksums. Without them the kernel verifies nothing, as behind a network card that has verified them.
  bool checksum = true;
};
// Sends frames of four boards, a packet of 16 events (1168 B) each, one by one, after their begin-of-burst
// markers. Needs CAP_BPF and CAP_NET_ADMIN. Returns the number of packets. Throws std::runtime_error (no next
// hop) or std::system_error with the remedy.
std::uint64_t inject(const InjectOptions& options);

}  // namespace nanet::bench
