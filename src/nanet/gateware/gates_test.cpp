// SPDX-License-Identifier: Apache-2.0
// Tests of the clock gates of the C++ model. The same traffic with and without gated clocks gives the same
// DMA writes, frames and counters in the same cycles.
#include <nanet_regs.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/gateware/simulated.hpp"

namespace nanet::gateware {
namespace {

using card::Packet;
namespace flag = wire::mgp::flag;

constexpr wire::Endpoint l0tp{0x0A000003, 58914};
constexpr std::uint32_t card_ip = 0x0A000001;
constexpr std::size_t tlb_register = offsetof(nanet_regs_t, tlb);

struct Mode {
  std::string name;
  contract::Gather gather = contract::Gather::frame;
  std::uint32_t devices = 1;
  bool replay = false;
  bool merge = false;
};

// Output of the card, with its cycle.
struct Seen {
  std::uint64_t cycle, where, bytes, digest;
  bool operator==(const Seen&) const = default;
};

std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t h = 0xCBF29CE484222325;
  for (const std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001B3;
  return h;
}

// A simulated card and its response to the traffic of a seed.
class Course {
 public:
  Course(const Mode& mode, bool clock_gates, unsigned seed)
      : random_(seed), merge_(mode.merge), simulation_(clop(mode), 0, transmit_, made(mode, clock_gates)) {
    simulation_.model().on_write = [this](const sim::WriteSeen& w) {
      seen.push_back({w.cycle, w.bus, w.bytes, digest({w.data, w.bytes})});
    };
    const auto to_wire = simulation_.model().on_sent;  // set by the simulation
    simulation_.model().on_sent = [this, to_wire](unsigned channel, std::span<const std::byte> frame,
                                                  std::uint64_t cycle) {
      seen.push_back({cycle, channel, frame.size(), digest(frame)});
      to_wire(channel, frame, cycle);
    };
    traffic();
    end();
  }

  std::vector<Seen> seen;
  std::map<std::string, std::uint64_t> figures;

 private:
  static card::ClopOptions clop(const Mode& mode) {
    card::ClopOptions c;
    c.gather = mode.gather;
    c.packets = 5;
    c.devices = mode.devices;
    c.rules.boards = 0xF;
    c.merge = mode.merge;
    c.segment_bytes = mode.merge ? 8192 : 2048;
    c.buffers = 128;
    c.timeout = 30'000;
    // A merging card translates a frame's pages one by one, after its last packet. Of pages of 4 KiB each
    // misses the TLB: medians here are 5000 cycles from packet to event, 600 without merging.
    c.deadline = mode.replay ? 0 : mode.merge ? 400'000 : 100'000;
    c.burst_silence = 400'000;
    c.destinations = {l0tp};
    return c;
  }
  static SimulationOptions made(const Mode& mode, bool clock_gates) {
    SimulationOptions s;
    s.model.clock_gates = clock_gates;
    s.model.wake_cycles_max = 200;
    s.model.work_cycles = 20;
    s.driver.window_frames = mode.replay ? 16 : 0;
    s.driver.log2_page = 12;
    return s;
  }

  unsigned up_to(unsigned most) { return std::uniform_int_distribution<unsigned>(0, most)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void work(std::uint64_t cycles) {
    simulation_.run(cycles);
    const auto views = simulation_.stream().views();
    next_.resize(views.size());
    contract::Event event;
    for (std::size_t d = 0; d < views.size(); ++d) {
      while (contract::poll_event(views[d], next_[d], event) == contract::Poll::event) {
        contract::release(*views[d].finished, ++next_[d]);
        if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done)) continue;
        if (merge_) {
          contract::FrameHeader header;
          std::memcpy(&header, views[d].buffer(event.buffer), sizeof header);
          figures["merged"] += header.layout == contract::Layout::merged && header.events > 0;
        }
        // Most answers are posted early, some after the deadline.
        const std::uint64_t pause = chance(0.05) ? 20'000 : up_to(800);
        owed_.push_back({simulation_.model().cycle() + pause, d, event});
      }
    }
    std::erase_if(owed_, [&](const Owed& o) {
      if (o.due > simulation_.model().cycle()) return false;
      const contract::View& view = views[o.device];
      const std::uint64_t n = contract::unwrap_counter(o.event.n, newest_);
      newest_ = std::max(newest_, n);
      std::byte* const at = view.send_buffer(o.event.buffer);
      const std::size_t bytes = wire::mtp::encode(at, o.event.frame, nullptr, 0);
      contract::post(view, n, at, static_cast<std::uint32_t>(bytes), 0, o.event.buffer);
      contract::return_buffer(view, n);
      return true;
    });
  }

  void send(std::vector<std::byte> bytes) {
    if (chance(0.02)) return;
    if (chance(0.03)) bytes[up_to(static_cast<unsigned>(bytes.size()) - 1)] ^= std::byte{1};
    if (chance(0.02)) bytes.resize(up_to(static_cast<unsigned>(bytes.size())));
    const unsigned channel = bytes.size() > 1 ? static_cast<unsigned>(bytes[1]) & 1 : 0;
    for (unsigned copies = chance(0.03) ? 2 : 1; copies > 0; --copies) simulation_.datagram(channel, bytes);
    disturb();
    if (chance(0.4)) work(up_to(600));
    if (chance(0.01)) work(25'000);  // all but a few clocks are gated
  }

  // Events other than packets: other frames on the wire, and driver accesses.
  void disturb() {
    Driver& driver = simulation_.driver();
    sim::Model& model = simulation_.model();
    std::vector<std::byte> frame(42 + up_to(80));
    const unsigned channel = up_to(1);
    switch (up_to(60)) {
      case 0: {  // ARP request for the card's address
        const std::uint8_t request[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,  9, 8, 6,
                                        0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0, 0, 9,
                                        10,   0,    0,    9,    0,    0,    0, 0, 0, 0, 10, 0, 0, 1};
        frame.assign(60, std::byte{0});
        std::transform(std::begin(request), std::end(request), frame.begin(),
                       [](std::uint8_t byte) { return std::byte{byte}; });
        model.receive(channel, frame);
        break;
      }
      case 1:  // wrong port, or a frame with an FCS error
        wire::build_udp_frame(frame.data(), {0x0A000002, 1}, {card_ip, 9},
                              {frame.data() + 42, frame.size() - 42});
        model.receive(channel, frame, chance(0.5));
        break;
      case 2:
        model.receive(channel, frame);  // random bytes
        break;
      case 3:
        driver.write(tlb_register, driver.read(tlb_register) | NANET_REGS__TLB__FLUSH_bm);
        break;
      case 4:
        driver.histogram_of(up_to(3));
        break;
      case 5:
        simulation_.read_counters();
        break;
      default:
        break;
    }
  }

  void traffic() {
    for (std::uint8_t burst = 7; burst < 10; ++burst) {
      std::array<Sequence, 4> sequence{};
      for (BoardId b = 0; b < 4; ++b) send(card::build_marker(flag::sob, b, 0, sequence[b]++, burst));
      Frame frame = 0;
      for (unsigned i = 0; i < 40; ++i, frame += chance(0.05) ? 1 + up_to(30) : 1) {
        std::vector<Packet> packets;
        // Times of a second packet begin again: such a frame cannot be merged.
        const unsigned more = merge_ && i % 2 == 0 ? 0 : 1;
        for (BoardId b = 0; b < 4; ++b)
          for (unsigned index = 0, count = 1 + up_to(more); index < count; ++index)
            packets.push_back({.board = b,
                               .frame = frame,
                               .burst = burst,
                               .index = index,
                               .last = index + 1 == count,
                               .sequence = sequence[b]++,
                               .events = up_to(7),
                               .hits = up_to(30)});
        if (chance(0.1)) std::swap(packets.front(), packets.back());
        for (const Packet& p : packets) send(card::build(p, *p.sequence));
      }
      if (burst == 8) work(80'000);  // silence ends this burst
      for (BoardId b = 0; b < 4 && burst != 8; ++b)
        send(card::build_marker(flag::eob, b, frame, sequence[b]++, burst));
    }
  }

  void end() {
    simulation_.drain();
    for (unsigned i = 0; i < 1000 && !simulation_.passed_all(); ++i) work(1000);
    simulation_.read_counters();
    Driver& driver = simulation_.driver();
    figures["passed all"] = simulation_.passed_all();
    figures["cycle"] = simulation_.model().cycle();
    figures["requests of the firmware"] = simulation_.model().firmware_requests();
    for (std::uint32_t at = CounterBank::first; at < CounterBank::last; at += 4)
      figures["register " + std::to_string(at)] = driver.read(at);
    for (unsigned bin = 0; const std::uint32_t count : driver.histogram())
      figures["histogram " + std::to_string(bin++)] = count;
    const card::Counters& c = simulation_.stream().counters();
    figures["failed"] = simulation_.model().failed_requests();
    figures["answered"] = c.frames_answered;
    figures["late"] = c.frames_late;
    figures["incomplete"] = c.frames_incomplete;
    figures["unmerged"] = c.frames_unmerged;
    figures["refused"] = 0;
    for (const auto& b : c.bad) figures["refused"] += b;
    for (const contract::View& view : simulation_.stream().views())
      figures["memory"] += digest({view.clop, view.shape.buffers * view.shape.buffer_bytes()});
  }

  struct Owed {
    std::uint64_t due;
    std::size_t device;
    contract::Event event;
  };
  std::mt19937 random_;
  bool merge_;
  card::FakeTransmit transmit_;
  Simulation simulation_;
  std::vector<std::uint64_t> next_;
  std::vector<Owed> owed_;
  std::uint64_t newest_ = 0;
};

class Gates : public testing::TestWithParam<Mode> {};

TEST_P(Gates, ChangeNothing) {
  const Mode& mode = GetParam();
  const Course with(mode, true, 1), without(mode, false, 1);
  const auto [a, b] =
      std::mismatch(with.seen.begin(), with.seen.end(), without.seen.begin(), without.seen.end());
  EXPECT_EQ(with.seen.size(), without.seen.size());
  if (a != with.seen.end() && b != without.seen.end())
    ADD_FAILURE() << "write or frame " << a - with.seen.begin() << ": " << a->bytes << " bytes in cycle "
                  << a->cycle << ", without gates " << b->bytes << " in cycle " << b->cycle;
  for (const auto& [name, value] : with.figures) EXPECT_EQ(value, without.figures.at(name)) << name;
  // The mixture contains all intended cases.
  const auto& f = with.figures;
  EXPECT_EQ(f.at("passed all"), 1);
  EXPECT_EQ(f.at("failed"), 0);
  EXPECT_GT(f.at("answered"), 60);
  EXPECT_GT(f.at("refused"), 5);
  EXPECT_GT(f.at("incomplete"), 0);
  EXPECT_GT(f.at("requests of the firmware"), 20);
  EXPECT_EQ(f.at("late") > 0, !mode.replay);
  if (mode.merge) {
    EXPECT_GT(f.at("merged"), 20);
    EXPECT_GT(f.at("unmerged"), 20);
  } else {
    EXPECT_EQ(f.at("unmerged"), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Gates,
                         testing::Values(Mode{"frame_live"},
                                         Mode{"frame_replay", contract::Gather::frame, 4, true},
                                         Mode{"merge_live", contract::Gather::frame, 2, false, true},
                                         Mode{"packets_live", contract::Gather::packets, 4},
                                         Mode{"packets_replay", contract::Gather::packets, 1, true}),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace nanet::gateware
