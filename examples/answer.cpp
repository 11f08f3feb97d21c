// SPDX-License-Identifier: Apache-2.0
// Application library example: a CLOP with two payloads per buffer on loopback. Every buffer is answered over
// UDP with its number of hits. The program also acts as readout board and as receiver, and checks the answer.
#include <sys/socket.h>

#include <array>
#include <cstdio>

#include "nanet/card/card.hpp"
#include "nanet/os/socket.hpp"

int main() {
  namespace card = nanet::card;
  namespace contract = nanet::contract;
  namespace mgp = nanet::wire::mgp;
  namespace os = nanet::os;
  const os::Fd answers = os::open_udp_receiver({.address = 0x7F000001, .port = 0});

  card::ClopOptions options;
  options.listen = {{.address = 0x7F000001, .port = 0}};
  options.destinations = {os::local_endpoint(answers.get())};
  options.gather = contract::Gather::packets;
  options.packets = 2;
  const auto nic = card::open_card("socket");
  card::Clop& clop = nic->register_clop(options);
  nic->start();  // from here on the card's thread moves packets

  const os::Fd board = os::open_udp_sender(clop.local());
  for (nanet::Sequence sequence = 1; sequence <= 2; ++sequence) {  // one event of three hits in each packet
    std::array<std::byte, mgp::default_max_payload> packet;
    mgp::PacketWriter writer(packet.data(), packet.size(), {.flags = mgp::flag::last, .sequence = sequence});
    writer.add(/*timestamp=*/7, /*fine=*/0, std::array<std::uint16_t, 3>{17, 42, 99}, /*seen=*/3);
    send(board.get(), packet.data(), writer.finish(), 0);
  }

  contract::Event event;
  if (!clop.wait(event, /*timeout=*/2'000'000'000)) return std::puts("no event"), 1;
  std::uint32_t hits = 0;
  for (unsigned i = 0; i < clop.payloads(event); ++i) {
    const auto payload = clop.payload(event, i);
    mgp::FragmentReader reader(payload.data(), payload.size(), mgp::decode_header(payload.data()));
    for (mgp::Fragment fragment; reader.next(fragment);) hits += fragment.stored;
  }
  mgp::store(clop.send_buffer(event).data(), hits);
  clop.post(event, sizeof hits);  // the answer first,
  clop.give_back(event);          // then the buffer
  nic->stop();                    // drains: pending packets leave
  nic->deregister_clop(clop);

  std::uint32_t answer = 0;
  recv(answers.get(), &answer, sizeof answer, MSG_DONTWAIT);
  std::printf("%u hits in %u packets\n", answer, options.packets);
  return answer == 6 ? 0 : 1;
}
