// SPDX-License-Identifier: Apache-2.0
// Packet example outside nanet's source tree: writes one readout packet with one event and reads it back.
#include <array>
#include <cstdio>
#include <span>
#include <string>

#include "nanet/version.hpp"
#include "nanet/wire/mgp.hpp"

int main() {
  namespace mgp = nanet::wire::mgp;
  std::array<std::byte, mgp::default_max_payload> datagram{};
  const std::array hits{mgp::hit_word(17, 2), mgp::hit_word(42, -3)};  // PM, time to the event in quarters

  mgp::PacketWriter writer(datagram.data(), datagram.size(), {.board = 0, .flags = mgp::flag::last});
  if (!writer.add(/*timestamp=*/100, /*fine=*/7, hits, /*seen=*/hits.size())) return 1;
  const std::size_t length = writer.finish();

  const mgp::Checked checked = mgp::validate(std::span(datagram).first(length), mgp::Rules{});
  std::printf("nanet %s: %zu bytes, %u event, %u hits, %s\n", std::string(nanet::version()).c_str(), length,
              checked.fragments, checked.hits, std::string(mgp::name(checked.refusal)).c_str());
  return checked.refusal == mgp::Refusal::none && checked.hits == hits.size() ? 0 : 1;
}
