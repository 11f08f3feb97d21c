// SPDX-License-Identifier: Apache-2.0
// The application library: open a card, register CLOPs, wait for or poll events, read payloads, post answers,
// return buffers, close. The same for every card (docs/application.md, examples/echo.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/stream.hpp"

namespace nanet::card {

class Card;

// An application's end of a registered CLOP. Used by one thread at a time. Spans and pointers it gives are
// valid until the buffer is returned.
class Clop {
 public:
  // Takes the next event if there is one. Taking an event finishes the one before it. Throws
  // std::runtime_error when the card has lapped this reader (event_overrun): the CLOP must then be
  // deregistered.
  bool poll(contract::Event& event);
  // Polls until an event comes or `timeout` ns have passed; without a card thread it drives the card itself.
  bool wait(contract::Event& event, Nanoseconds timeout);

  // The payloads of a receive event: gather `packets`, slot i; gather `frame`, segment of board i. Each span
  // ends where the card stopped writing; the packets' own headers give their lengths.
  std::span<const std::byte> payload(const contract::Event& event, unsigned i) const;
  unsigned payloads(const contract::Event& event) const;
  // Gather `frame`: the header of the buffer.
  const contract::FrameHeader& frame_header(const contract::Event& event) const;

  // The send buffer that belongs to the event's buffer, contract::send_buffer_bytes long.
  std::span<std::byte> send_buffer(const contract::Event& event) const;
  // Posts the first `bytes` of the send buffer to an endpoint of the CLOP's table. Post before the buffer is
  // returned.
  void post(const contract::Event& event, std::uint32_t bytes, std::uint32_t destination = 0);
  // Hands the buffer back to the card. Every receive event's buffer must come back, in any order.
  void give_back(const contract::Event& event);

  const contract::View& view() const { return view_; }
  const Counters& counters() const { return stream_->counters(); }
  wire::Endpoint local(
      std::size_t socket = 0) const;  // what the card listens on (port 0 asked: the one given)

 private:
  friend class Card;
  Clop(Card& card, Stream& stream, std::vector<wire::Endpoint> local)
      : card_(&card), stream_(&stream), view_(stream.view()), local_(std::move(local)) {}
  std::uint64_t number(const contract::Event& event) const {
    return contract::unwrap_counter(event.n, reference_);
  }

  Card* card_;
  Stream* stream_;
  contract::View view_;
  std::vector<wire::Endpoint> local_;
  std::uint64_t next_ = 0, reference_ = 0;
};

// A card: moves packets between the network and contract memory, and nothing else.
class Card {
 public:
  virtual ~Card() = default;
  virtual std::string_view name() const noexcept = 0;

  // Allocates and registers a CLOP with its queue and rings, and opens its sockets. Not while the card's
  // thread runs. Throws std::invalid_argument (options) or std::system_error (port in use, no memory), each
  // with a sentence that names the remedy.
  Clop& register_clop(const ClopOptions& options);
  // Frees the CLOP; every event and span of it is void. Not while the card's thread runs.
  void deregister_clop(Clop& clop);
  Stream& stream(const Clop& clop) const { return *clop.stream_; }

  // One round in the caller's thread. receive(): reads what is there, closes what has timed out; true if
  // anything came in. send(): passes what is posted or late; true if anything went out.
  virtual bool receive() noexcept = 0;
  virtual bool send() noexcept = 0;
  // Blocks until a packet comes in, a timer of the card runs out, or `limit` ns have passed.
  virtual void wait(Nanoseconds limit) noexcept = 0;
  // Reads until the sockets are empty, closes every frame and burst. send() goes on passing what is owed.
  virtual void drain() noexcept = 0;
  virtual bool passed_all() const noexcept = 0;
  // Share (0 - 1) of the room for packets that have arrived and are not read yet, of the fullest; 0 where a
  // card cannot tell.
  virtual double backlog() const noexcept { return 0; }

  // Figures of the card's own instruments, by name; empty where it has none. In any thread.
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }

  // The card's own thread, for applications that do not drive it themselves. cpu: core to pin it to, or -1.
  // busy: never block. Throws std::logic_error (it runs already) or std::system_error (no such core).
  void start(int cpu = -1, bool busy = false);
  // Drains, lets the consumer answer what is owed until its deadlines, and joins the thread.
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

// kind: "socket", or one that was added. Throws std::invalid_argument naming the cards there are.
std::unique_ptr<Card> open_card(std::string_view kind);
// Adds a kind of card, before any is opened; one that is there already is replaced.
void add_card(std::string kind, std::function<std::unique_ptr<Card>()> make);

// Pins the calling thread to one core. Throws std::system_error naming the core.
void pin_this_thread(int cpu);
void pin_thread(std::jthread::native_handle_type thread, int cpu);

}  // namespace nanet::card
