// SPDX-License-Identifier: Apache-2.0
// Probes of `nanet bench`: round trip, receivers, contract consumers and copy rate.
#include "nanet/bench/probes.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "nanet/card/card.hpp"
#include "nanet/card/xdp/xdp_card.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/readout/packet_sender.hpp"
#include "nanet/wire/mgp.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::bench {
namespace {

namespace mgp = wire::mgp;
constexpr wire::Endpoint any_port{0x7F000001, 0}, any_address{0, 0};
constexpr Nanoseconds second = 1'000'000'000;

double thread_cpu_s() noexcept {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

os::Fd receiver(bool gro, const wire::Endpoint& local = any_port, int buffer_bytes = 64 << 20) {
  os::UdpReceiveOptions options;
  options.gro = gro;
  options.timestamps = false;
  options.buffer_bytes = buffer_bytes;
  return os::open_udp_receiver(local, options);
}

constexpr bool with_card(ReceiverKind kind) {
  return kind == ReceiverKind::card || kind == ReceiverKind::xdp_card;
}

// Pins the calling thread for the lifetime of the object; threads started later are not pinned.
class PinnedHere {
 public:
  explicit PinnedHere(int cpu) {
    known_ = cpu >= 0 && pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) == 0;
    if (cpu >= 0) os::pin_this_thread(cpu);
  }
  ~PinnedHere() {
    if (known_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  cpu_set_t before_;
  bool known_ = false;
};

}  // namespace

Ping::Ping() : socket_(receiver(false, any_address)), reply_port_(os::local_endpoint(socket_.get()).port) {}

void Ping::run(const PingOptions& options, bool echo, PingResult& result) {
  const PinnedHere pinned(options.cpu);
  if (options.events < 1 || options.events > 20)
    throw std::invalid_argument("events = " + std::to_string(options.events) + " must be 1 - 20");
  if (options.packets < 1 || options.packets > mgp::max_packets_per_frame)
    throw std::invalid_argument("packets must be 1 - 16");
  // Realistic events: a pool of generated events in fixed slots, used `events` at a time.
  readout::PackOptions pack;
  pack.merged = pack.fixed = true;
  readout::FrameSource source({}, pack);
  readout::PackedFrame generated;
  std::vector<std::array<std::byte, mgp::fixed_event_bytes>> pool;
  while (pool.size() < 4096) {
    source.next(generated);
    for (const auto& p : generated.packets)
      for (std::size_t at = mgp::header_bytes; at + mgp::fixed_event_bytes <= p.size;
           at += mgp::fixed_event_bytes)
        std::memcpy(pool.emplace_back().data(), generated.bytes.data() + p.offset + at,
                    mgp::fixed_event_bytes);
  }
  const sockaddr_in to = os::to_sockaddr(options.to);
  const std::size_t size = mgp::header_bytes + options.events * mgp::fixed_event_bytes;
  std::vector<std::byte> packet(size * options.packets);
  std::array<std::byte, 65536> answer;
  Sequence sequence = 0;
  const auto send = [&](const std::byte* data, std::size_t bytes) {
    while (sendto(socket_.get(), data, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0 &&
           (errno == EAGAIN || errno == ENOBUFS || errno == EINTR || errno == ECONNREFUSED)) {
    }
  };
  if (!echo) {
    std::array<std::byte, mgp::header_bytes> sob;
    send(sob.data(), readout::make_sob(sob.data(), merged_board, 0));
    ++sequence;
  }
  const std::uint64_t total = options.samples + options.warm_up;
  std::size_t next = 0;
  const Nanoseconds began = os::monotonic_now(), limit = static_cast<Nanoseconds>(options.seconds * 1e9);
  for (std::uint64_t i = 0; i < total; ++i) {
    if (limit > 0 && result.samples > 0 && os::monotonic_now() - began > limit) break;
    const auto frame = static_cast<Frame>(i);
    for (unsigned p = 0; p < options.packets; ++p) {
      std::byte* at = packet.data() + p * size;
      mgp::Header h;
      h.board = merged_board;
      h.flags =
          static_cast<std::uint8_t>(mgp::flag::fixed | (p + 1 == options.packets ? mgp::flag::last : 0));
      h.length = static_cast<std::uint16_t>(size);
      h.events = static_cast<std::uint8_t>(options.events);
      h.index = static_cast<std::uint8_t>(p);
      h.sequence = sequence++;
      h.frame = frame;
      mgp::encode_header(at, h);
      for (unsigned e = 0; e < options.events; ++e, next = (next + 1) % pool.size()) {
        std::byte* event = at + mgp::header_bytes + e * mgp::fixed_event_bytes;
        std::memcpy(event, pool[next].data(), mgp::fixed_event_bytes);
        mgp::store<std::uint32_t>(event, (frame << 8) | (mgp::load<std::uint32_t>(event) & 0xFF));
      }
    }
    const Nanoseconds start = os::monotonic_now();
    for (unsigned p = 0; p < options.packets; ++p) send(packet.data() + p * size, size);
    unsigned replies = 0;
    bool wrong = false;
    Nanoseconds now = start;
    for (;;) {
      const ssize_t got = recv(socket_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
      now = os::monotonic_now();
      if (got >= 0) {
        if (echo) {
          wrong |= static_cast<std::size_t>(got) != size;
          if (++replies == options.packets) break;
          continue;
        }
        std::array<wire::mtp::TimedPrimitive, wire::mtp::max_primitives> primitives;
        const auto decoded =
            wire::mtp::decode({answer.data(), static_cast<std::size_t>(got)}, primitives.data());
        if (decoded.refusal == wire::mtp::Refusal::none && decoded.header.frame < frame)
          continue;  // answer to a frame already given up
        wrong = decoded.refusal != wire::mtp::Refusal::none || decoded.header.frame != frame ||
                decoded.header.sub_id != 0 || decoded.count == 0;
        break;
      }
      if (now - start > second) {
        ++result.lost;
        break;
      }
    }
    if (now - start <= second && i >= options.warm_up) {
      ++result.samples;
      result.wrong += wrong;
      result.round_trip.add(now - start);
    }
    if (options.gap_us > 0) {
      const Nanoseconds until = os::monotonic_now() + static_cast<Nanoseconds>(options.gap_us * 1e3);
      while (os::monotonic_now() < until) {
      }
    }
  }
}

struct Echo::State {
  os::Fd socket;
  card::RawPort network;  // xdp
  card::Counters counters;
  card::Counters* at = &counters;

  void answer_datagrams(const std::stop_token& stop, int flags) {
    std::array<std::byte, 65536> bytes;
    sockaddr_in from;
    while (!stop.stop_requested()) {
      socklen_t length = sizeof from;
      const ssize_t got = recvfrom(socket.get(), bytes.data(), bytes.size(), flags,
                                   reinterpret_cast<sockaddr*>(&from), &length);
      if (got >= 0)
        sendto(socket.get(), bytes.data(), static_cast<std::size_t>(got), 0,
               reinterpret_cast<sockaddr*>(&from), length);
    }
  }
  void answer_frames(const std::stop_token& stop) {
    const std::uint16_t port = network.local.front().port;
    std::array<card::Arrival, 64> arrivals;
    std::vector<std::byte> joined;
    joined.reserve(card::FrameSource::longest_frame);
    while (!stop.stop_requested()) {
      for (const auto& source : network.sources) {
        joined.clear();
        const std::size_t count = source->take(arrivals, joined);
        for (std::size_t i = 0; i < count; ++i) {
          const auto& frame = arrivals[i].frame;
          const wire::UdpFrame udp = wire::parse_udp_frame(frame, frame.size(), port);
          if (udp.reason != wire::NotMgp::none) continue;
          const card::Datagram answer{udp.payload.data(), static_cast<std::uint32_t>(udp.payload.size()), 0};
          network.transmit->send({&answer, 1});
        }
        source->give_back(count);
      }
    }
  }
};

Echo::Echo(const EchoOptions& options) : state_(std::make_unique<State>()) {
  constexpr int busy_poll_us = 50;
  constexpr timeval stop_after{0, 100'000};
  const bool blocking = options.path == EchoPath::blocking || options.path == EchoPath::busy_poll;
  if (options.path == EchoPath::xdp) {
    card::ClopOptions port;
    port.listen = {options.listen};
    port.destinations = {options.reply};
    state_->network = card::open_xdp_port(port, state_->at);
    port_ = state_->network.local.front().port;
  } else {
    state_->socket = receiver(false, options.listen);
    port_ = os::local_endpoint(state_->socket.get()).port;
    if (blocking) setsockopt(state_->socket.get(), SOL_SOCKET, SO_RCVTIMEO, &stop_after, sizeof stop_after);
    if (options.path == EchoPath::busy_poll) os::set_busy_poll(state_->socket.get(), busy_poll_us);
  }
  thread_ = std::jthread([this, options, blocking](const std::stop_token& stop) {
    if (options.cpu >= 0) os::pin_this_thread(options.cpu);
    if (options.path == EchoPath::xdp)
      state_->answer_frames(stop);
    else
      state_->answer_datagrams(stop, blocking ? 0 : MSG_DONTWAIT);
  });
}
Echo::~Echo() {
  thread_ = {};  // stops and joins, before its state
}

struct ReceiveProbe::State {
  ReceiverKind kind;
  os::Fd socket;
  std::unique_ptr<card::Card> card;
  card::Clop* clop = nullptr;
};

ReceiveProbe::ReceiveProbe(ReceiverKind kind, const wire::Endpoint& listen)
    : state_(std::make_unique<State>()) {
  state_->kind = kind;
  if (with_card(kind)) {
    state_->card = card::open_card(kind == ReceiverKind::xdp_card ? "xdp" : "socket");
    card::ClopOptions options;
    options.listen = {listen};
    state_->clop = &state_->card->register_clop(options);
    port_ = state_->clop->local().port;
  } else {
    state_->socket = receiver(kind == ReceiverKind::recvmmsg_gro, listen);
    port_ = os::local_endpoint(state_->socket.get()).port;
  }
}
ReceiveProbe::~ReceiveProbe() = default;

ReceiveResult ReceiveProbe::run() {
  ReceiveResult result;
  const double cpu_before = thread_cpu_s();
  Nanoseconds first = 0, last = os::monotonic_now() + 10 * second;  // allows the load to start
  if (with_card(state_->kind)) {
    card::Card& card = *state_->card;
    contract::Event event;
    for (;;) {
      const bool received = card.receive();
      while (state_->clop->poll(event))
        if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done)) {
          state_->clop->post(event, 0);
          state_->clop->give_back(event);
        }
      card.send();
      const Nanoseconds now = os::monotonic_now();
      if (received) {
        if (!first) first = now;
        last = now;
      } else {
        if (now - last > second / 2) break;
        card.wait(second / 10);
      }
    }
    result.packets = state_->clop->counters().packets_used;
    result.bytes = state_->clop->counters().bytes_in;
    const auto& lost = state_->clop->counters().lost;
    result.overflow = lost[static_cast<std::size_t>(card::Lost::socket_overflow)] +
                      lost[static_cast<std::size_t>(card::Lost::ring_overflow)];
  } else {
    constexpr unsigned messages = 32;
    const bool gro = state_->kind == ReceiverKind::recvmmsg_gro;
    const std::size_t room = gro ? 65536 : 2048;
    std::vector<std::byte> bytes(messages * room);
    std::array<mmsghdr, messages> message{};
    std::array<iovec, messages> vector{};
    std::array<std::array<std::byte, os::receive_control_bytes>, messages> control{};
    for (unsigned i = 0; i < messages; ++i) vector[i] = {bytes.data() + i * room, room};
    for (;;) {
      for (unsigned i = 0; i < messages; ++i) {
        message[i].msg_hdr = {};
        message[i].msg_hdr.msg_iov = &vector[i];
        message[i].msg_hdr.msg_iovlen = 1;
        message[i].msg_hdr.msg_control = control[i].data();
        message[i].msg_hdr.msg_controllen = control[i].size();
      }
      const int got = recvmmsg(state_->socket.get(), message.data(), messages, MSG_DONTWAIT, nullptr);
      const Nanoseconds now = os::monotonic_now();
      if (got <= 0) {
        if (now - last > second / 2) break;
        pollfd p{state_->socket.get(), POLLIN, 0};
        poll(&p, 1, 100);
        continue;
      }
      if (!first) first = now;
      last = now;
      for (int i = 0; i < got; ++i) {
        const auto info = os::receive_info(message[static_cast<unsigned>(i)].msg_hdr);
        const std::size_t size = message[static_cast<unsigned>(i)].msg_len;
        result.packets += info.segment_bytes ? (size + info.segment_bytes - 1) / info.segment_bytes : 1;
        result.bytes += size;
        if (info.has_overflow) result.overflow = info.overflow;
      }
    }
  }
  result.cpu_s = thread_cpu_s() - cpu_before;
  result.elapsed_s = first ? static_cast<double>(last - first) * 1e-9 : 0;
  return result;
}

std::uint64_t blast(const BlastOptions& options) {
  readout::PackOptions pack;
  pack.pad = true;
  pack.max_payload = static_cast<std::uint16_t>(options.payload);
  readout::FrameSource source({}, pack);
  std::vector<readout::PackedFrame> pool(512);
  for (auto& frame : pool) source.next(frame);
  std::array<std::unique_ptr<readout::PacketSender>, 4> sender;
  std::array<Sequence, 4> sequence{};
  for (auto& s : sender) s = std::make_unique<readout::PacketSender>(options.to, options.segment);
  std::uint64_t sent = 0;
  const Nanoseconds start = os::monotonic_now();
  constexpr std::size_t frames_at_once = 16;
  Frame frame = 0;
  for (std::size_t at = 0;; at = (at + frames_at_once) % pool.size()) {
    const double elapsed = static_cast<double>(os::monotonic_now() - start) * 1e-9;
    if (elapsed > options.seconds || frame + frames_at_once > default_max_frames) break;
    if (static_cast<double>(sent) > options.packets_per_s * elapsed) {
      std::this_thread::sleep_for(std::chrono::microseconds(30));
      continue;
    }
    for (std::size_t i = 0; i < frames_at_once; ++i, ++frame) {
      readout::PackedFrame& f = pool[at + i];
      for (const auto& p : f.packets) {
        if (sequence[p.board] == 0) {
          std::array<std::byte, mgp::header_bytes> sob;
          const auto bytes = readout::make_sob(sob.data(), p.board, 0);
          sender[p.board]->push(sob.data(), static_cast<std::uint32_t>(bytes));
          sender[p.board]->flush();
          ++sequence[p.board];
        }
        readout::stamp(f.bytes.data() + p.offset, frame, sequence[p.board]++, 0);
        sender[p.board]->push(f.bytes.data() + p.offset, p.size);
        ++sent;
      }
    }
    for (auto& s : sender) s->flush();
  }
  return sent;
}

void bandwidth(unsigned payload, unsigned packets, double seconds, BandwidthResult& result) {
  if (payload < 88 || payload > mgp::default_max_payload)
    throw std::invalid_argument("payload must be 88 - 1472 B");
  auto card = card::open_card("socket");
  card::ClopOptions options;
  options.listen = {any_port};
  options.gather = contract::Gather::packets;
  options.packets = packets;
  options.buffers = 16;
  options.rules.boards = 0;
  card::Clop& clop = card->register_clop(options);
  readout::PacketSender sender(clop.local(), false);
  // Payloads with known bytes: as many fixed slots as fit, then padding. Events differ between packets.
  const unsigned events =
      (payload - static_cast<unsigned>(mgp::header_bytes)) / static_cast<unsigned>(mgp::fixed_event_bytes);
  const auto length = static_cast<std::uint16_t>(mgp::header_bytes + events * mgp::fixed_event_bytes);
  constexpr unsigned in_flight = 2;
  std::vector<std::vector<std::byte>> sent(in_flight, std::vector<std::byte>(std::size_t{packets} * payload));
  Sequence sequence = 1;
  Frame frame = 0;
  const auto fill = [&](std::vector<std::byte>& bytes) {
    for (unsigned p = 0; p < packets; ++p, ++frame) {
      std::byte* at = bytes.data() + std::size_t{p} * payload;
      frame %= default_max_frames;
      mgp::Header h;
      h.board = merged_board;
      h.flags = mgp::flag::fixed | mgp::flag::last | (payload > length ? mgp::flag::padded : 0);
      h.length = length;
      h.events = static_cast<std::uint8_t>(events);
      h.sequence = sequence++;
      h.frame = frame;
      mgp::encode_header(at, h);
      for (unsigned e = 0; e < events; ++e) {
        std::byte* event = at + mgp::header_bytes + e * mgp::fixed_event_bytes;
        mgp::store<std::uint32_t>(event, frame << 8);
        mgp::store<std::uint32_t>(event + 4, 0x00202000u | (h.sequence & 0xFF));
        for (unsigned i = 0; i < max_fragment_hits; ++i)
          mgp::store<std::uint16_t>(
              event + 8 + 2 * i, static_cast<std::uint16_t>((h.sequence * 7 + e * 61 + i * 59) % pm_count));
      }
    }
  };
  const auto send = [&](const std::vector<std::byte>& bytes) {
    for (unsigned p = 0; p < packets; ++p) sender.push(bytes.data() + std::size_t{p} * payload, payload);
    sender.flush();
  };
  contract::Event event;
  // Returns the time of the next full buffer's event and then checks its bytes; 0 after a second without one.
  const auto receive = [&](const std::vector<std::byte>& bytes) -> Nanoseconds {
    const Nanoseconds until = os::monotonic_now() + second;
    do {
      card->receive();
      while (clop.poll(event)) {
        if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done)) continue;
        const Nanoseconds seen = os::monotonic_now();
        bool right = event.flags & contract::event_flag::complete;
        for (unsigned p = 0; right && p < packets; ++p)
          right = std::memcmp(clop.payload(event, p).data(), bytes.data() + std::size_t{p} * payload,
                              length) == 0;
        result.wrong += !right;
        ++result.buffers;
        clop.post(event, 0);
        clop.give_back(event);
        card->send();
        return seen;
      }
    } while (os::monotonic_now() < until);
    ++result.lost;
    return 0;
  };
  const auto half = static_cast<Nanoseconds>(seconds * 0.5e9);
  for (const Nanoseconds end = os::monotonic_now() + half; os::monotonic_now() < end;) {
    fill(sent[0]);
    const Nanoseconds before = os::monotonic_now();
    send(sent[0]);
    if (const Nanoseconds seen = receive(sent[0])) result.latency.add(seen - before);
  }
  std::uint64_t done = 0, started = 0;
  const Nanoseconds start = os::monotonic_now();
  while (os::monotonic_now() - start < half || done < started) {
    while (started - done < in_flight && os::monotonic_now() - start < half) {
      fill(sent[started % in_flight]);
      send(sent[started++ % in_flight]);
    }
    receive(sent[done++ % in_flight]);
  }
  const double elapsed = static_cast<double>(os::monotonic_now() - start) * 1e-9;
  result.packets_per_s = static_cast<double>(done * packets) / elapsed;
  result.bytes_per_s = result.packets_per_s * payload;
}

double copy_rate(std::size_t block, std::size_t total, double seconds) {
  std::vector<std::byte> from(total, std::byte{1}), to(total);
  const Nanoseconds start = os::monotonic_now();
  Nanoseconds now = start;
  std::uint64_t copied = 0;
  while (static_cast<double>(now - start) < seconds * 1e9) {
    for (std::size_t at = 0; at + block <= total; at += block)
      std::memcpy(to.data() + at, from.data() + at, block);
    copied += total / block * block;
    asm volatile("" : : "r"(to.data()) : "memory");
    now = os::monotonic_now();
  }
  return static_cast<double>(copied) / (static_cast<double>(now - start) * 1e-9);
}

}  // namespace nanet::bench
