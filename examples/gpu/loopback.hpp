// SPDX-License-Identifier: Apache-2.0
// Loopback test bench for a CLOP on 127.0.0.1: sends packets and compares the answers.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/os/socket.hpp"

class Loopback {
 public:
  // A CLOP with one payload per buffer; answers return to this object.
  nanet::card::ClopOptions options() const {
    nanet::card::ClopOptions o;
    o.listen = {{.address = 0x7F000001, .port = 0}};
    o.destinations = {nanet::os::local_endpoint(answers_.get())};
    o.gather = nanet::contract::Gather::packets;
    o.packets = 1;
    return o;
  }
  // A CLOP with a buffer per frame of one board.
  nanet::card::ClopOptions frame_options() const {
    nanet::card::ClopOptions o = options();
    o.gather = nanet::contract::Gather::frame;
    o.rules.boards = 1;
    return o;
  }
  // Sends packets of 0 to 7 events, one after the other. Returns the number of answers equal to `expected` of
  // the packet.
  template <class Answer>
  unsigned exchange(const nanet::card::Clop& clop, unsigned packets,
                    Answer (*expected)(std::span<const std::byte>)) {
    namespace mgp = nanet::wire::mgp;
    const nanet::os::Fd sender = nanet::os::open_udp_sender(clop.local());
    unsigned right = 0;
    for (nanet::Sequence sequence = 1; sequence <= packets; ++sequence) {
      std::array<std::byte, mgp::default_max_payload> packet;
      mgp::PacketWriter writer(packet.data(), packet.size(),
                               {.flags = mgp::flag::last, .sequence = sequence, .frame = sequence});
      for (unsigned e = 0; e < sequence % 8; ++e)
        writer.add(sequence << 8, 0, std::array<std::uint16_t, 3>{17, 42, 99}, 3);
      const std::size_t bytes = writer.finish();
      send(sender.get(), packet.data(), bytes, 0);
      Answer answer;
      pollfd wait{answers_.get(), POLLIN, 0};  // the socket does not block
      if (poll(&wait, 1, 5000) != 1 || recv(answers_.get(), &answer, sizeof answer, 0) != sizeof answer)
        break;
      const Answer wanted = expected({packet.data(), bytes});
      right += std::memcmp(&answer, &wanted, sizeof answer) == 0;
    }
    return right;
  }

 private:
  nanet::os::Fd answers_ = nanet::os::open_udp_receiver({.address = 0x7F000001, .port = 0});
};
