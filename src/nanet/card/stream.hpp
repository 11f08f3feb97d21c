// SPDX-License-Identifier: Apache-2.0
// One registered CLOP with all that belongs to it: contract memory of each consumer device, receiver, sender,
// counters. Every card is a loop around streams: packets in from somewhere, datagrams out to somewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nanet/card/packet_receiver.hpp"
#include "nanet/card/receiver.hpp"
#include "nanet/card/sender.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card {

// What an application asks for when it registers a CLOP.
struct ClopOptions {
  std::vector<wire::Endpoint> listen;        // one socket each: one per board or link, or one for all
  std::vector<wire::Endpoint> destinations;  // table of UDP endpoints that descriptors index
  contract::Gather gather = contract::Gather::frame;
  std::uint32_t packets = 1;           // payloads per buffer (gather packets)
  std::uint32_t buffers = 0;           // N, a power of two; 0: by the rule of default_buffers()
  std::uint32_t segment_bytes = 8192;  // per board and frame
  std::uint32_t devices = 1;           // consumer devices, numbered n mod devices
  wire::mgp::Rules rules;
  Nanoseconds timeout = 20'000'000;
  Nanoseconds deadline = 50'000'000;
  Nanoseconds burst_silence = 1'000'000'000;
  int socket_buffer_bytes = 64 << 20;
  // Of the socket card: 1: all in the card's thread; 2: another one sends; 3 and more: the others read, at
  // most one for each socket. Those never sleep. thread_cpus: cores of the sending one and of the reading
  // ones; what is missing is not pinned.
  unsigned threads = 1;
  std::vector<int> thread_cpus;
  // Where the CLOPs lie: nullptr: the host's memory. Another place is for cards that write to it by
  // themselves; the socket card, whose DMA engine is a CPU, refuses one that a CPU cannot reach.
  contract::Place* place = nullptr;
  Nanoseconds (*clock)() noexcept = nullptr;  // of the events' times; set by the card
};

// The power of two that holds twice the frames of one deadline, at least 2048.
std::uint32_t default_buffers(Nanoseconds deadline, std::uint32_t devices = 1);
// Throws std::invalid_argument, naming the N needed, when deadline x frame rate > N / 2.
void check_buffers(std::uint32_t buffers, Nanoseconds deadline, std::uint32_t devices = 1);

class Stream {
 public:
  // transmit outlives the stream. replay: no clock (docs/formats.md, gather mode frame). Throws
  // std::invalid_argument.
  Stream(const ClopOptions& options, std::uint8_t number, Transmit& transmit, bool replay = false);

  // Of a card that receives and sends by itself: what is made here follows what it does, sees to table and
  // counters, and the sender has nothing to send. There is no receiver. Throws std::invalid_argument.
  using FollowerMaker = std::function<std::unique_ptr<Reception>(Consumers&, FrameTable&, Counters&)>;
  Stream(const ClopOptions& options, Transmit& transmit, const FollowerMaker& follower);

  Reception& reception() noexcept { return *reception_; }
  const Reception& reception() const noexcept { return *reception_; }
  bool has_receiver() const noexcept { return receiver_; }
  Receiver& receiver() noexcept { return *receiver_; }
  Sender& sender() noexcept { return sender_; }
  FrameTable& table() noexcept { return table_; }
  const FrameTable& table() const noexcept { return table_; }
  Counters& counters() noexcept { return counters_; }
  const Counters& counters() const noexcept { return counters_; }
  const contract::View& view(std::size_t device = 0) const { return memory_[device]->view(); }
  std::vector<contract::View> views() const;
  std::vector<std::unique_ptr<contract::Memory>>& memory() noexcept { return memory_; }
  const ClopOptions& options() const noexcept { return options_; }
  // nullptr in gather mode packets, and without a receiver.
  const FrameReceiver* frames() const noexcept { return dynamic_cast<const FrameReceiver*>(receiver_); }
  void observe(Observer* observer) noexcept;
  // Every owed number has been passed.
  bool passed_all() const noexcept { return table_.next == table_.end; }

 private:
  ClopOptions options_;
  std::vector<std::unique_ptr<contract::Memory>> memory_;
  Consumers consumers_;
  FrameTable table_;
  Counters counters_;
  Counters unused_;  // of a sender that has nothing to send
  std::unique_ptr<Reception> reception_;
  Receiver* receiver_ = nullptr;  // the same, where it is one
  Sender sender_;
};

}  // namespace nanet::card
