// SPDX-License-Identifier: SHL-2.1
// Verilated torus cards (registers, network interface, router, reliable links) for the ports of another
// process: `nanet torus serve --engine rtl`. One verilated class, one instance per node.
//
//     torus_cards X Y Z CONTROL
//
// CONTROL: control file of the torus; port k, a file named after it, belongs to node k. The program plays the
// hosts of the cards: DMA to the ports' files and to the memory of their processes, doorbells, keys,
// translations. Standard input, u32 words: 1 port domain pid (attach), 2 port (detach), 3 cycles (run, at
// most), 4 port (drained?). Answers on standard output: run: u32 under way, u64 cycle; drained: u32. The
// first answer, as of run, follows the training of the links. Integers in the order of the host. Ends with
// its input; exit status 1 after an overflow of a buffer, a lost packet or a port's missing file.
#include <fcntl.h>
#include <unistd.h>
#include <verilated.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vdut.h"
#include "torus_host.hpp"

namespace {

namespace card = nanet::torus::card;
using nanet::contract::acquire;
using nanet::gateware::TorusDriver;
using nanet::sim::bus_of;
using nanet::sim::Region;
using nanet::torus::Word;

constexpr unsigned kLinks = 6;
constexpr std::uint64_t kTraining = 4000;  // cycles in which all links must come up
// Longer than any step of a card without a packet, a DMA request or a miss.
constexpr std::uint64_t kQuiet = 512;
constexpr std::uint32_t kTimeout = 64;  // of messages, once the network is quiet
constexpr std::uint32_t kGetsPerPort = 4;

// Ports as registers of one card: accesses in order, one at a time.
class SimBus final : public nanet::gateware::Bus {
 public:
  struct Access {
    bool write;
    std::uint32_t address, value;
  };

  std::uint32_t read(std::uint32_t address) override {
    accesses.push_back({false, address, 0});
    while (!accesses.empty()) advance();
    return value;
  }
  void write(std::uint32_t address, std::uint32_t data) override {
    accesses.push_back({true, address, data});
  }
  std::uint64_t map(std::byte*, std::size_t) override { return 0; }
  std::vector<std::uint64_t> map_pages(std::byte*, std::size_t, std::size_t) override { return {}; }
  void unmap(std::byte*) noexcept override {}

  std::function<void()> advance;  // one cycle of all cards
  std::deque<Access> accesses;
  std::uint32_t value = 0;
};

// Packet that leaves the network.
struct Passing {
  std::uint32_t words = 0;
  bool answer = false;
};

struct Card {
  std::unique_ptr<Vdut> dut;
  std::unique_ptr<nanet::sim::NodeMemory> memory;
  std::unique_ptr<nanet::sim::DmaEngine> dma;
  SimBus bus;
  std::unique_ptr<TorusDriver> driver;
  std::unique_ptr<nanet::sim::PortHost> port;
  std::array<unsigned, kLinks> neighbour{};
  std::array<Passing, 2> out;    // by VC
  std::uint32_t on_the_way = 0;  // packets of this node
  bool requested = false, timing_out = false;
  std::uint32_t unexpected = 0, events_lost = 0;
  std::array<std::uint32_t, nanet::torus::nack_reasons> refused{};
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "torus_cards: %s\n", what);
  std::exit(1);
}

void read_all(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(STDIN_FILENO, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::exit(0);
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void write_all(const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = write(STDOUT_FILENO, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) std::exit(0);
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

std::uint32_t take() {
  std::uint32_t value = 0;
  read_all(&value, sizeof value);
  return value;
}

nanet::os::Fd open_file(const std::string& path) {
  nanet::os::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail((path + ": cannot be opened").c_str());
  return file;
}

template <class Port>
Word word_of(const Port& data) {
  return {data[0] | std::uint64_t{data[1]} << 32, data[2] | std::uint64_t{data[3]} << 32};
}

class Torus {
 public:
  Torus(nanet::torus::Lattice lattice, const std::string& control)
      : lattice_(lattice),
        path_(control),
        control_(open_file(control).get(), sizeof(card::Control)),
        totals_(reinterpret_cast<card::Control*>(control_.at())->totals),
        shape_(card::Shape::of(lattice.nodes())),
        cards_(lattice.nodes()),
        sent_(cards_.size() * cards_.size() * 2),
        out_(cards_.size()) {
    std::uint32_t gets = 1;
    while (gets < kGetsPerPort * shape_.ports) gets *= 2;
    for (std::uint32_t n = 0; n < cards_.size(); ++n) {
      Card& c = cards_[n];
      for (unsigned port = 0; port < kLinks; ++port)
        c.neighbour[port] = lattice_.index(lattice_.neighbour(lattice_.at(n), port));
      c.memory = std::make_unique<nanet::sim::NodeMemory>(totals_);
      c.memory->gets.resize(gets);
      c.dma = std::make_unique<nanet::sim::DmaEngine>(*c.memory);
      c.bus.advance = [this] { cycle(); };
      c.dut = std::make_unique<Vdut>(&context_);
      c.dut->rst = 1;
    }
    for (int i = 0; i < 8; ++i) cycle();
    for (Card& c : cards_) c.dut->rst = 0;
    for (std::uint32_t n = 0; n < cards_.size(); ++n) {
      Card& c = cards_[n];
      c.driver = std::make_unique<TorusDriver>(c.bus);
      c.driver->place(lattice_, lattice_.at(n));
    }
    for (Card& c : cards_)
      while (!c.driver->links_up())
        if (now_ > kTraining * cards_.size()) fail("links do not come up");
    now_ = 0;
    active_ = 0;
    trained_ = true;
  }

  std::uint64_t now() const { return now_; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(cards_.size()); }

  void attach(std::uint32_t port, std::uint32_t domain, std::uint32_t pid) {
    Card& c = cards_.at(port);
    const nanet::os::Fd file = open_file(card::port_file(path_, port));
    const card::Offsets offsets(shape_);
    c.port = std::make_unique<nanet::sim::PortHost>(port, static_cast<std::uint16_t>(domain), pid,
                                                    card::Mapping(file.get(), offsets.bytes), shape_);
    c.memory->port = c.port.get();
    nanet::gateware::TorusRings rings;
    rings.put = bus_of(Region::file, offsets.ring);
    rings.put_entries = card::put_entries_count;
    rings.get = bus_of(Region::get_ring, 0);
    rings.get_entries = static_cast<std::uint32_t>(c.memory->gets.size());
    rings.events = bus_of(Region::file, offsets.events);
    rings.event_entries = shape_.events;
    rings.finished = bus_of(Region::file, offsetof(card::PortHeader, finished));
    rings.domain = static_cast<std::uint16_t>(domain);
    rings.slots = card::file_window + offsets.slots;
    rings.slot_bytes = card::slot_bytes;
    rings.slot_count = shape_.slots;
    c.driver->start(rings);
  }

  void detach(std::uint32_t port) {
    Card& c = cards_.at(port);
    c.driver->stop();
    finish(c);
    c.memory->port = nullptr;
    c.port.reset();
  }

  // Everything posted is sent and delivered.
  bool drained(std::uint32_t port) {
    Card& c = cards_.at(port);
    if (!c.port || acquire(c.port->memory.header->doorbell) != c.port->doorbell || !c.bus.accesses.empty())
      return false;
    return c.dut->sent && c.on_the_way == 0;
  }

  // False: nothing is under way.
  bool run(std::uint64_t cycles) {
    bool any = false;
    for (const std::uint64_t end = now_ + cycles; now_ < end;) {
      host();
      if (now_ - active_ >= kQuiet && !time_out()) return any;
      any = true;
      cycle();
    }
    return any;
  }

 private:
  struct Out {
    unsigned valid = 0, control = 0;
    std::array<std::array<std::uint32_t, 4>, kLinks> data{};
  };

  // The hosts' part: doorbells, slots, keys, translations.
  void host() {
    for (Card& c : cards_) {
      if (c.timing_out && !c.dut->waits) {
        c.timing_out = false;
        c.driver->time_out(0);
      }
      if (c.port && !c.timing_out && c.bus.accesses.empty()) {
        nanet::sim::PortHost& p = *c.port;
        const card::PortHeader& h = *p.memory.header;
        // Slots before the doorbell of what they answer.
        if (const std::uint32_t posted = acquire(h.posted); posted != p.slots)
          c.driver->post_slots(p.slots = posted);
        if (const std::uint32_t revoked = acquire(h.revoked); revoked != p.revoked) {
          p.revoked = revoked;
          c.driver->forget();
        }
        if (const std::uint32_t doorbell = acquire(h.doorbell); doorbell != p.doorbell)
          c.driver->post(p.doorbell = doorbell);
      }
      if (c.dut->miss) c.driver->serve(*c.memory);
      if (!c.bus.accesses.empty()) active_ = now_;
    }
  }

  // The network is quiet: what still waits for an answer has timed out. False: nothing waits.
  bool time_out() {
    bool any = false;
    for (Card& c : cards_) {
      if (c.dut->waits && !c.timing_out) {
        c.timing_out = true;
        c.driver->time_out(kTimeout);
      }
      any |= c.timing_out || !c.bus.accesses.empty();
    }
    return any;
  }

  void finish(Card& c) {
    while (!c.bus.accesses.empty()) cycle();
  }

  void drive(Card& c) {
    Vdut& d = *c.dut;
    unsigned valid = 0, control = 0;
    for (unsigned port = 0; port < kLinks; ++port) {
      const Out& from = out_[c.neighbour[port]];
      const unsigned there = (port + 3) % 6;
      if (!(from.valid >> there & 1)) continue;
      valid |= 1U << port;
      control |= (from.control >> there & 1) << port;
      for (int i = 0; i < 4; ++i) d.rx_data[port][i] = from.data[there][i];
    }
    d.rx_valid = static_cast<unsigned char>(valid);
    d.rx_control = static_cast<unsigned char>(control);
    d.reg_request = !c.bus.accesses.empty() && !c.requested;
    if (d.reg_request) {
      const SimBus::Access& a = c.bus.accesses.front();
      d.reg_write = a.write;
      d.reg_address = a.address;
      d.reg_wdata = a.value;
    }
    c.requested = false;
    c.dma->drive(d, now_);
  }

  void sample(Card& c, std::uint32_t n) {
    const Vdut& d = *c.dut;
    if (d.reg_request && d.reg_acknowledge) {
      c.bus.value = d.reg_rdata;
      c.bus.accesses.pop_front();
      c.requested = true;  // one cycle without a request
    }
    c.dma->sample(d, now_);
    if (c.dma->busy()) active_ = now_;
    if (d.into_valid) enter(c, n);
    if (d.out_valid) leave(c, n);
    if (!trained_) return;
    if (d.overflow) fail("an input buffer has overflowed");
    if (d.lost != 0) fail("a link has lost a packet");
  }

  // A word of the node's network interface.
  void enter(Card& c, std::uint32_t n) {
    const Vdut& d = *c.dut;
    active_ = now_;
    if (!(d.into_word[4] >> 1 & 1)) return;
    const auto h = nanet::torus::decode_header(word_of(d.into_word));
    sent_[index(n, lattice_.index(coordinates(h.to)), answer(h.type))].push_back(now_);
    ++c.on_the_way;
  }

  // A word to the node's network interface.
  void leave(Card& c, std::uint32_t n) {
    const Vdut& d = *c.dut;
    active_ = now_;
    Passing& p = c.out[d.out_vc];
    if (d.out_word[4] >> 1 & 1) {
      p.words = 0;
      p.answer = answer(nanet::torus::decode_header(word_of(d.out_word)).type);
    }
    ++p.words;
    if ((d.out_word[4] & 1) == 0) return;
    const auto source = nanet::torus::decode_footer(word_of(d.out_word)).source;
    const std::uint32_t from = lattice_.index(coordinates(source));
    if (from >= cards_.size()) fail("a footer with a wrong source");
    auto& sent = sent_[index(from, n, p.answer)];
    if (sent.empty()) fail("a packet that was not sent");
    const std::uint64_t cycles = now_ - sent.front();
    sent.pop_front();
    --cards_[from].on_the_way;
    ++totals_.packets;
    totals_.words += p.words;
    totals_.hops += nanet::torus::hops(lattice_, lattice_.at(from), lattice_.at(n));
    totals_.cycles += cycles;
    totals_.max_cycles = std::max(totals_.max_cycles, cycles);
  }

  // Packets of one class keep their order between two nodes.
  static bool answer(std::uint8_t type) {
    const auto t = static_cast<nanet::torus::PacketType>(type);
    return t == nanet::torus::PacketType::get_data || t == nanet::torus::PacketType::done ||
           t == nanet::torus::PacketType::nack;
  }
  std::size_t index(std::uint32_t from, std::uint32_t to, bool is_answer) const {
    return (std::size_t{from} * cards_.size() + to) * 2 + is_answer;
  }

  void cycle() {
    for (std::size_t n = 0; n < cards_.size(); ++n) {
      const Vdut& d = *cards_[n].dut;
      Out& o = out_[n];
      o.valid = d.tx_valid;
      o.control = d.tx_control;
      for (unsigned port = 0; port < kLinks; ++port)
        if (o.valid >> port & 1)
          for (int i = 0; i < 4; ++i) o.data[port][i] = d.tx_data[port][i];
    }
    for (std::uint32_t n = 0; n < cards_.size(); ++n) {
      Card& c = cards_[n];
      drive(c);
      c.dut->clk = 0;
      c.dut->eval();
      if (c.dut->rst == 0) sample(c, n);
      c.dut->clk = 1;
      c.dut->eval();
    }
    ++now_;
    if (trained_) count();
  }

  // Differences of the cards' counters.
  void count() {
    for (Card& c : cards_) {
      const Vdut& d = *c.dut;
      for (std::size_t k = 1; k < c.refused.size(); ++k) {
        totals_.refused[k] += d.refused[k] - c.refused[k];
        c.refused[k] = d.refused[k];
      }
      totals_.unexpected += d.unexpected - c.unexpected;
      c.unexpected = d.unexpected;
      totals_.events_lost += d.events_lost - c.events_lost;
      c.events_lost = d.events_lost;
    }
  }

  const nanet::torus::Lattice lattice_;
  const std::string path_;
  card::Mapping control_;
  card::Totals& totals_;
  const card::Shape shape_;
  VerilatedContext context_;
  std::vector<Card> cards_;
  std::vector<std::deque<std::uint64_t>> sent_;  // packets under way: cycles of their headers
  std::vector<Out> out_;                         // link outputs of all cards in a cycle
  std::uint64_t now_ = 0, active_ = 0;
  bool trained_ = false;
};

void answer(std::uint32_t under_way, std::uint64_t now) {
  std::array<char, sizeof under_way + sizeof now> out;
  std::memcpy(out.data(), &under_way, sizeof under_way);
  std::memcpy(out.data() + sizeof under_way, &now, sizeof now);
  write_all(out.data(), out.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) fail("arguments: X Y Z CONTROL");
  nanet::torus::Lattice lattice;
  for (int d = 0; d < 3; ++d) lattice.size[d] = static_cast<std::uint8_t>(std::atoi(arguments[1 + d]));
  try {
    Torus torus(lattice, arguments[4]);
    answer(0, torus.now());  // the links are up
    for (;;) {
      const std::uint32_t command = take(), value = take();
      if (command != 3 && value >= torus.nodes()) fail("no such port");
      if (command == 1) {
        const std::uint32_t domain = take(), pid = take();
        torus.attach(value, domain, pid);
      } else if (command == 2) {
        torus.detach(value);
      } else if (command == 3) {
        const bool under_way = torus.run(value);
        answer(under_way, torus.now());
      } else if (command == 4) {
        const std::uint32_t drained = torus.drained(value);
        write_all(&drained, sizeof drained);
      } else {
        fail("no such command");
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}
