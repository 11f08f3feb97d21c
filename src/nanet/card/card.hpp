// SPDX-License-Identifier: Apache-2.0
// Application library: opens a card, registers CLOPs, waits for events, reads payloads, posts answers,
// returns buffers. The same for every card (docs/application.md, examples/answer.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/stream.hpp"
#include "nanet/contract/consumer.hpp"

namespace nanet::card {

class Card;

// Application end of a registered CLOP. Used by one thread at a time. Its spans and pointers are valid until
// the buffer is returned.
class Clop {
 public:
  // Takes the next event; returns false if there is none. Taking an event finishes the previous one. Throws
  // std::runtime_error if the card has lapped this reader (event_overrun); the CLOP must then be
  // deregistered.
  bool poll(contract::Event& event);
  // Polls until an event arrives or `timeout` ns have passed. Without a card thread it also drives the card.
  bool wait(contract::Event& event, Nanoseconds timeout);

  // Payloads of a receive event: slot i (gather `packets`), the segment of board i (gather `frame`), or rows
  // and hits (merged buffer). Each span ends at the card's last write; the packet headers give the packet
  // lengths.
  std::span<const std::byte> payload(const contract::Event& event, unsigned i) const;
  unsigned payloads(const contract::Event& event) const;
  // Gather `frame`: the buffer has rows and hits (contract::MergedRow) instead of segments.
  bool merged(const contract::Event& event) const;
  // Gather `frame`: header of the buffer.
  const contract::FrameHeader& frame_header(const contract::Event& event) const;

  // Send buffer of the event's buffer, contract::send_buffer_bytes long.
  std::span<std::byte> send_buffer(const contract::Event& event) const;
  // Posts the first `bytes` of the send buffer to an endpoint of the CLOP's table. Post before returning the
  // buffer.
  void post(const contract::Event& event, std::uint32_t bytes, std::uint32_t destination = 0);
  // Returns the buffer to the card. Every receive event's buffer must be returned, in any order.
  void give_back(const contract::Event& event);

  const contract::View& view() const { return view_; }
  const Counters& counters() const { return stream_->counters(); }
  wire::Endpoint local(std::size_t socket = 0) const;  // address the card listens on; port 0 is resolved

 private:
  friend class Card;
  Clop(Card& card, Stream& stream, std::vector<wire::Endpoint> local)
      : card_(&card), stream_(&stream), view_(stream.view()), queue_(view_), local_(std::move(local)) {}
  std::uint64_t number(const contract::Event& event) const { return queue_.number(event); }

  Card* card_;
  Stream* stream_;
  contract::View view_;
  contract::OrderedReader queue_;
  std::vector<wire::Endpoint> local_;
};

// A card moves packets between the network and contract memory.
class Card {
 public:
  virtual ~Card() = default;
  virtual std::string_view name() const noexcept = 0;

  // Allocates and registers a CLOP with its queue and rings, and opens its sockets. Not allowed while the
  // card's thread runs. Throws std::invalid_argument (options) or std::system_error (port in use, no memory),
  // each with the remedy.
  Clop& register_clop(const ClopOptions& options);
  // Frees the CLOP; its events and spans become invalid. Not allowed while the card's thread runs.
  void deregister_clop(Clop& clop);
  Stream& stream(const Clop& clop) const { return *clop.stream_; }

  // One round in the caller's thread. receive(): reads available packets and closes frames that have timed
  // out; returns true if a packet arrived. send(): passes posted or late frames; returns true if a packet was
  // sent.
  virtual bool receive() noexcept = 0;
  virtual bool send() noexcept = 0;
  // Blocks until a packet arrives, a timer of the card expires, or `limit` ns have passed.
  virtual void wait(Nanoseconds limit) noexcept = 0;
  // Reads until the sockets are empty and closes every frame and burst. send() continues to pass pending
  // answers.
  virtual void drain() noexcept = 0;
  virtual bool passed_all() const noexcept = 0;
  // True: its clock stops between the calls of receive() and send(), and deadlines with it.
  virtual bool simulated() const noexcept { return false; }
  // Fill level (0 - 1) of the fullest input buffer; 0 if the card cannot measure it.
  virtual double backlog() const noexcept { return 0; }

  // Frames that were no valid UDP packets to a listening address, by reason; zero where the kernel receives.
  // Thread-safe.
  virtual std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept { return {}; }
  // Figures of the card's instruments, by name; empty if it has none. Thread-safe.
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }

  // Starts a thread that drives the card for the application. cpu: core to pin it to, or -1. busy: never
  // block. Throws std::logic_error (already running) or std::system_error (no such core).
  void start(int cpu = -1, bool busy = false);
  // Drains, waits until the consumer has answered or the deadlines have passed, and joins the thread.
  void stop();
  bool running() const noexcept { return thread_.joinable(); }

 protected:
  virtual Stream& open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) = 0;
  virtual void close_stream(Stream& stream) noexcept = 0;

 private:
  std::vector<std::unique_ptr<Clop>> clops_;
  std::jthread thread_;
  std::atomic<bool> stopping_{false};
};

// name: a registered card (registry.hpp), e.g. "socket". Throws std::invalid_argument naming the cards of
// this build.
std::unique_ptr<Card> open_card(std::string_view name);

}  // namespace nanet::card
