// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/card/node.hpp"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/fabric/card/job.hpp"
#include "nanet/fabric/card/pcie.hpp"

namespace nanet::fabric {
namespace card {

using contract::acquire;
using contract::release;

namespace {

constexpr unsigned batch = 64;              // events of one poll
constexpr std::uint32_t signal_every = 64;  // entries of the put ring between two `completed` events
constexpr unsigned check_every = 1024;      // polls without events
constexpr unsigned serve_every = 16;        // polls with events

}  // namespace

// ------------------------------------------------------------------------------------------------- port

CardPort::CardPort(CardNode& node, const Address* wanted)
    : node_(node),
      host_(*node.host_),
      card_(host_.attach(wanted, node.bell_.path(), node.direct_)),
      index_(card_->port),
      domain_(card_->domain),
      memory_(card_->memory),
      offsets_(host_.shape),
      slots_posted_(host_.shape.slots),
      tx_(host_.shape.ports),
      rx_(host_.shape.ports),
      native_(card_->native) {
  card_->listen(node_.listening_);
  node_.ports_.push_back(this);
}

CardPort::~CardPort() {
  std::erase(node_.ports_, this);
  for (std::uint32_t k = wire::file_entries; k < entries_used_; ++k)
    if (memory_.table[k].valid != 0) {
      release(memory_.table[k].valid, 0u);
      card_->left(k);
    }
}

void CardPort::listen(bool on) noexcept {
  card_->listen(on);
}

torus::PutDescriptor CardPort::descriptor(const Tx& tx, torus::PacketType type) const noexcept {
  const Address to = host_.address(tx.port);
  torus::PutDescriptor d;
  d.type = static_cast<std::uint8_t>(type);
  d.remote_domain = tx.domain;
  d.node = torus::Node{to.x, to.y, to.z}.packed();
  d.port = static_cast<std::uint8_t>(to.port);
  return d;
}

void CardPort::post(torus::PutDescriptor d, const std::byte* inline_payload) noexcept {
  const std::uint32_t entries = torus::put_entries(d);
  d.message = static_cast<std::uint32_t>(posted_);
  d.local_domain = domain_;
  d.lap = 0;
  if (posted_ + entries - signalled_ >= signal_every) {
    d.flags |= torus::put_flag::completed;
    signalled_ = posted_ + entries;
  }
  for (std::uint32_t k = 1; k < entries; ++k) {
    auto* const to = &memory_.ring[(posted_ + k) % wire::put_entries_count];
    const std::size_t at = sizeof *to * (k - 1);
    std::memcpy(static_cast<void*>(to), inline_payload + at, std::min<std::size_t>(sizeof *to, d.bytes - at));
  }
  torus::PutDescriptor& entry = memory_.ring[posted_ % wire::put_entries_count];
  std::memcpy(static_cast<void*>(&entry), &d, offsetof(torus::PutDescriptor, lap));
  release(entry.lap, static_cast<std::uint32_t>(posted_ / wire::put_entries_count) + 1);
  posted_ += entries;
  card_->post(static_cast<std::uint32_t>(posted_));
}

unsigned CardPort::poll(Receiver& receiver) {
  unsigned taken = 0;
  contract::Event e;
  while (taken < batch && contract::poll_event(memory_.view, next_event_, e) == contract::Poll::event) {
    ++next_event_;
    ++taken;
    switch (static_cast<torus::EventType>(e.type)) {
      case torus::EventType::send_arrived:
        send_arrived(e, receiver);
        break;
      case torus::EventType::completed:
        consumed_ = std::max(consumed_, contract::unwrap_counter(e.n, posted_) + 1);
        ended(e.n, true, &receiver);
        break;
      case torus::EventType::failed:
        failed(e, receiver);
        break;
      default:
        break;
    }
  }
  if (taken > 0) release(*memory_.view.finished, next_event_);
  if (!due_.empty()) return_slots();
  if (taken == 0 || ++busy_ % serve_every == 0) card_->serve();
  if (taken == 0 && ++idle_ % check_every == 0 && !lost_ && !host_.alive()) {
    lost_ = true;
    receiver.lost(ENETDOWN);
  }
  return taken;
}

void CardPort::send_arrived(const contract::Event& e, Receiver& receiver) {
  const std::byte* const at = memory_.slots + std::size_t{wire::slot_bytes} * (e.buffer % host_.shape.slots);
  wire::Envelope envelope;
  std::memcpy(&envelope, at, sizeof envelope);
  const std::uint32_t source = wire::port_of_domain(envelope.source);
  if (source < rx_.size() && e.bytes >= sizeof envelope) {
    std::unique_ptr<Rx>& known = rx_[source];
    if (!known) known = std::make_unique<Rx>();
    Rx& rx = *known;
    if (rx.domain != envelope.source) {  // another owner of the port
      const bool due = rx.due;
      rx = {};
      rx.due = due;
      rx.domain = envelope.source;
      rx.from = host_.address(source);
    }
    rx.broken |= envelope.sequence != rx.moved;
    ++rx.moved;
    if (!rx.due && rx.moved - rx.returned >= host_.shape.credits / 4) {
      rx.due = true;
      due_.push_back(&rx);
    }
    const std::size_t bytes = e.bytes - sizeof envelope;
    const std::byte* data = at + sizeof envelope;
    rx.broken |= envelope.bytes < sizeof(Packet) || envelope.bytes > sizeof(Packet) + eager_bytes ||
                 envelope.offset != rx.got || bytes > envelope.bytes - rx.got;
    if (!rx.broken) {
      if (bytes < envelope.bytes) {
        rx.partial.resize(sizeof(Packet) + eager_bytes);
        std::memcpy(rx.partial.data() + rx.got, data, bytes);
        data = rx.partial.data();
      }
      rx.got += bytes;
      if (rx.got == envelope.bytes) {
        rx.got = 0;
        Packet packet;
        std::memcpy(&packet, data, sizeof packet);
        packet.bytes = std::min(packet.bytes, static_cast<std::uint32_t>(envelope.bytes - sizeof packet));
        receiver.receive(source, rx.from, packet, data + sizeof packet);
      }
    }
  }
  card_->grant(++slots_posted_);
}

// Refused descriptor, or NACK of a packet.
void CardPort::failed(const contract::Event& e, Receiver& receiver) {
  const auto type = static_cast<torus::PacketType>(e.buffer);
  const auto reason = static_cast<torus::Nack>(e.flags);
  if (reason == torus::Nack::unreadable && type == torus::PacketType::get_data) return;  // another node's GET
  if (reason == torus::Nack::unreadable && type == torus::PacketType::raw) {  // the put ring has stopped
    if (!lost_) receiver.lost(ENETDOWN);
    lost_ = true;
    return;
  }
  if (type != torus::PacketType::raw)
    consumed_ = std::max(consumed_, contract::unwrap_counter(e.n, posted_) + 1);
  const bool gone = reason == torus::Nack::bad_domain || reason == torus::Nack::bad_port ||
                    reason == torus::Nack::link_down || reason == torus::Nack::timed_out;
  // Packets of a refused PUT that follow the first one are refused, too.
  const bool of_transfer =
      ended(e.n, false, &receiver) || reason == torus::Nack::out_of_range || reason == torus::Nack::no_right;
  if (of_transfer && !gone) return;
  const auto domain = static_cast<std::uint16_t>(e.frame >> 16);
  if (wire::port_of_domain(domain) >= tx_.size()) return;
  Tx* const tx = tx_[wire::port_of_domain(domain)].get();
  if (tx != nullptr && tx->domain == domain) tx->failed = true;
}

// Reports to senders how many of their packets have left the slots.
void CardPort::return_slots() noexcept {
  std::size_t kept = 0;
  for (Rx* const rx : due_) {
    if (!room(2)) {
      due_[kept++] = rx;
      continue;
    }
    rx->due = false;
    rx->returned = rx->moved;
    Tx to;
    to.port = wire::port_of_domain(rx->domain);
    to.domain = rx->domain;
    torus::PutDescriptor d = descriptor(to, torus::PacketType::put);
    d.flags = torus::put_flag::inline_payload;
    d.bytes = sizeof rx->moved;
    d.remote_address = wire::file_window + offsets_.credits + sizeof rx->moved * index_;
    post(d, reinterpret_cast<const std::byte*>(&rx->moved));
  }
  due_.resize(kept);
}

std::unique_ptr<Channel> CardPort::open(Address peer, int& error) {
  std::uint32_t port = 0;
  error = EHOSTUNREACH;
  if (!host_.find(peer, port)) return nullptr;
  if (lost_ || !host_.alive()) {
    error = ENETDOWN;
    return nullptr;
  }
  const PeerState state = host_.peer(port);
  if (!state.open) return nullptr;
  std::unique_ptr<Tx>& tx = tx_[port];
  if (!tx || tx->domain != state.domain) {
    if (!card_->stage(port)) {
      error = ENOSPC;
      return nullptr;
    }
    tx = std::make_unique<Tx>();
    tx->port = port;
    tx->domain = state.domain;
    tx->native = native_ && state.native;
    release(memory_.credits[port], 0u);
  }
  if (tx->failed) return nullptr;
  return std::make_unique<CardChannel>(*this, *tx);
}

// ------------------------------------------------------------------------------------------------- channel

std::byte* CardChannel::staging(std::uint32_t sequence) const noexcept {
  const std::uint32_t credits = port_.host_.shape.credits;
  return port_.memory_.staging +
         std::size_t{wire::slot_bytes} * (std::size_t{credits} * tx_.port + sequence % credits);
}

std::byte* CardChannel::reserve(std::size_t payload) noexcept {
  const std::size_t bytes = sizeof(Packet) + payload;
  const auto parts = static_cast<std::uint32_t>((bytes + wire::send_bytes - 1) / wire::send_bytes);
  const std::uint32_t used = tx_.sequence - acquire(port_.memory_.credits[tx_.port]);
  if (tx_.failed || used + parts > port_.host_.shape.credits || !port_.room(parts + 3)) return nullptr;
  reserved_ = bytes;
  return parts == 1 ? staging(tx_.sequence) + sizeof(wire::Envelope) : scratch_.data();
}

void CardChannel::commit() noexcept {
  for (std::size_t done = 0; done < reserved_;) {
    std::byte* const at = staging(tx_.sequence);
    const std::size_t bytes = std::min<std::size_t>(reserved_ - done, wire::send_bytes);
    if (reserved_ > wire::send_bytes) std::memcpy(at + sizeof(wire::Envelope), scratch_.data() + done, bytes);
    const wire::Envelope envelope{port_.domain_, 0, tx_.sequence, static_cast<std::uint32_t>(reserved_),
                                  static_cast<std::uint32_t>(done)};
    std::memcpy(at, &envelope, sizeof envelope);
    torus::PutDescriptor d = port_.descriptor(tx_, torus::PacketType::send);
    d.bytes = static_cast<std::uint32_t>(sizeof envelope + bytes);
    d.flags = d.bytes <= torus::max_inline_bytes ? torus::put_flag::inline_payload : std::uint8_t{0};
    d.local_address = wire::file_window + static_cast<std::uint64_t>(at - port_.memory_.at);
    ++tx_.sequence;
    done += bytes;
    port_.post(d, at);
  }
}

bool CardChannel::alive() noexcept {
  const PeerState state = port_.host_.peer(tx_.port);
  return !tx_.failed && state.present && state.domain == tx_.domain && !port_.lost_ && port_.host_.alive();
}

bool CardChannel::replaced() const noexcept {
  const PeerState state = port_.host_.peer(tx_.port);
  return state.open && state.domain != tx_.domain;
}

// ------------------------------------------------------------------------------------------------- node

CardNode::CardNode(std::unique_ptr<Host> host, const char* directory, bool direct)
    : host_(std::move(host)), bell_(directory), direct_(direct) {
  if (direct) allow_siblings();
}

std::unique_ptr<Port> CardNode::open(const Address* wanted) {
  return std::make_unique<CardPort>(*this, wanted);
}

// Sleeps: a rank that yields keeps its share of the processor from the process that plays the cards.
void CardNode::rest() noexcept {
  const timespec pause{0, 20'000};
  nanosleep(&pause, nullptr);
}

void CardNode::listen(bool on) noexcept {
  listening_ = on;
  for (CardPort* const port : ports_) port->listen(on);
  if (on) contract::full_fence();
}

void CardNode::drain() noexcept {
  bell_.drain();
  if (listening_ && !host_->rings()) bell_.ring();
}

}  // namespace card

std::unique_ptr<Node> open_pcie_node(const char* cards, const char* size, const char* directory,
                                     bool direct) {
  return std::make_unique<card::CardNode>(card::open_pcie(cards, size), directory, direct);
}

std::unique_ptr<Node> open_card_node(const char* path, const char* directory, bool direct) {
  return std::make_unique<card::CardNode>(std::make_unique<card::Job>(path), directory, direct);
}

}  // namespace nanet::fabric
