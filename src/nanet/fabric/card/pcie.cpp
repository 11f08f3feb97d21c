// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/card/pcie.hpp"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/gateware/vfio_bus.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::fabric::card {

using contract::acquire;

namespace {

constexpr std::uint64_t page_bytes = gateware::TorusDriver::page_bytes;
constexpr std::uint32_t gets_per_port = 4;
constexpr std::uint64_t pages_ahead =
    8;  // translations entered with a buffer; the others follow their misses
constexpr Nanoseconds link_limit = 10'000'000'000;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::uint64_t page_of(std::uint64_t address) {
  return address / page_bytes * page_bytes;
}

// Zeroed pages.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail(errno, "no memory for the rings of the torus card");
    at_ = static_cast<std::byte*>(at);
  }
  ~Pages() { munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* at() const noexcept { return at_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

class PciePort final : public Attachment, private gateware::TorusMemory {
 public:
  explicit PciePort(PcieHost& host);
  ~PciePort() override;
  PciePort(const PciePort&) = delete;
  PciePort& operator=(const PciePort&) = delete;

  void post(std::uint32_t entries) noexcept override {
    host_.access([&] { host_.driver_.post(entries); });
  }
  void grant(std::uint32_t slots) noexcept override {
    host_.access([&] { host_.driver_.post_slots(slots); });
  }
  bool enter(std::uint32_t entry, const void* at, std::size_t bytes) noexcept override;
  void entered(std::uint32_t entry) noexcept override;
  void left(std::uint32_t entry) noexcept override;
  bool stage(std::uint32_t) noexcept override { return true; }
  void listen(bool) noexcept override {}
  void serve() noexcept override {
    host_.access([&] { host_.driver_.serve(*this); });
  }

 private:
  // Pages of the process that the card reaches.
  struct Mapped {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    std::uint64_t bus = 0;
    std::uint32_t uses = 0;
  };

  torus::Nack key(std::uint16_t domain_of_key, std::uint64_t address, std::uint32_t bytes,
                  torus::RegisteredBuffer& found) override;
  bool page(std::uint16_t domain_of_page, std::uint64_t address, std::uint64_t& bus) override;

  PcieHost& host_;
  const wire::Offsets offsets_;
  const std::uint32_t gets_;
  Pages pages_;  // structures of the port, then the GET ring
  std::uint64_t bus_ = 0;
  wire::DomainMemory table_;
  std::array<Mapped, wire::table_entries> mapped_{};
  std::array<Mapped*, wire::table_entries> entry_{};  // of the table
};

namespace {

std::uint32_t get_entries(const wire::Shape& shape) {
  std::uint32_t entries = 1;
  while (entries < gets_per_port * shape.ports) entries *= 2;
  return entries;
}

}  // namespace

PciePort::PciePort(PcieHost& host)
    : host_(host),
      offsets_(host.shape),
      gets_(get_entries(host.shape)),
      pages_(wire::Offsets::align(offsets_.bytes) + wire::Offsets::align(gets_ * sizeof(torus::GetEntry))) {
  port = host.port_;
  domain = wire::domain_of(port, 0);
  native = true;
  memory = wire::PortMemory(pages_.at(), host.shape);
  table_ = wire::DomainMemory(memory, static_cast<std::uint32_t>(getpid()), offsets_.bytes);
  prepare(memory, host.shape, domain);
  bus_ = host.bus_->map(pages_.at(), pages_.bytes());
  gateware::TorusRings rings;
  rings.put = bus_ + offsets_.ring;
  rings.put_entries = wire::put_entries_count;
  rings.get = bus_ + wire::Offsets::align(offsets_.bytes);
  rings.get_entries = gets_;
  rings.events = bus_ + offsets_.events;
  rings.event_entries = host.shape.events;
  rings.finished = bus_ + offsetof(wire::PortHeader, finished);
  rings.domain = domain;
  rings.slots = wire::file_window + offsets_.slots;
  rings.slot_bytes = wire::slot_bytes;
  rings.slot_count = host.shape.slots;
  try {
    host.driver_.start(rings);
    host.driver_.post_slots(host.shape.slots);
  } catch (...) {
    host.bus_->unmap(pages_.at());
    throw;
  }
  host.attached_ = true;
}

// The reset ends all accesses to the memory, before it is unmapped.
PciePort::~PciePort() {
  host_.access([&] {
    const Nanoseconds end = os::monotonic_now() + link_limit;
    while (!host_.driver_.idle() && os::monotonic_now() < end) host_.driver_.serve(*this);
    host_.driver_.stop();
    host_.driver_.place(host_.lattice, wire::place_of(host_.lattice, port).node);
  });
  for (const Mapped& m : mapped_)
    if (m.uses > 0) host_.bus_->unmap(m.at);
  host_.bus_->unmap(pages_.at());
  host_.attached_ = false;
}

bool PciePort::enter(std::uint32_t entry, const void* at, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uint64_t>(at);
  auto* const begin = reinterpret_cast<std::byte*>(page_of(first));
  const std::size_t size = page_of(first + bytes + page_bytes - 1) - page_of(first);
  Mapped* place = nullptr;
  for (Mapped& m : mapped_) {
    if (m.uses == 0) {
      if (place == nullptr) place = &m;
    } else if (m.at == begin) {
      if (m.bytes < size) return false;  // a mapping ends with its address
      ++m.uses;
      entry_[entry] = &m;
      return true;
    }
  }
  if (place == nullptr) return false;
  try {
    *place = {begin, size, host_.bus_->map(begin, size), 1};
  } catch (const std::exception&) {  // the limit on locked memory
    return false;
  }
  entry_[entry] = place;
  return true;
}

void PciePort::entered(std::uint32_t entry) noexcept {
  const torus::RegisteredBuffer& b = memory.table[entry];
  const std::uint64_t first = page_of(b.address);
  host_.access([&] {
    host_.driver_.enter(b);
    for (std::uint64_t k = 0; k < pages_ahead && first + k * page_bytes < b.address + b.bytes; ++k)
      host_.driver_.enter(domain, first + k * page_bytes, entry_[entry]->bus + k * page_bytes);
  });
}

void PciePort::left(std::uint32_t entry) noexcept {
  Mapped& m = *entry_[entry];
  host_.access([&] { host_.driver_.forget(); });
  if (--m.uses == 0) host_.bus_->unmap(m.at);  // the IOMMU refuses later accesses
}

torus::Nack PciePort::key(std::uint16_t domain_of_key, std::uint64_t address, std::uint32_t bytes,
                          torus::RegisteredBuffer& found) {
  std::uint64_t place = 0;
  if (domain_of_key != domain) return torus::Nack::bad_domain;
  return table_.entry(address, bytes, found, place) ? torus::Nack::none : torus::Nack::out_of_range;
}

bool PciePort::page(std::uint16_t domain_of_page, std::uint64_t address, std::uint64_t& bus) {
  if (domain_of_page != domain) return false;
  if (address >= wire::file_window && address - wire::file_window < offsets_.bytes) {
    bus = bus_ + page_of(address - wire::file_window);
    return true;
  }
  const std::uint32_t used = std::min(acquire(memory.header->table_used), wire::table_entries);
  for (std::uint32_t i = wire::file_entries; i < used; ++i) {
    const torus::RegisteredBuffer& b = memory.table[i];
    if (b.valid == 0 || address + page_bytes <= b.address || address >= b.address + b.bytes) continue;
    bus = entry_[i]->bus + (address - page_of(b.address));
    return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------------- host

PcieHost::PcieHost(std::unique_ptr<gateware::Bus> bus, const torus::Lattice& size,
                   const torus::Coordinates& node)
    : bus_(std::move(bus)), driver_(*bus_), port_(wire::port_of(size, node, 0)) {
  lattice = size;
  shape = wire::Shape::of(size.nodes());
  driver_.place(size, node);
}

std::unique_ptr<Attachment> PcieHost::attach(const Address* wanted, const std::string& /*bell*/,
                                             bool /*direct*/) {
  std::uint32_t port = port_;
  if (wanted != nullptr && (!find(*wanted, port) || port != port_))
    fail(EADDRNOTAVAIL, "the address is not that of the card's port");
  if (attached_) fail(EMFILE, "the torus card has one port: one endpoint per process");
  try {
    const Nanoseconds end = os::monotonic_now() + link_limit;
    while (!driver_.links_up()) {
      if (os::monotonic_now() > end) fail(ENETDOWN, "the links of the torus card are down");
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return std::make_unique<PciePort>(*this);
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    dead_ = true;
    fail(ENETDOWN, error.what());
  }
}

bool PcieHost::alive() const noexcept {
  return access([&] { driver_.links_up(); });
}

PeerState PcieHost::peer(std::uint32_t port) const noexcept {
  return {true, true, wire::domain_of(port, 0), true};
}

namespace {

using Three = std::array<unsigned, 3>;

// Three numbers below `limits`, `mark` between them, nothing else.
bool three(std::string_view text, char mark, const Three& limits, Three& out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (d > 0) {
      if (at == end || *at != mark) return false;
      ++at;
    }
    const auto [next, error] = std::from_chars(at, end, out[d]);
    if (error != std::errc() || out[d] >= limits[d]) return false;
    at = next;
  }
  return at == end;
}

torus::Coordinates bytes_of(const Three& numbers) {
  return {static_cast<std::uint8_t>(numbers[0]), static_cast<std::uint8_t>(numbers[1]),
          static_cast<std::uint8_t>(numbers[2])};
}

}  // namespace

std::unique_ptr<Host> open_pcie(const char* cards, const char* size) {
  Three nodes{}, at{};
  if (size == nullptr || !three(size, 'x', {65, 33, 33}, nodes) || nodes[0] * nodes[1] * nodes[2] == 0 ||
      nodes[0] * nodes[1] * nodes[2] > wire::max_ports)
    fail(EINVAL,
         "FI_NANET_SIZE: the nodes of the torus, such as 4x4x4, at most " + std::to_string(wire::max_ports));
  torus::Lattice lattice;
  lattice.size = bytes_of(nodes);
  std::istringstream list(cards);
  std::string trouble = "no card is named";
  for (std::string card; list >> card;) {
    const std::size_t mark = card.find('@');
    if (mark == std::string::npos || !three(std::string_view(card).substr(mark + 1), ',', nodes, at))
      fail(EINVAL, "FI_NANET_CARDS: " + card + ": name PCI address and node, such as 0000:03:00.0@0,0,0");
    try {
      return std::make_unique<PcieHost>(std::make_unique<gateware::VfioBus>(card.substr(0, mark)), lattice,
                                        bytes_of(at));
    } catch (const std::runtime_error& error) {  // such as the card of another process
      trouble = error.what();
    }
  }
  fail(ENODEV, "FI_NANET_CARDS: no card is free: " + trouble);
}

}  // namespace nanet::fabric::card
