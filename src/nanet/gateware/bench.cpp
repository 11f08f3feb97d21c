// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/bench.hpp"

#include <nanet_regs.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/gateware/simulated.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"
#include "nanet/wire/mtp.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::gateware {
namespace {

constexpr std::uint32_t most_packets_of_frame = 16, segment_bytes = 65472, buffers = 512;
constexpr std::size_t mgp_header = 16, event_bytes = 72;
constexpr std::uint64_t idle_cycles = 1500, patience = 2'000'000;

class Nowhere final : public card::Transmit {
 public:
  std::size_t send(std::span<const card::Datagram> batch) noexcept override { return batch.size(); }
  std::uint32_t destinations() const noexcept override { return 1; }
};

double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Simulated card with boards that send on request and a consumer that answers header-only at once.
class Rig {
 public:
  explicit Rig(const CardBenchOptions& options)
      : options_(options), simulation_(clop(options), 0, nowhere_, made(options)) {
    if (options.merge) return;
    if (options.frame_bytes < 64 || options.frame_bytes > 9018 || options.channels < 1 ||
        options.channels > sim::Model::channels())
      throw std::invalid_argument("frames must have 64 to 9018 bytes, and channels must exist on the card");
    payload_ = options.frame_bytes - 46;  // headers and FCS
    per_frame_ = std::min(most_packets_of_frame, segment_bytes / ((payload_ + 15) / 16 * 16));
    for (unsigned board = 0; board < options.channels; ++board) send(board, 0, 0, 0, 0, wire::mgp::flag::sob);
    settle();
  }
  Simulation& simulation() { return simulation_; }
  std::uint32_t payload() const { return payload_; }
  std::uint32_t per_frame() const { return per_frame_; }

  // A valid packet of this size: events in fixed slots without hits, then padding.
  void send(unsigned board, Frame frame, unsigned index, bool last, std::uint32_t sequence,
            std::uint8_t flags = 0) {
    const std::size_t bytes = flags ? mgp_header : payload_;
    const auto events =
        static_cast<unsigned>(std::min<std::size_t>(flags ? 0 : (bytes - mgp_header) / event_bytes, 255));
    const std::size_t length = mgp_header + events * event_bytes;
    packet_.assign(bytes, std::byte{0});
    const auto byte = [&](std::size_t at, std::uint64_t value, unsigned count) {
      for (unsigned i = 0; i < count; ++i) packet_[at + i] = static_cast<std::byte>(value >> 8 * i);
    };
    using namespace wire::mgp;
    byte(0, rich_source, 1);
    byte(1, options_.channels == 1 ? merged_board : board, 1);
    byte(2, 1, 1);
    byte(3, flags | (flags ? 0u : 0x10u) | (last ? 0x20u : 0u) | (length < bytes ? 0x40u : 0u), 1);
    byte(4, length, 2);
    byte(6, events, 1);
    byte(7, index, 1);
    byte(8, sequence, 4);
    byte(12, frame, 3);
    for (unsigned e = 0; e < events; ++e) {
      byte(mgp_header + e * event_bytes, std::uint64_t{frame} << 8 | (e & 0xFF), 4);
      for (unsigned hit = 0; hit < 32; ++hit) byte(mgp_header + e * event_bytes + 8 + 2 * hit, 0xFFFF, 2);
    }
    simulation_.datagram(board, packet_);
  }
  // Simulates until all packets are answered.
  void settle() {
    for (std::uint64_t done = 0; done < patience; done += 500) {
      work(500);
      if (simulation_.idle() && simulation_.out() == 0 && simulation_.waiting() == 0) return;
    }
    throw std::runtime_error("timeout: the simulated card does not become idle");
  }
  void work(std::uint64_t cycles) {
    simulation_.run(cycles);
    const contract::View& view = simulation_.stream().view();
    contract::Event event;
    while (contract::poll_event(view, next_, event) == contract::Poll::event) {
      contract::release(*view.finished, ++next_);
      if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done)) continue;
      const std::uint64_t n = contract::unwrap_counter(event.n, n_);
      n_ = n;
      std::byte* const at = view.send_buffer(event.buffer);
      const std::size_t bytes = wire::mtp::encode(at, event.frame, nullptr, 0, 0, rich_source);
      contract::post(view, n, at, static_cast<std::uint32_t>(bytes), 0, event.buffer);
      contract::return_buffer(view, n);
    }
    simulation_.run(1);
  }

 private:
  static card::ClopOptions clop(const CardBenchOptions& options) {
    card::ClopOptions c;
    c.rules.boards = static_cast<std::uint8_t>(options.channels == 1 ? 0 : (1u << options.channels) - 1);
    c.rules.max_payload = 8972;  // payload of the longest frame
    c.segment_bytes = segment_bytes;
    c.buffers = buffers;
    c.timeout = c.burst_silence = 1'000'000'000;
    c.deadline = 0;
    if (options.merge) {
      c.merge = true;
      c.rules = {};
      c.segment_bytes = card::ClopOptions{}.segment_bytes;
    }
    c.destinations = {{0x0A000003, 58914}};
    return c;
  }
  static SimulationOptions made(const CardBenchOptions& options) {
    SimulationOptions s;
    s.model.cycles_per_word = options.cycles_per_word;
    s.model.wake_cycles_min = options.wake_cycles_min;
    s.model.wake_cycles_max = options.wake_cycles_max;
    s.model.work_cycles = options.work_cycles;
    s.model.seed = options.seed;
    return s;
  }

  CardBenchOptions options_;
  Nowhere nowhere_;
  Simulation simulation_;
  std::vector<std::byte> packet_;
  std::uint32_t payload_ = 0, per_frame_ = 1;
  std::uint64_t next_ = 0, n_ = 0;
};

}  // namespace

PacketTimes packet_times(const CardBenchOptions& options) {
  Rig rig(options);
  sim::Model& model = rig.simulation().model();
  Driver& driver = rig.simulation().driver();
  PacketTimes times;
  std::uint64_t received = 0, event = 0;
  model.on_received = [&](unsigned, std::uint64_t cycle) { received = cycle; };
  model.on_write = [&](const sim::WriteSeen& write) {
    if (write.bytes == sizeof(contract::Event) &&
        write.data[0] == static_cast<std::byte>(contract::EventType::receive_done))
      event = write.cycle;
  };
  // Warm-up: one packet to each buffer, so that every page is translated.
  const std::uint32_t warm = buffers;
  for (std::uint32_t i = 0; i < warm + options.packets; ++i) {
    if (options.by_firmware)
      driver.write(offsetof(nanet_regs_t, tlb),
                   driver.read(offsetof(nanet_regs_t, tlb)) | NANET_REGS__TLB__FLUSH_bm);
    rig.send(0, i, 0, true, i + 1);
    event = 0;
    for (std::uint64_t done = 0; done < patience && !(event && rig.simulation().out() == 0); done += 100)
      rig.work(i < warm ? 100 : 250);
    if (i < warm) continue;
    rig.work(idle_cycles);
    const std::size_t profile = offsetof(nanet_regs_t, profile);
    const std::uint32_t start = driver.read(profile + offsetof(profile_t_t, start));
    times.event.push_back(static_cast<std::uint32_t>(event - received));
    times.controller.push_back(driver.read(profile + offsetof(profile_t_t, controller)) - start);
    times.placed.push_back(driver.read(profile + offsetof(profile_t_t, placed)) - start);
    times.written.push_back(driver.read(profile + offsetof(profile_t_t, written)) - start);
  }
  model.on_received = nullptr;
  model.on_write = nullptr;
  return times;
}

LineRate line_rate(const CardBenchOptions& options) {
  Rig rig(options);
  sim::Model& model = rig.simulation().model();
  LineRate out;
  std::uint64_t last = 0;
  model.on_received = [&](unsigned, std::uint64_t cycle) { last = cycle; };
  // All packets queue at the wire, so that nothing delays them.
  model.hold(true);
  std::uint32_t sent = 0;
  std::vector<std::uint32_t> sequence(options.channels, 0);
  for (Frame frame = 0; sent < options.packets; ++frame)
    for (unsigned index = 0; index < rig.per_frame(); ++index, ++sent)
      for (unsigned board = 0; board < options.channels; ++board)
        rig.send(board, frame, index, index + 1 == rig.per_frame(), ++sequence[board]);
  const std::uint64_t first = model.cycle();
  const double cpu = cpu_now();
  model.hold(false);
  rig.settle();
  out.cpu_s = cpu_now() - cpu;
  out.simulated = model.cycle() - first;
  out.cycles = last - first + 3 * model.options().cycles_per_word;  // FCS, and the gap behind the last frame
  rig.simulation().read_counters();
  const card::Counters& counters = rig.simulation().stream().counters();
  out.packets = std::uint64_t{sent} * options.channels;
  out.used = counters.packets_used;
  out.lost = counters.lost[static_cast<std::size_t>(card::Lost::socket_overflow)] +
             counters.lost[static_cast<std::size_t>(card::Lost::overrun)];
  out.bytes = out.packets * rig.payload();
  model.on_received = nullptr;
  return out;
}

MergeTimes merge_times(const std::string& pcap) {
  constexpr std::uint64_t frame_cycles = 998;  // of a frame time at 156.25 MHz
  constexpr Frame warm_up = buffers;           // frames, so that every page is translated
  CardBenchOptions options;
  options.merge = true;
  options.channels = 2;
  Rig rig(options);
  sim::Model& model = rig.simulation().model();
  MergeTimes times;
  std::vector<std::uint64_t> received;
  model.on_received = [&](unsigned, std::uint64_t cycle) {
    if (!received.empty()) received.back() = cycle;
  };
  model.on_write = [&](const sim::WriteSeen& write) {
    contract::Event event;
    if (write.bytes != sizeof event ||
        write.data[0] != static_cast<std::byte>(contract::EventType::receive_done))
      return;
    std::memcpy(&event, write.data, sizeof event);
    if (event.n != event.frame) return;  // a row that resembles an event
    if (event.frame >= warm_up && event.frame < received.size())
      times.event.push_back(static_cast<std::uint32_t>(write.cycle - received[event.frame]));
  };
  wire::PcapReader reader(pcap);
  wire::PcapRecord record;
  while (reader.next(record)) {
    const wire::UdpFrame parsed =
        wire::parse_udp_frame(record.frame, record.original, wire::mgp::default_port);
    if (parsed.reason != wire::NotMgp::none || parsed.payload.size() < wire::mgp::header_bytes) continue;
    const wire::mgp::Header header = wire::mgp::decode_header(parsed.payload.data());
    const bool marker = header.has(wire::mgp::flag::sob) || header.has(wire::mgp::flag::eob);
    times.packets += !marker;
    while (!marker && received.size() <= header.frame) {
      if (!received.empty()) rig.work(frame_cycles - 1);  // work() adds a cycle
      received.push_back(model.cycle());
    }
    if (header.has(wire::mgp::flag::eob)) rig.settle();
    rig.simulation().datagram(header.board % 2u, parsed.payload);
    if (header.has(wire::mgp::flag::sob)) rig.settle();
  }
  rig.settle();
  rig.simulation().read_counters();
  const card::Counters& counters = rig.simulation().stream().counters();
  times.frames = counters.frames_in;
  times.unmerged = counters.frames_unmerged;
  times.used = counters.packets_used;
  model.on_received = nullptr;
  model.on_write = nullptr;
  return times;
}

}  // namespace nanet::gateware
