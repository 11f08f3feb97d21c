// SPDX-License-Identifier: Apache-2.0
// Fuzz target for captured frames: the payload lies inside the frame, and a frame rebuilt around it parses to
// the same payload.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "nanet/wire/ethernet.hpp"

// First byte: number of bytes missing from the captured frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet::wire;
  if (size == 0) return 0;
  constexpr std::uint16_t port = 58913;
  const std::vector<std::byte> frame(reinterpret_cast<const std::byte*>(data + 1),
                                     reinterpret_cast<const std::byte*>(data + size));
  const UdpFrame parsed = parse_udp_frame(frame, frame.size() + data[0], port);
  if (name(parsed.reason).empty()) std::abort();
  if (parsed.reason != NotMgp::none) return 0;
  if (data[0] != 0 || parsed.destination.port != port) std::abort();
  if (parsed.payload.data() < frame.data() ||
      parsed.payload.data() + parsed.payload.size() > frame.data() + frame.size()) {
    std::abort();
  }
  std::vector<std::byte> again(udp_frame_overhead + parsed.payload.size());
  build_udp_frame(again.data(), parsed.source, parsed.destination, parsed.payload);
  const UdpFrame second = parse_udp_frame(again, again.size(), port);
  if (second.reason != NotMgp::none || second.source != parsed.source ||
      second.destination != parsed.destination || second.payload.size() != parsed.payload.size()) {
    std::abort();
  }
  if (!parsed.payload.empty() &&
      std::memcmp(second.payload.data(), parsed.payload.data(), parsed.payload.size()) != 0) {
    std::abort();
  }
  return 0;
}
