// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/card/node.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::fabric {
namespace card {

using contract::acquire;
using contract::relax;
using contract::relaxed;
using contract::release;
using wire::PortState;

namespace {

constexpr unsigned batch = 64;              // events of one poll
constexpr std::uint32_t signal_every = 64;  // entries of the put ring between two `completed` events
constexpr unsigned check_every = 1024;      // polls without events
constexpr Nanoseconds open_limit = 10'000'000'000;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

PortState state_of(const wire::PortEntry& entry) {
  return static_cast<PortState>(acquire(entry.state));
}

}  // namespace

// ------------------------------------------------------------------------------------------------- job

Job::Job(const char* name) : path(name) {
  const os::Fd fd(::open(name, O_RDWR | O_CLOEXEC));
  if (!fd) fail(errno, "no torus at " + path + "; start one with nanet torus serve");
  mapping_ = wire::Mapping(fd.get(), sizeof(wire::Control));
  const wire::Control& c = control();
  if (acquire(c.magic) != wire::magic)
    fail(EPROTO, path + " is not the control file of this version's torus");
  std::copy_n(c.size, 3, lattice.size.begin());
  shape = wire::Shape::of(lattice.nodes() * c.intra);
  process_ = wire::Process(c.pid);
}

bool Job::alive() const noexcept {
  return acquire(control().running) == 1 && !process_.ended();
}

void Job::changed() const noexcept {
  std::atomic_ref(control().bell).fetch_add(1);
  wire::wake(control().bell);
}

void Job::wake() const noexcept {
  contract::full_fence();
  if (relaxed(control().sleeping) != 0) changed();
}

bool Job::find(Address a, std::uint32_t& port) const noexcept {
  if (a.x >= lattice.size[0] || a.y >= lattice.size[1] || a.z >= lattice.size[2] || a.reserved != 0 ||
      a.port >= control().intra)
    return false;
  port = wire::port_of(lattice, {a.x, a.y, a.z}, a.port);
  return true;
}

Address Job::address(std::uint32_t port) const noexcept {
  const wire::Place place = wire::place_of(lattice, port);
  Address a;
  a.x = place.node[0];
  a.y = place.node[1];
  a.z = place.node[2];
  a.port = place.intra;
  return a;
}

// ------------------------------------------------------------------------------------------------- port

CardPort::CardPort(CardNode& node, const Address* wanted)
    : node_(node),
      job_(node.job_),
      index_(claim(wanted)),
      offsets_(job_.shape),
      tx_(job_.shape.ports),
      rx_(job_.shape.ports) {
  wire::PortEntry& entry = job_.control().port[index_];
  domain_ = wire::domain_of(index_, acquire(entry.epoch));
  try {
    create_file();
  } catch (...) {
    unlink(wire::port_file(job_.path, index_).c_str());
    relax(entry.pid, 0u);
    release(entry.state, static_cast<std::uint32_t>(PortState::free));
    throw;
  }
  release(entry.state, static_cast<std::uint32_t>(PortState::announced));
  job_.changed();
  const Nanoseconds end = os::monotonic_now() + open_limit;
  while (state_of(entry) == PortState::announced) {
    if (!job_.alive() || os::monotonic_now() > end) fail(ENETDOWN, "the torus does not answer");
    sched_yield();
  }
  if (state_of(entry) != PortState::open) fail(ENETDOWN, "the torus has refused the port");
  native_ = acquire(entry.native) != 0;
  node_.ports_.push_back(this);
}

CardPort::~CardPort() {
  std::erase(node_.ports_, this);
  for (std::uint32_t k = wire::file_entries; k < entries_used_; ++k) release(memory_.table[k].valid, 0u);
  release(job_.control().port[index_].state, static_cast<std::uint32_t>(PortState::closing));
  job_.changed();
}

// Takes a free port: the wanted one, or the next in a cyclic order.
std::uint32_t CardPort::claim(const Address* wanted) {
  wire::Control& c = job_.control();
  if (!job_.alive()) fail(ENETDOWN, "the torus has ended");
  const auto take = [&](std::uint32_t port) {
    auto expected = static_cast<std::uint32_t>(PortState::free);
    if (!std::atomic_ref(c.port[port].state)
             .compare_exchange_strong(expected, static_cast<std::uint32_t>(PortState::claimed)))
      return false;
    release(c.port[port].pid, static_cast<std::uint32_t>(getpid()));
    return true;
  };
  const Nanoseconds end = os::monotonic_now() + open_limit / 10;
  std::uint32_t port = 0;
  if (wanted != nullptr) {
    if (!job_.find(*wanted, port)) fail(EADDRNOTAVAIL, "the address is no port of this torus");
    while (!take(port)) {
      // A port that is being closed becomes free shortly.
      if (state_of(c.port[port]) != PortState::closing || os::monotonic_now() > end)
        fail(EADDRINUSE, "the address of the endpoint is in use");
      sched_yield();
    }
    return port;
  }
  for (;;) {
    for (std::uint32_t k = 0; k < job_.shape.ports; ++k) {
      port = std::atomic_ref(c.next).fetch_add(1) % job_.shape.ports;
      if (take(port)) return port;
    }
    if (os::monotonic_now() > end) fail(EMFILE, "all ports of the torus are in use; start a larger one");
    sched_yield();
  }
}

void CardPort::create_file() {
  const std::string name = wire::port_file(job_.path, index_);
  unlink(name.c_str());
  file_ = os::Fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file_) fail(errno, "cannot create " + name);
  if (ftruncate(file_.get(), static_cast<off_t>(offsets_.bytes)) != 0) fail(errno, "cannot size " + name);
  // Reserved before it is touched: a full file system would raise SIGBUS.
  if (const int error = posix_fallocate(file_.get(), 0, static_cast<off_t>(offsets_.staging)); error != 0)
    fail(error, "no space for " + name);
  mapping_ = wire::Mapping(file_.get(), offsets_.bytes);
  memory_ = wire::PortMemory(mapping_.at(), job_.shape);
  wire::PortHeader& h = *memory_.header;
  const std::string& bell = node_.bell_.path();
  if (bell.size() >= sizeof h.bell) fail(ENAMETOOLONG, bell + ": longer than 239 bytes; name another folder");
  std::copy(bell.begin(), bell.end(), h.bell);
  h.listening = node_.listening_;
  if (getrandom(&cookie_, sizeof cookie_, 0) != sizeof cookie_) fail(errno, "no random numbers");
  h.cookie = cookie_;
  h.cookie_address = node_.direct_ ? reinterpret_cast<std::uint64_t>(&cookie_) : 0;
  slots_posted_ = job_.shape.slots;
  h.posted = slots_posted_;
  const auto entry = [&](unsigned k, std::size_t at, std::size_t bytes, std::uint8_t rights) {
    torus::RegisteredBuffer& b = memory_.table[k];
    b.address = wire::file_window + at;
    b.bytes = bytes;
    b.domain = domain_;
    b.rights = rights;
    b.valid = 1;
  };
  entry(0, offsets_.staging, offsets_.answers - offsets_.staging, 0);
  entry(1, offsets_.credits, sizeof(std::uint32_t) * wire::max_ports, torus::right::remote_write);
  entry(2, offsets_.keys, sizeof(wire::KeyEntry) * wire::key_entries, torus::right::remote_read);
  entry(3, offsets_.answers, offsets_.bytes - offsets_.answers, 0);
  h.table_used = wire::file_entries;
  release(h.magic, wire::magic);
}

void CardPort::listen(bool on) noexcept {
  relax(memory_.header->listening, std::uint32_t{on});
}

torus::PutDescriptor CardPort::descriptor(const Tx& tx, torus::PacketType type) const noexcept {
  const Address to = job_.address(tx.port);
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
  release(memory_.header->doorbell, static_cast<std::uint32_t>(posted_));
  job_.wake();
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
  if (taken == 0 && ++idle_ % check_every == 0 && !lost_ && !job_.alive()) {
    lost_ = true;
    receiver.lost(ENETDOWN);
  }
  return taken;
}

void CardPort::send_arrived(const contract::Event& e, Receiver& receiver) {
  const std::byte* const at = memory_.slots + std::size_t{wire::slot_bytes} * (e.buffer % job_.shape.slots);
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
      rx.from = job_.address(source);
    }
    rx.broken |= envelope.sequence != rx.moved;
    ++rx.moved;
    if (!rx.due && rx.moved - rx.returned >= job_.shape.credits / 4) {
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
  release(memory_.header->posted, ++slots_posted_);
}

// Refused descriptor, or NACK of a packet.
void CardPort::failed(const contract::Event& e, Receiver& receiver) {
  const auto type = static_cast<torus::PacketType>(e.buffer);
  if (type != torus::PacketType::raw)
    consumed_ = std::max(consumed_, contract::unwrap_counter(e.n, posted_) + 1);
  const auto reason = static_cast<torus::Nack>(e.flags);
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
  if (!job_.find(peer, port)) return nullptr;
  if (!job_.alive()) {
    error = ENETDOWN;
    return nullptr;
  }
  const wire::PortEntry& entry = job_.control().port[port];
  const std::uint16_t domain = wire::domain_of(port, acquire(entry.epoch));
  if (state_of(entry) != PortState::open) return nullptr;
  std::unique_ptr<Tx>& tx = tx_[port];
  if (!tx || tx->domain != domain) {
    const std::size_t bytes = std::size_t{wire::slot_bytes} * job_.shape.credits;
    if (posix_fallocate(file_.get(), static_cast<off_t>(offsets_.staging + bytes * port),
                        static_cast<off_t>(bytes)) != 0) {
      error = ENOSPC;
      return nullptr;
    }
    tx = std::make_unique<Tx>();
    tx->port = port;
    tx->domain = domain;
    tx->native = native_ && acquire(entry.native) != 0;
    release(memory_.credits[port], 0u);
  }
  if (tx->failed) return nullptr;
  return std::make_unique<CardChannel>(*this, *tx);
}

// ------------------------------------------------------------------------------------------------- channel

std::byte* CardChannel::staging(std::uint32_t sequence) const noexcept {
  const std::uint32_t credits = port_.job_.shape.credits;
  return port_.memory_.staging +
         std::size_t{wire::slot_bytes} * (std::size_t{credits} * tx_.port + sequence % credits);
}

std::byte* CardChannel::reserve(std::size_t payload) noexcept {
  const std::size_t bytes = sizeof(Packet) + payload;
  const auto parts = static_cast<std::uint32_t>((bytes + wire::send_bytes - 1) / wire::send_bytes);
  const std::uint32_t used = tx_.sequence - acquire(port_.memory_.credits[tx_.port]);
  if (tx_.failed || used + parts > port_.job_.shape.credits || !port_.room(parts + 3)) return nullptr;
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
  const wire::PortEntry& entry = port_.job_.control().port[tx_.port];
  const PortState state = state_of(entry);
  return !tx_.failed && (state == PortState::open || state == PortState::closing) &&
         wire::domain_of(tx_.port, acquire(entry.epoch)) == tx_.domain && port_.job_.alive();
}

bool CardChannel::replaced() const noexcept {
  const wire::PortEntry& entry = port_.job_.control().port[tx_.port];
  return state_of(entry) == PortState::open && wire::domain_of(tx_.port, acquire(entry.epoch)) != tx_.domain;
}

// ------------------------------------------------------------------------------------------------- node

CardNode::CardNode(const char* path, const char* directory, bool direct)
    : job_(path), bell_(directory), direct_(direct) {
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

}  // namespace card

std::unique_ptr<Node> open_card_node(const char* path, const char* directory, bool direct) {
  return std::make_unique<card::CardNode>(path, directory, direct);
}

}  // namespace nanet::fabric
