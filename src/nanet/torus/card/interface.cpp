// SPDX-License-Identifier: Apache-2.0
#include "nanet/torus/card/interface.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "nanet/contract/atomic.hpp"

namespace nanet::torus::card {

using contract::acquire;
using contract::relaxed;

namespace {

// Packets of a node that wait for the network: enough for a source that never pauses.
constexpr std::uint32_t most_waiting = 8;
// Entries of a node's GET ring per port of the torus, as in the gateware.
constexpr std::size_t gets_per_port = 4;

bool inside(const Lattice& lattice, const Node& node) {
  return node.x < lattice.size[0] && node.y < lattice.size[1] && node.z < lattice.size[2];
}

}  // namespace

Interfaces::Interfaces(Carrier& carrier, const Lattice& lattice, const Shape& shape, Totals& totals)
    : carrier_(carrier),
      lattice_(lattice),
      shape_(shape),
      totals_(totals),
      ports_(shape.ports),
      gets_(lattice.nodes()) {}

void Interfaces::attach(std::uint32_t index, std::uint16_t domain, const PortMemory& memory,
                        const DomainMemory& access) {
  auto p = std::make_unique<Port>(memory);
  p->index = index;
  p->node = index % lattice_.nodes();
  p->domain = domain;
  p->access = access;
  attached_.push_back(p.get());
  ports_[index] = std::move(p);
}

void Interfaces::detach(std::uint32_t index) {
  std::erase(attached_, ports_[index].get());
  ports_[index].reset();
}

bool Interfaces::drained(std::uint32_t index) const {
  const Port& p = *ports_[index];
  return !p.job && p.on_the_way == 0 && acquire(p.memory.header->doorbell) == p.next;
}

Interfaces::Port* Interfaces::port(std::uint32_t node, unsigned intra) const {
  const std::uint32_t index = node + intra * lattice_.nodes();
  return index < ports_.size() ? ports_[index].get() : nullptr;
}

// ------------------------------------------------------------------------------------------------- transmit

bool Interfaces::transmit() {
  bool any = false;
  for (Port* const p : attached_) any |= transmit(*p);
  for (std::uint32_t n = 0; n < gets_.size(); ++n)
    while (!gets_[n].empty() && carrier_.waiting(n) < most_waiting) any |= answer_get(n);
  return any;
}

bool Interfaces::transmit(Port& p) {
  bool any = false;
  while (carrier_.waiting(p.node) < most_waiting && (p.job || start(p))) any |= send_part(p);
  return any;
}

// Reads the next descriptor. False: there is none.
bool Interfaces::start(Port& p) {
  for (;;) {
    if (acquire(p.memory.header->doorbell) == p.next) return false;
    const PutDescriptor& from = p.memory.ring[p.next % put_entries_count];
    if (acquire(from.lap) != static_cast<std::uint32_t>(p.lap / put_entries_count) + 1) return false;
    p.job = Job{};
    Job& job = *p.job;
    std::memcpy(&job.d, &from, sizeof job.d);
    const PutDescriptor& d = job.d;
    const Nack reason = fault(p, job);
    const std::uint32_t entries = put_entries(d);
    if (reason == Nack::none && entries > 1)
      for (std::uint32_t k = 0; k < entries - 1; ++k)
        std::memcpy(job.inline_payload.data() + 64 * k, &p.memory.ring[(p.next + 1 + k) % put_entries_count],
                    std::min<std::size_t>(64, max_inline_bytes - 64 * k));
    // A wrong number of inline bytes may exceed the posted entries: the ring goes on behind the doorbell.
    const std::uint32_t posted = acquire(p.memory.header->doorbell) - p.next;
    const std::uint32_t step = d.bytes > max_inline_bytes ? std::min(entries, posted) : entries;
    p.next += step;
    p.lap += step;
    if (reason == Nack::none) {
      if (d.type == static_cast<std::uint8_t>(PacketType::get) || (d.flags & put_flag::ack) != 0)
        p.open.push_back({d.message, d.bytes, d.bytes, d.node, d.remote_domain, d.type,
                          (d.flags & put_flag::completed) != 0, d.local_address, d.local_domain});
      return true;
    }
    ++totals_.refused[static_cast<std::size_t>(reason)];
    event(p, EventType::failed, reason, d.type, d.bytes, d.node, d.remote_domain, d.message);
    p.job.reset();
  }
}

// Reason to refuse a descriptor.
Nack Interfaces::fault(Port& p, Job& job) {
  const PutDescriptor& d = job.d;
  const auto type = static_cast<PacketType>(d.type);
  const bool inline_payload = (d.flags & put_flag::inline_payload) != 0;
  if (type != PacketType::put && type != PacketType::get && type != PacketType::send) return Nack::bad_type;
  if (inline_payload && (d.bytes > max_inline_bytes || type == PacketType::get)) return Nack::bad_length;
  if (type == PacketType::send && d.bytes > max_payload_bytes) return Nack::bad_length;
  if (!inside(lattice_, Node::unpack(d.node))) return Nack::out_of_lattice;
  if (d.port >= max_intra) return Nack::bad_port;
  constexpr std::uint64_t end = std::uint64_t{1} << 48;
  if (type != PacketType::send && (d.remote_address >= end || d.bytes > end - d.remote_address))
    return Nack::out_of_range;
  if (inline_payload || d.bytes == 0) return Nack::none;
  if (d.local_domain != p.domain) return Nack::bad_domain;
  return p.access.find(d.local_address, d.bytes, 0, job.place);
}

WirePacket& Interfaces::take(std::uint32_t from, std::uint32_t owner, std::uint32_t& id) {
  if (free_packets_.empty()) {
    free_packets_.push_back(static_cast<std::uint32_t>(packets_.size()));
    packets_.push_back(std::make_unique<WirePacket>());
  }
  id = free_packets_.back();
  free_packets_.pop_back();
  WirePacket& packet = *packets_[id];
  packet.from = from;
  packet.owner = owner;
  if (owner < ports_.size() && ports_[owner]) ++ports_[owner]->on_the_way;
  return packet;
}

// Completes a packet whose payload is in place, and sends it.
void Interfaces::launch(std::uint32_t id, Header header, const Footer& footer) {
  WirePacket& packet = *packets_[id];
  packet.header = encode_header(header);
  packet.footer = sealed_footer(packet.header, {packet.payload.data(), header.payload_words()}, footer);
  carrier_.send(id, packet);
}

Footer Interfaces::footer_of(const Port& p, std::uint32_t message, std::uint8_t flags) const {
  const Place own = place_of(lattice_, p.index);
  Footer f;
  f.message = message;
  f.source = {own.node[0], own.node[1], own.node[2]};
  f.source_intra = own.intra;
  f.flags = flags;
  return f;
}

// Sends the next packet of the port's descriptor.
bool Interfaces::send_part(Port& p) {
  Job& job = *p.job;
  const PutDescriptor& d = job.d;
  const auto type = static_cast<PacketType>(d.type);
  std::uint32_t id = 0;
  WirePacket& packet = take(p.node, p.index, id);
  Header h;
  h.channel = d.remote_domain;
  h.to = Node::unpack(d.node);
  h.intra = d.port;
  h.type = d.type;
  if (type == PacketType::get) {
    h.address = d.remote_address;
    h.length = word_bytes;
    packet.payload[0] = encode_extension({d.local_address, d.local_domain, d.bytes});
    launch(id, h, footer_of(p, d.message, footer_flag::last));
    p.job.reset();
    return true;
  }
  const std::uint32_t left = d.bytes - job.done;
  const std::uint32_t size = type == PacketType::send ? left : cut(d.remote_address + job.done, left);
  h.address = type == PacketType::send ? 0 : d.remote_address + job.done;
  h.length = static_cast<std::uint16_t>(size);
  auto* const bytes = reinterpret_cast<std::byte*>(packet.payload.data());
  std::memset(bytes + size, 0, (word_bytes - size % word_bytes) % word_bytes);
  bool read = true;
  if ((d.flags & put_flag::inline_payload) != 0)
    std::memcpy(bytes, job.inline_payload.data() + job.done, size);
  else
    read = p.access.read(d.local_address + job.done, job.place == 0 ? 0 : job.place + job.done, bytes, size);
  const bool waits = (d.flags & put_flag::ack) != 0;
  const auto open = std::find_if(p.open.begin(), p.open.end(), [&](const Message& m) {
    return m.message == d.message && m.node == d.node && m.type == d.type;
  });
  if (!read || (waits && open == p.open.end())) {  // the memory has gone, or a NACK has ended the message
    free_packets_.push_back(id);
    --p.on_the_way;
    if (!read) {
      ++totals_.refused[static_cast<std::size_t>(Nack::out_of_range)];
      if (waits && open != p.open.end())
        end(p, static_cast<std::size_t>(open - p.open.begin()), Nack::out_of_range);
      else
        event(p, EventType::failed, Nack::out_of_range, d.type, d.bytes, d.node, d.remote_domain, d.message);
    }
    p.job.reset();
    return true;
  }
  job.done += size;
  Footer f = footer_of(p, d.message,
                       static_cast<std::uint8_t>(
                           ((d.flags & put_flag::notify) != 0 ? footer_flag::notify : 0) |
                           (waits ? footer_flag::ack : 0) | (job.done == d.bytes ? footer_flag::last : 0)));
  f.immediate = d.immediate;
  launch(id, h, f);
  if (job.done < d.bytes) return true;
  if (!waits && (d.flags & put_flag::completed) != 0)
    event(p, EventType::completed, Nack::none, d.type, d.bytes, d.node, d.remote_domain, d.message);
  p.job.reset();
  return true;
}

// Sends the next packet of data that another node has requested.
bool Interfaces::answer_get(std::uint32_t node) {
  Get& get = gets_[node].front();
  const GetEntry& e = get.entry;
  Port* const p = ports_[get.port].get();
  const std::uint64_t reply_at = e.reply & ((std::uint64_t{1} << 48) - 1);
  Header h;
  h.channel = static_cast<std::uint16_t>(e.reply >> 48);
  h.to = Node::unpack(e.node);
  h.intra = static_cast<std::uint8_t>(e.address >> 48 & 15);
  std::uint32_t id = 0;
  WirePacket& packet = take(node, max_ports, id);
  const std::uint64_t from = (e.address & ((std::uint64_t{1} << 48) - 1)) + get.done;
  const std::uint32_t size = cut(reply_at + get.done, e.bytes - get.done);
  std::uint64_t place = 0;
  auto* const bytes = reinterpret_cast<std::byte*>(packet.payload.data());
  Nack reason = p == nullptr || p->domain != e.domain ? Nack::bad_domain : Nack::none;
  if (reason == Nack::none) reason = p->access.find(from, size, right::remote_read, place);
  if (reason == Nack::none && !p->access.read(from, place, bytes, size)) reason = Nack::out_of_range;
  Footer f;
  const Coordinates own = lattice_.at(node);
  f.source = {own[0], own[1], own[2]};
  f.source_intra = static_cast<std::uint8_t>(get.port / lattice_.nodes());
  f.message = e.message;
  if (reason != Nack::none) {
    ++totals_.refused[static_cast<std::size_t>(reason)];
    h.channel = e.domain;
    h.type = static_cast<std::uint8_t>(PacketType::nack);
    h.address = static_cast<std::uint64_t>(reason);
    f.flags = footer_flag::last;
    launch(id, h, f);
    gets_[node].pop_front();
    return true;
  }
  std::memset(bytes + size, 0, (word_bytes - size % word_bytes) % word_bytes);
  h.type = static_cast<std::uint8_t>(PacketType::get_data);
  h.address = reply_at + get.done;
  h.length = static_cast<std::uint16_t>(size);
  get.done += size;
  f.flags = get.done == e.bytes ? footer_flag::last : std::uint8_t{0};
  launch(id, h, f);
  if (get.done == e.bytes) gets_[node].pop_front();
  return true;
}

// ------------------------------------------------------------------------------------------------- receive

void Interfaces::receive(const Arrival& arrival) {
  WirePacket& packet = *packets_[arrival.id];
  const Header h = decode_header(packet.header);
  const std::uint32_t to = lattice_.index(coordinates(h.to));
  const std::uint64_t cycles = arrival.tail - arrival.created;
  ++totals_.packets;
  totals_.words += 2 + h.payload_words();
  totals_.hops += hops(lattice_, lattice_.at(packet.from), lattice_.at(to));
  totals_.cycles += cycles;
  totals_.max_cycles = std::max(totals_.max_cycles, cycles);
  if (packet.owner < ports_.size() && ports_[packet.owner]) --ports_[packet.owner]->on_the_way;
  receive(to, packet.header, packet.words(), packet.footer);
  free_packets_.push_back(arrival.id);
}

void Interfaces::receive(std::uint32_t node, const Word& header, std::span<const Word> payload,
                         const Word& footer) {
  const Header h = decode_header(header);
  const Footer f = decode_footer(footer);
  const auto type = static_cast<PacketType>(h.type);
  Nack reason = check_packet(header, payload, footer);
  Port* const p = port(node, h.intra);
  if (reason == Nack::none && (type == PacketType::raw || type == PacketType::ethernet)) return;
  if (reason == Nack::none && type == PacketType::datagram) reason = Nack::bad_type;  // no UDP in this node
  const bool request = type == PacketType::put || type == PacketType::get || type == PacketType::send;
  const bool answers = type == PacketType::done || type == PacketType::nack || type == PacketType::get_data;
  std::optional<std::uint32_t> slot;
  if (reason == Nack::none && p == nullptr) reason = Nack::bad_port;
  if (reason == Nack::none && answers) {
    if (!answer(*p, h, payload, f)) ++totals_.unexpected;
    return;
  }
  if (reason == Nack::none && h.channel != p->domain) reason = Nack::bad_domain;
  if (reason == Nack::none) reason = place(*p, node, h, payload, f, slot);
  if (reason != Nack::none) {
    ++totals_.refused[static_cast<std::size_t>(reason)];
    // The source has reported payload that it could not read, unless it waits for DONE.
    const bool reported =
        reason == Nack::bad_crc && !f.has(footer_flag::ack) && unread_at_source(header, payload, footer);
    if ((request || reason == Nack::bad_type) && !reported)
      reply(node, PacketType::nack, h, f, static_cast<std::uint64_t>(reason));
  } else if (f.has(footer_flag::ack) && type != PacketType::get) {
    reply(node, PacketType::done, h, f, h.length);
  }
  if (slot)
    event(*p, reason == Nack::none ? EventType::send_arrived : EventType::failed, reason, *slot,
          reason == Nack::none ? h.length : 0, f.source.packed(), h.channel, f.message);
  else if (type == PacketType::put && reason == Nack::none && f.has(footer_flag::notify) &&
           f.has(footer_flag::last))
    event(*p, EventType::put_arrived, reason, f.immediate, h.length, f.source.packed(), h.channel, f.message);
}

// Carries out a request. slot: receive slot that a SEND has used.
Nack Interfaces::place(Port& p, std::uint32_t node, const Header& h, std::span<const Word> payload,
                       const Footer& f, std::optional<std::uint32_t>& slot) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(payload.data());
  std::uint64_t place = 0;
  switch (static_cast<PacketType>(h.type)) {
    case PacketType::put: {
      const Nack found = p.access.find(h.address, h.length, right::remote_write, place);
      if (found != Nack::none) return found;
      return p.access.write(h.address, place, bytes, h.length) ? Nack::none : Nack::out_of_range;
    }
    case PacketType::send: {
      if (acquire(p.memory.header->posted) == p.slots) return Nack::no_slot;
      slot = p.slots++ % shape_.slots;
      std::memcpy(p.memory.slots + std::size_t{slot_bytes} * *slot, bytes, h.length);
      return Nack::none;
    }
    default: {                                                       // GET
      if (!inside(lattice_, f.source)) return Nack::out_of_lattice;  // the data would leave it
      const Extension request = decode_extension(payload[0]);
      const Nack found = p.access.find(h.address, request.bytes, right::remote_read, place);
      if (found != Nack::none) return found;
      if (gets_[node].size() >= gets_per_port * shape_.ports) return Nack::get_ring_full;
      Get get;
      get.entry.address = h.address | std::uint64_t{f.source_intra} << 48;
      get.entry.reply = request.reply_address | std::uint64_t{request.reply_channel} << 48;
      get.entry.bytes = request.bytes;
      get.entry.domain = h.channel;
      get.entry.node = f.source.packed();
      get.entry.message = f.message;
      get.port = p.index;
      gets_[node].push_back(get);
      return Nack::none;
    }
  }
}

void Interfaces::reply(std::uint32_t node, PacketType type, const Header& h, const Footer& f,
                       std::uint64_t value) {
  if (!inside(lattice_, f.source)) return;
  std::uint32_t id = 0;
  take(node, max_ports, id);
  Header out;
  out.channel = h.channel;
  out.to = f.source;
  out.intra = f.source_intra;
  out.type = static_cast<std::uint8_t>(type);
  out.address = value;
  const Coordinates own = lattice_.at(node);
  Footer foot;
  foot.source = {own[0], own[1], own[2]};
  foot.source_intra = h.intra;
  foot.message = f.message;
  foot.flags = footer_flag::last;
  launch(id, out, foot);
}

// DONE, NACK or GET data. False: no message waits for it.
bool Interfaces::answer(Port& p, const Header& h, std::span<const Word> payload, const Footer& f) {
  const auto type = static_cast<PacketType>(h.type);
  const std::uint16_t node = f.source.packed();
  std::size_t k = 0;
  for (; k < p.open.size(); ++k) {
    const Message& m = p.open[k];
    const bool get = m.type == static_cast<std::uint8_t>(PacketType::get);
    if (m.message == f.message && m.node == node &&
        (type == PacketType::nack || get == (type == PacketType::get_data)))
      break;
  }
  if (type == PacketType::nack) {
    const auto reason = static_cast<Nack>(h.address & 15);
    if (k < p.open.size())
      end(p, k, reason);
    else
      event(p, EventType::failed, reason, 0, 0, node, h.channel, f.message);
    return k < p.open.size();
  }
  if (k == p.open.size()) return false;
  Message& m = p.open[k];
  const auto size = static_cast<std::uint32_t>(type == PacketType::done ? h.address : h.length);
  if (size > m.left) return false;
  if (type == PacketType::get_data) {
    if (h.channel != m.local_domain || h.address < m.local || h.address - m.local > m.bytes - size)
      return false;
    std::uint64_t place = 0;
    Nack reason = p.access.find(h.address, size, 0, place);
    if (reason == Nack::none &&
        !p.access.write(h.address, place, reinterpret_cast<const std::byte*>(payload.data()), size))
      reason = Nack::out_of_range;
    if (reason != Nack::none) {
      ++totals_.refused[static_cast<std::size_t>(reason)];
      end(p, k, reason);
      return true;
    }
  }
  m.left -= size;
  if (m.left == 0) end(p, k, Nack::none);
  return true;
}

// Ends an open message.
void Interfaces::end(Port& p, std::size_t k, Nack reason) {
  const Message m = p.open[k];
  p.open[k] = p.open.back();
  p.open.pop_back();
  if (reason != Nack::none)
    event(p, EventType::failed, reason, m.type, m.bytes, m.node, m.domain, m.message);
  else if (m.completed)
    event(p, EventType::completed, reason, m.type, m.bytes, m.node, m.domain, m.message);
}

void Interfaces::quiet() {
  for (const std::deque<Get>& gets : gets_)
    if (!gets.empty()) return;
  for (Port* const p : attached_) {
    if (p->job) continue;
    while (!p->open.empty()) {
      ++totals_.refused[static_cast<std::size_t>(Nack::timed_out)];
      end(*p, 0, Nack::timed_out);
    }
  }
}

void Interfaces::event(Port& p, EventType type, Nack reason, std::uint32_t what, std::uint32_t bytes,
                       std::uint16_t node, std::uint16_t domain, std::uint32_t message) {
  if (p.events.free() == 0) {
    ++totals_.events_lost;
    return;
  }
  contract::Event e;
  e.type = static_cast<std::uint8_t>(type);
  e.stream = place_of(lattice_, p.index).intra;
  e.flags = static_cast<std::uint16_t>(reason);
  e.buffer = what;
  e.bytes = bytes;
  e.frame = node | std::uint32_t{domain} << 16;
  e.time_ns = carrier_.now();
  e.n = message;
  p.events.write(e);
  contract::full_fence();
  if (relaxed(p.memory.header->listening) == 0) return;
  if (!p.bell) p.bell = os::Fd(::open(p.memory.header->bell, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  const char one = 1;
  if (p.bell) [[maybe_unused]]
    const auto full = write(p.bell.get(), &one, 1);  // a full pipe is readable already
}

}  // namespace nanet::torus::card
