// SPDX-License-Identifier: Apache-2.0
// Fuzz target for the network interfaces of a torus job: any packet from the network and any descriptor of a
// process change registered memory with the right, receive slots and events, and nothing else.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "nanet/torus/card/interface.hpp"

namespace {

using namespace nanet::torus;
using namespace nanet::torus::card;

constexpr std::uint16_t domains[2] = {1024, 1025};  // epoch 1 of ports 0 and 1
constexpr std::size_t guard = 256, window_bytes = 8192;
constexpr std::byte canary{0xA5};

void require(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(sizeof value, data_.size());
    std::memcpy(&value, data_.data(), n);
    data_ = data_.subspan(n);
    return value;
  }

 private:
  std::span<const std::uint8_t> data_;
};

ModelOptions options() {
  ModelOptions o;
  o.lattice.size = {2, 1, 1};
  return o;
}

const Shape shape = Shape::of(2);

// The network, which each input leaves empty.
Carrier& network() {
  static Model model(options());
  static Carrier carrier(model, options().lattice);
  return carrier;
}

// A port's file and registered memory: a readable and a writable buffer between guards. Kept between inputs,
// which read nothing of what earlier ones wrote.
struct Side {
  std::vector<std::byte> buffers = std::vector<std::byte>(2 * window_bytes + 3 * guard, canary);
  std::vector<std::byte> file = std::vector<std::byte>(Offsets(shape).bytes + 64);
  PortMemory memory;
  std::uint32_t posted = 0;

  Side() {
    void* at = file.data();
    std::size_t room = file.size();
    memory = PortMemory(static_cast<std::byte*>(std::align(64, Offsets(shape).bytes, at, room)), shape);
    enter(0, guard, right::remote_read);
    enter(1, 2 * guard + window_bytes, right::remote_write);
  }
  void enter(unsigned entry, std::size_t at, std::uint8_t rights) const {
    RegisteredBuffer& b = memory.table[entry];
    memory.places[entry] = reinterpret_cast<std::uint64_t>(buffers.data() + at);
    b.address = std::uint64_t{entry + 1} << 20;
    b.bytes = window_bytes;
    b.rights = rights;
    b.valid = 1;
  }
  void reset() {
    for (std::uint32_t i = 0; i < posted; ++i) memory.ring[i] = {};
    posted = 0;
    *memory.header = {};
    memory.header->table_used = 2;
    memory.header->posted = 4;
  }
};

// Two ports on neighbouring nodes of a ring.
class Job {
 public:
  Job() {
    static Side sides[2];
    side_ = sides;
    for (unsigned k = 0; k < 2; ++k) {
      side_[k].reset();
      const PortMemory& memory = side_[k].memory;
      interfaces_.attach(k, domains[k], memory,
                         DomainMemory(memory, static_cast<std::uint32_t>(getpid()), Offsets(shape).bytes));
    }
  }

  void step(Input& input) {
    const auto what = input.take<std::uint8_t>();
    const unsigned side = what >> 7;
    switch (what & 7) {
      case 0:
      case 1:
      case 2:
        packet(side, what, input);
        break;
      case 3:
      case 4:
      case 5:
        descriptor(side, what, input);
        break;
      case 6:
        side_[side].memory.header->posted += what >> 3 & 15;
        break;
      default:
        if ((what & 64) != 0) interfaces_.quiet();
        run();
    }
  }

  void run() {
    std::vector<Arrival> arrivals;
    bool any = true;
    for (unsigned round = 0; any && round < 1000; ++round) {
      any = interfaces_.transmit();
      arrivals.clear();
      any |= network().step(4096, arrivals);
      for (const Arrival& a : arrivals) interfaces_.receive(a);
      any |= !arrivals.empty();
    }
    require(!any);
    for (const Side& s : std::span<const Side>(side_, 2))
      for (const std::size_t at : {std::size_t{0}, guard + window_bytes, 2 * (guard + window_bytes)})
        require(std::all_of(s.buffers.begin() + static_cast<std::ptrdiff_t>(at),
                            s.buffers.begin() + static_cast<std::ptrdiff_t>(at + guard),
                            [](std::byte b) { return b == canary; }));
  }

 private:
  // Bit 3: as it comes; otherwise fields that most packets would fail on are made right.
  void packet(unsigned side, unsigned what, Input& input) {
    Word header = input.take<Word>(), footer = input.take<Word>();
    Header h = decode_header(header);
    if ((what & 8) == 0) {
      h.to = {static_cast<std::uint8_t>(side), 0, 0};
      h.intra = 0;
      h.out_of_lattice = false;
      h.type %= packet_types + 1;
      h.channel = domains[side];
      h.address = ((h.address & 1) + 1) << 20 | (h.address >> 1 & 0x3FFF);
      header = encode_header(h);
    }
    std::array<Word, max_payload_bytes / word_bytes> payload{};
    // Length fields have 14 bits; a carrier has room for the largest payload.
    const std::size_t words = std::min(h.payload_words(), payload.size());
    for (std::size_t i = 0; i < words && !input.empty(); ++i) payload[i] = input.take<Word>();
    const std::span<const Word> content(payload.data(), words);
    if ((what & 16) == 0) {
      Footer f = decode_footer(footer);
      if ((what & 32) == 0) f.source = {static_cast<std::uint8_t>(1 - side), 0, 0};
      footer = sealed_footer(header, content, f);
    }
    interfaces_.receive(side, header, content, footer);
  }

  void descriptor(unsigned side, unsigned what, Input& input) {
    Side& s = side_[side];
    auto d = input.take<PutDescriptor>();
    if ((what & 8) == 0) {
      d.type = std::array<std::uint8_t, 4>{1, 3, 5, 13}[d.type & 3];
      d.node = Node{static_cast<std::uint8_t>(1 - side), 0, 0}.packed();
      d.port = 0;
      d.local_domain = domains[side];
      d.remote_domain = domains[1 - side];
      d.bytes &= 0x3FFF;
      d.local_address = ((d.local_address & 1) + 1) << 20 | (d.local_address >> 1 & 0xFFF);
      d.remote_address = ((d.remote_address & 1) + 1) << 20 | (d.remote_address >> 1 & 0xFFF);
    }
    // Messages of some GB are legal and would only take time.
    d.bytes = std::min<std::uint32_t>(d.bytes, 1u << 20);
    d.lap = s.posted / put_entries_count + 1;
    s.memory.ring[s.posted % put_entries_count] = d;
    s.memory.header->doorbell = ++s.posted;
  }

  Side* side_ = nullptr;
  Totals totals_;
  Interfaces interfaces_{network(), options().lattice, shape, totals_};
};

}  // namespace

// A script: a byte for each step, then what the step takes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Job job;
  Input input({data, size});
  for (unsigned steps = 0; !input.empty() && steps < 64; ++steps) job.step(input);
  job.run();
  return 0;
}
