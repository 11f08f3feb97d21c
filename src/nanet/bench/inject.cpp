// SPDX-License-Identifier: Apache-2.0
#include "nanet/bench/inject.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "nanet/card/xdp/bpf.hpp"
#include "nanet/card/xdp/neighbours.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::bench {
namespace {

namespace mgp = wire::mgp;
using card::xdp::Assembler;

// Constants that the headers of older systems lack.
constexpr std::int32_t store_bytes = 190;       // BPF_FUNC_xdp_store_bytes
constexpr std::uint32_t live_frames = 1U << 1;  // BPF_F_TEST_XDP_LIVE_FRAMES

constexpr unsigned boards = 4, events = 16;
constexpr std::size_t payload_bytes = mgp::header_bytes + events * mgp::fixed_event_bytes;
constexpr std::size_t udp_at = 34, udp_bytes = 8 + payload_bytes;
constexpr std::uint16_t first_source_port = 4000;
constexpr std::uint32_t frames_per_call = 200'000;  // some milliseconds, dropped ones included

// Value of the program's map.
struct Template {
  std::uint64_t sum;  // of the UDP datagram with sequence and frame 0, without complement
  std::array<std::byte, udp_bytes> udp;
};
struct alignas(64) State {
  std::uint64_t due, interval_ns, count;
};
constexpr unsigned slot_shift = 11;  // a template per 2048 bytes
constexpr std::size_t state_bytes = sizeof(State) + (std::size_t{boards} << slot_shift);
static_assert(sizeof(Template) <= 1U << slot_shift);

// Program that fills a frame from the template of the next board and redirects it, at the set rate.
Assembler assemble(int map, unsigned interface, bool checksum) {
  enum Label : Assembler::Label { drop, behind, paced };
  constexpr unsigned context = 6, state = 7, count = 8, from = 9, frame = 4, sequence = 5;
  constexpr auto udp = static_cast<std::int16_t>(sizeof(State) + offsetof(Template, udp));
  constexpr std::int16_t header = udp + 8;
  Assembler a;
  a.mov(context, 1);
  a.load_map_value(state, map);
  a.call(BPF_FUNC_ktime_get_ns);
  a.load(BPF_DW, 1, state, offsetof(State, due));
  a.jump_greater(1, 0, drop);
  a.mov(3, 0);
  a.operate(BPF_SUB, 3, 1);
  a.mov_value(2, 1'000'000);  // a longer delay is not made up for
  a.jump_greater(3, 2, behind);
  a.jump(paced);
  a.place(behind);
  a.mov(1, 0);
  a.place(paced);
  a.load(BPF_DW, 2, state, offsetof(State, interval_ns));
  a.operate(BPF_ADD, 1, 2);
  a.store(BPF_DW, state, offsetof(State, due), 1);
  a.load(BPF_DW, count, state, offsetof(State, count));
  a.mov(1, count);
  a.add_value(1, 1);
  a.store(BPF_DW, state, offsetof(State, count), 1);
  // Packet number count: board count mod 4, frame count / 4, sequence one more (the marker has 0).
  a.mov(from, count);
  a.and_value(from, boards - 1);
  a.operate_value(BPF_LSH, from, slot_shift);
  a.operate(BPF_ADD, from, state);
  a.mov(frame, count);
  a.operate_value(BPF_RSH, frame, 2);
  a.mov(sequence, frame);
  a.add_value(sequence, 1);
  a.store(BPF_W, from, header + 8, sequence);
  a.store(BPF_W, from, header + 12, frame);
  a.mov(1, frame);
  a.operate_value(BPF_RSH, 1, 8);
  for (unsigned e = 0; e < events; ++e) {  // bytes 1 - 3 of the time stamps
    const auto event = static_cast<std::int16_t>(header + mgp::header_bytes + e * mgp::fixed_event_bytes);
    a.store(BPF_B, from, static_cast<std::int16_t>(event + 1), frame);
    a.store(BPF_H, from, static_cast<std::int16_t>(event + 2), 1);
  }
  if (checksum) {
    constexpr unsigned sum = 1;
    a.load(BPF_DW, sum, from, sizeof(State) + offsetof(Template, sum));
    const auto add_words = [&](unsigned value, unsigned shift, unsigned times) {
      a.mov(2, value);
      a.operate_value(BPF_LSH, 2, static_cast<std::int32_t>(shift));
      a.mov(3, 2);
      a.and_value(2, 0xFFFF);
      a.operate_value(BPF_RSH, 3, 16);
      a.operate(BPF_ADD, 2, 3);
      a.operate_value(BPF_MUL, 2, static_cast<std::int32_t>(times));
      a.operate(BPF_ADD, sum, 2);
    };
    add_words(sequence, 0, 1);
    add_words(frame, 0, 1);
    add_words(frame, 8, events);
    for (unsigned fold = 0; fold < 3; ++fold) {
      a.mov(2, sum);
      a.operate_value(BPF_RSH, 2, 16);
      a.and_value(sum, 0xFFFF);
      a.operate(BPF_ADD, sum, 2);
    }
    a.operate_value(BPF_XOR, sum, 0xFFFF);
    a.store(BPF_H, from, udp + 6, sum);
  }
  a.mov(1, context);
  a.mov_value(2, udp_at);
  a.mov(3, from);
  a.add_value(3, udp);
  a.mov_value(4, udp_bytes);
  a.call(store_bytes);
  a.jump_not_equal(0, 0, drop);
  a.mov_value(1, static_cast<std::int32_t>(interface));
  a.mov_value(2, 0);
  a.call(BPF_FUNC_redirect);
  a.exit();
  a.place(drop);
  a.mov_value(0, XDP_DROP);
  a.exit();
  return a;
}

int checked(int result, const char* what) {
  if (result < 0)
    throw std::system_error(errno, std::generic_category(),
                            std::string(what) + " (needs CAP_BPF, CAP_NET_ADMIN and Linux 5.18)");
  return result;
}

// First packet of each board with 16 events, frame and sequence 0.
std::array<std::array<std::byte, payload_bytes>, boards> packets() {
  readout::PackOptions pack;
  pack.fixed = true;
  pack.max_payload = payload_bytes;
  readout::FrameSource source({}, pack);
  readout::PackedFrame generated;
  std::array<std::array<std::byte, payload_bytes>, boards> out{};
  for (unsigned found = 0; found != (1U << boards) - 1;) {
    source.next(generated);
    for (const auto& packet : generated.packets) {
      if (packet.size != payload_bytes || (found >> packet.board & 1)) continue;
      found |= 1U << packet.board;
      auto& bytes = out[packet.board];
      std::memcpy(bytes.data(), generated.bytes.data() + packet.offset, payload_bytes);
      mgp::Header header = mgp::decode_header(bytes.data());
      header.index = 0;
      header.flags = mgp::flag::fixed | mgp::flag::last;
      mgp::encode_header(bytes.data(), header);
      readout::stamp(bytes.data(), 0, 0, 0);
    }
  }
  return out;
}

card::xdp::Mac resolved(const card::xdp::Route& route) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (const auto mac = card::xdp::neighbour(route)) return *mac;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("inject: the next hop does not answer ARP");
}

}  // namespace

std::uint64_t inject(const InjectOptions& options) {
  const auto route = card::xdp::route_to(options.to.address);
  if (!route) throw std::runtime_error("inject: no route to the receiver");
  readout::PacketSender markers(options.to, false);
  for (unsigned b = 0; b < boards; ++b) {
    std::array<std::byte, mgp::header_bytes> sob;
    const auto bytes = readout::make_sob(sob.data(), static_cast<BoardId>(b), 0);
    markers.push(sob.data(), static_cast<std::uint32_t>(bytes));
    markers.flush();
  }
  const card::xdp::Mac mac = resolved(*route);

  alignas(State) std::array<std::byte, state_bytes> value{};
  std::array<std::byte, wire::udp_frame_overhead + payload_bytes> frame{};
  const auto all = packets();
  for (unsigned b = 0; b < boards; ++b) {
    const wire::Endpoint source{route->source, static_cast<std::uint16_t>(first_source_port + b)};
    wire::build_udp_frame(frame.data(), source, options.to, all[b]);
    Template made{};
    made.sum = static_cast<std::uint16_t>(~mgp::load<std::uint16_t>(frame.data() + udp_at + 6));
    if (!options.checksum) mgp::store<std::uint16_t>(frame.data() + udp_at + 6, 0);
    std::memcpy(made.udp.data(), frame.data() + udp_at, udp_bytes);
    std::memcpy(value.data() + sizeof(State) + (std::size_t{b} << slot_shift), &made, sizeof made);
  }
  std::memcpy(frame.data(), mac.data(), mac.size());
  const State start{0, static_cast<std::uint64_t>(1e9 / options.packets_per_s), 0};
  std::memcpy(value.data(), &start, sizeof start);

  bpf_attr create{};
  create.map_type = BPF_MAP_TYPE_ARRAY;
  create.key_size = sizeof(std::uint32_t);
  create.value_size = state_bytes;
  create.max_entries = 1;
  const os::Fd map(checked(card::xdp::bpf(BPF_MAP_CREATE, create), "map of the injector"));
  const std::uint32_t key = 0;
  const auto access = [&](int command) {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(map.get());
    attributes.key = reinterpret_cast<std::uintptr_t>(&key);
    attributes.value = reinterpret_cast<std::uintptr_t>(value.data());
    checked(card::xdp::bpf(command, attributes), "map of the injector");
  };
  access(BPF_MAP_UPDATE_ELEM);
  const Assembler program = assemble(map.get(), route->interface, options.checksum);
  static constexpr char license[] = "Apache-2.0";
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_XDP;
  load.insns = reinterpret_cast<std::uintptr_t>(program.code().data());
  load.insn_cnt = static_cast<std::uint32_t>(program.code().size());
  load.license = reinterpret_cast<std::uintptr_t>(license);
  const os::Fd loaded(checked(card::xdp::bpf(BPF_PROG_LOAD, load), "program of the injector"));

  const Nanoseconds until = os::monotonic_now() + static_cast<Nanoseconds>(options.seconds * 1e9);
  State now{};
  do {
    bpf_attr run{};
    run.test.prog_fd = static_cast<std::uint32_t>(loaded.get());
    run.test.data_in = reinterpret_cast<std::uintptr_t>(frame.data());
    run.test.data_size_in = static_cast<std::uint32_t>(frame.size());
    run.test.repeat = frames_per_call;
    run.test.flags = live_frames;
    if (card::xdp::bpf(BPF_PROG_TEST_RUN, run) < 0 && errno != EINTR) checked(-1, "live frames");
    access(BPF_MAP_LOOKUP_ELEM);
    std::memcpy(&now, value.data(), sizeof now);
  } while (os::monotonic_now() < until &&
           now.count + frames_per_call < std::uint64_t{boards} * default_max_frames);
  return now.count;
}

}  // namespace nanet::bench
