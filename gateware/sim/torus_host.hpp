// SPDX-License-Identifier: SHL-2.1
// Host of a simulated torus card: memory at bus addresses, DMA with fixed latency, keys and translations of
// the process whose port is open.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "nanet/contract/atomic.hpp"
#include "nanet/gateware/torus_driver.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"

namespace nanet::sim {

namespace card = torus::card;

// Process with an open port: mapped file, and registered memory.
struct PortHost {
  PortHost(std::uint32_t index, std::uint16_t d, std::uint32_t pid, card::Mapping&& m, const card::Shape& s)
      : port(index),
        domain(d),
        mapping(std::move(m)),
        shape(s),
        offsets(s),
        memory(mapping.at(), s),
        access(memory, pid, offsets.bytes) {}

  const std::uint32_t port;
  const std::uint16_t domain;
  card::Mapping mapping;
  const card::Shape shape;
  const card::Offsets offsets;
  card::PortMemory memory;
  card::DomainMemory access;
  os::Fd bell;
  std::uint32_t doorbell = 0, slots = 0, revoked = 0;  // as written to the card
};

// Bus addresses: bits 63:60 say which memory. Page numbers of domain memory are scrambled, so that a missing
// or wrong translation shows.
enum class Region : std::uint8_t { file = 1, get_ring = 2, domain = 3 };
constexpr unsigned region_bit = 60;
constexpr std::uint64_t scramble = std::uint64_t{0x5'A5A5'A5A5} << 12;
constexpr std::uint64_t address_bits = (std::uint64_t{1} << 48) - 1;
constexpr std::uint64_t bus_of(Region region, std::uint64_t address) {
  return std::uint64_t{static_cast<std::uint8_t>(region)} << region_bit | address;
}

class NodeMemory final : public gateware::TorusMemory {
 public:
  explicit NodeMemory(card::Totals& totals) : totals_(totals) {}

  PortHost* port = nullptr;
  std::vector<torus::GetEntry> gets;

  // False: an error of the bus.
  bool read(std::uint64_t bus, std::byte* to, std::size_t bytes) {
    const std::uint64_t at = bus & ((std::uint64_t{1} << region_bit) - 1);
    switch (static_cast<Region>(bus >> region_bit)) {
      case Region::get_ring:
        return at + bytes <= gets.size() * sizeof gets[0] && copy(to, ring() + at, bytes);
      case Region::file:
        return port != nullptr && at + bytes <= port->offsets.bytes && read_file(at, to, bytes);
      case Region::domain:
        return port != nullptr && read_domain(at ^ scramble, to, bytes);
      default:
        return false;
    }
  }

  bool write(std::uint64_t bus, const std::byte* from, std::size_t bytes) {
    const std::uint64_t at = bus & ((std::uint64_t{1} << region_bit) - 1);
    switch (static_cast<Region>(bus >> region_bit)) {
      case Region::get_ring:
        return at + bytes <= gets.size() * sizeof gets[0] && copy(ring() + at, from, bytes);
      case Region::file:
        return port != nullptr && write_event(at, from, bytes);
      case Region::domain: {
        if (port == nullptr) return false;
        const std::uint64_t address = at ^ scramble;
        std::uint64_t place = 0;
        if (!in_slots(address, bytes) && port->access.find(address, bytes, 0, place) != torus::Nack::none)
          return false;
        return port->access.write(address, place, from, bytes);
      }
      default:
        return false;
    }
  }

  torus::Nack key(std::uint16_t domain, std::uint64_t address, std::uint32_t bytes,
                  torus::RegisteredBuffer& found) override {
    std::uint64_t place = 0;
    if (port == nullptr || domain != port->domain) return torus::Nack::bad_domain;
    return port->access.entry(address, bytes, found, place) ? torus::Nack::none : torus::Nack::out_of_range;
  }

  bool page(std::uint16_t domain, std::uint64_t address, std::uint64_t& bus) override {
    if (port == nullptr || domain != port->domain) return false;
    bus = bus_of(Region::domain, address ^ scramble);
    if (in_slots(address, gateware::TorusDriver::page_bytes)) return true;
    const std::uint64_t end = address + gateware::TorusDriver::page_bytes;
    const std::uint32_t used =
        std::min(contract::acquire(port->memory.header->table_used), card::table_entries);
    for (std::uint32_t i = 0; i < used; ++i) {
      const torus::RegisteredBuffer& b = port->memory.table[i];
      if (contract::acquire(b.valid) == 0) continue;
      const std::uint64_t first = contract::acquire(b.address);
      if (first < end && address < first + contract::acquire(b.bytes)) return true;
    }
    return false;
  }

 private:
  std::byte* ring() { return reinterpret_cast<std::byte*>(gets.data()); }
  static bool copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    return true;
  }

  bool in_slots(std::uint64_t address, std::size_t bytes) const {
    const std::uint64_t begin = card::file_window + port->offsets.slots;
    return address >= begin && address + bytes <= begin + std::uint64_t{card::slot_bytes} * port->shape.slots;
  }

  // Put ring: the lap orders the other words of its entry. Finished count: one word.
  bool read_file(std::uint64_t at, std::byte* to, std::size_t bytes) {
    const std::byte* const from = port->memory.at + at;
    if (bytes == sizeof(std::uint64_t)) {
      const std::uint64_t word = contract::acquire(*reinterpret_cast<const std::uint64_t*>(from));
      return copy(to, reinterpret_cast<const std::byte*>(&word), sizeof word);
    }
    if (bytes != sizeof(torus::PutDescriptor)) return false;
    const std::uint32_t lap = contract::acquire(reinterpret_cast<const torus::PutDescriptor*>(from)->lap);
    copy(to, from, offsetof(torus::PutDescriptor, lap));
    return copy(to + offsetof(torus::PutDescriptor, lap), reinterpret_cast<const std::byte*>(&lap),
                sizeof lap);
  }

  // The word-aligned read of the card may begin up to 3 bytes before a buffer, in its page.
  bool read_domain(std::uint64_t address, std::byte* to, std::size_t bytes) {
    for (std::size_t ahead = 0; ahead < 4 && ahead < bytes; ++ahead) {
      std::uint64_t place = 0;
      if (port->access.find(address + ahead, bytes - ahead, 0, place) != torus::Nack::none) continue;
      return port->access.read(address, place == 0 ? 0 : place - ahead, to, bytes);
    }
    return false;
  }

  bool write_event(std::uint64_t at, const std::byte* from, std::size_t bytes) {
    const std::uint64_t begin = port->offsets.events;
    contract::Event event;
    if (bytes != sizeof event || at < begin || at + bytes > begin + sizeof event * port->shape.events)
      return false;
    std::memcpy(&event, from, sizeof event);
    auto& to = *reinterpret_cast<contract::Event*>(port->memory.at + at);
    contract::relax(to.type, event.type);
    contract::relax(to.stream, event.stream);
    contract::relax(to.flags, event.flags);
    contract::relax(to.buffer, event.buffer);
    contract::relax(to.bytes, event.bytes);
    contract::relax(to.frame, event.frame);
    contract::relax(to.time_ns, event.time_ns);
    contract::relax(to.n, event.n);
    contract::release(to.lap, event.lap);
    if (event.type == static_cast<std::uint8_t>(torus::EventType::failed) &&
        event.flags == static_cast<std::uint16_t>(torus::Nack::timed_out))
      ++totals_.refused[event.flags];
    ring_bell();
    return true;
  }

  void ring_bell() {
    contract::full_fence();
    if (contract::relaxed(port->memory.header->listening) == 0) return;
    if (!port->bell) port->bell = os::Fd(::open(port->memory.header->bell, O_RDWR | O_NONBLOCK | O_CLOEXEC));
    const char one = 1;
    if (port->bell) [[maybe_unused]]
      const auto full = ::write(port->bell.get(), &one, 1);  // a full pipe is readable already
  }

  card::Totals& totals_;
};

// DMA interface of a card: requests in order, data and completions after a latency in cycles.
class DmaEngine {
 public:
  static constexpr std::uint64_t read_cycles = 32, write_cycles = 16;

  explicit DmaEngine(NodeMemory& memory) : memory_(memory) {}

  bool busy() const { return !reads_.empty() || !done_.empty() || filled_ > 0; }

  // Inputs of the coming clock edge.
  template <class Dut>
  void drive(Dut& d, std::uint64_t now) {
    d.wr_done = !done_.empty() && done_.front().due <= now;
    if (d.wr_done) {
      d.wr_done_tag = done_.front().tag;
      d.wr_done_error = done_.front().error;
      done_.pop_front();
    }
    d.rd_data_valid = !reads_.empty() && reads_.front().due <= now;
    if (!d.rd_data_valid) return;
    const Read& r = reads_.front();
    if (word_ == 0) {
      data_.fill(std::byte{});
      error_ = r.len > data_.size() || !memory_.read(r.address, data_.data(), r.len);
    }
    std::memcpy(&d.rd_data[0], data_.data() + 16 * word_, 16);
    d.rd_data_tag = r.tag;
    d.rd_data_last = 16 * (word_ + 1) >= r.len;
    d.rd_data_error = error_;
  }

  // Requests that the coming clock edge accepts.
  template <class Dut>
  void sample(const Dut& d, std::uint64_t now) {
    if (d.rd_data_valid && d.rd_data_ready) {
      ++word_;
      if (d.rd_data_last) {
        reads_.pop_front();
        word_ = 0;
      }
    }
    if (d.rd_valid) reads_.push_back({d.rd_address, d.rd_len, d.rd_tag, now + read_cycles});
    if (!d.wr_valid) return;
    if (filled_ + 16 <= written_.size()) std::memcpy(written_.data() + filled_, &d.wr_data[0], 16);
    filled_ += 16;
    if (!d.wr_last) return;
    const bool whole = d.wr_len <= filled_ && filled_ <= written_.size();
    done_.push_back(
        {d.wr_tag, !whole || !memory_.write(d.wr_address, written_.data(), d.wr_len), now + write_cycles});
    filled_ = 0;
  }

 private:
  struct Read {
    std::uint64_t address;
    std::uint16_t len;
    std::uint8_t tag;
    std::uint64_t due;
  };
  struct Done {
    std::uint8_t tag;
    bool error;
    std::uint64_t due;
  };
  static constexpr std::size_t longest = 4096 + 16;

  NodeMemory& memory_;
  std::deque<Read> reads_;
  std::deque<Done> done_;
  std::array<std::byte, longest> data_{}, written_{};
  std::size_t word_ = 0, filled_ = 0;
  bool error_ = false;
};

}  // namespace nanet::sim
