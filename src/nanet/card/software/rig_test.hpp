// SPDX-License-Identifier: Apache-2.0
// Test rig: a stream without network or clock. Datagrams and times are arguments, answers are collected, and
// a consumer reads events, posts and returns through contract memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nanet/card/software/software_stream.hpp"
#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"

namespace nanet::card {

using contract::Event;
using contract::EventType;
namespace event_flag = contract::event_flag;
namespace mgp_flag = wire::mgp::flag;

inline constexpr std::uint8_t first_burst = 7;

// One MGP datagram of a frame. Events are spread over the frame; hits belong to the board.
struct Packet {
  BoardId board = 0;
  Frame frame = 0;
  std::uint8_t burst = first_burst;
  unsigned index = 0;
  bool last = true;
  std::uint8_t flags = 0;
  std::optional<Sequence> sequence = {};  // else the board's next
  unsigned events = 1, hits = 3;
};

inline std::vector<std::byte> build(const Packet& p, Sequence sequence) {
  wire::mgp::Header h;
  h.board = p.board;
  h.flags = static_cast<std::uint8_t>(p.flags | (p.last ? mgp_flag::last : 0));
  h.index = static_cast<std::uint8_t>(p.index);
  h.frame = p.frame;
  h.burst = p.burst;
  h.sequence = sequence;
  std::vector<std::byte> bytes(wire::mgp::header_bytes + p.events * wire::mgp::fixed_event_bytes);
  wire::mgp::PacketWriter writer(bytes.data(), bytes.size(), h);
  for (unsigned e = 0; e < p.events; ++e) {
    std::array<std::uint16_t, 32> hit;
    for (unsigned i = 0; i < p.hits; ++i)
      hit[i] = wire::mgp::hit_word(
          static_cast<PmId>((p.board == merged_board ? 0 : p.board * 512) + e + 7 * i), 0);
    writer.add(p.frame << 8 | (e & 0xFF), static_cast<FineTime>(e), {hit.data(), p.hits},
               static_cast<std::uint8_t>(p.hits));
  }
  bytes.resize(writer.finish());
  return bytes;
}

inline std::vector<std::byte> build_marker(std::uint8_t flags, BoardId board, Frame frame, Sequence sequence,
                                           std::uint8_t burst) {
  wire::mgp::Header h;
  h.board = board;
  h.flags = flags;
  h.frame = frame;
  h.burst = burst;
  h.sequence = sequence;
  h.length =
      static_cast<std::uint16_t>(flags & mgp_flag::eob ? wire::mgp::eob_bytes : wire::mgp::header_bytes);
  std::vector<std::byte> bytes(h.length);
  wire::mgp::encode_header(bytes.data(), h);
  if (flags & mgp_flag::eob) wire::mgp::encode_eob(bytes.data(), {frame + 1, sequence + 1, 0, 0});
  return bytes;
}

// Collects sent datagrams; takes at most `limit` per call.
class FakeTransmit final : public Transmit {
 public:
  struct Sent {
    Frame frame;
    std::uint8_t sub_id;
    std::uint32_t destination;
    std::vector<std::byte> bytes;
  };
  std::size_t send(std::span<const Datagram> batch) noexcept override {
    const std::size_t count = std::min(limit, batch.size());
    for (const Datagram& d : batch.first(count)) {
      Sent s{0, 0, d.destination, {d.data, d.data + d.bytes}};
      if (d.bytes >= wire::mtp::header_bytes) {
        s.frame = wire::mgp::load<std::uint32_t>(d.data) & 0xFFFFFF;
        s.sub_id = static_cast<std::uint8_t>(d.data[7]);
      }
      sent.push_back(std::move(s));
    }
    return count;
  }
  std::uint32_t destinations() const noexcept override { return 2; }

  std::vector<Sent> sent;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
};

struct Passed final : FrameObserver {
  struct Entry {
    std::uint64_t n;
    Outcome outcome;
  };
  void passed(std::uint64_t n, Outcome outcome, Nanoseconds, Nanoseconds, Nanoseconds) noexcept override {
    all.push_back({n, outcome});
  }
  void reaped(std::uint64_t n) noexcept override { late_answers.push_back(n); }
  std::vector<Entry> all;
  std::vector<std::uint64_t> late_answers;
};

// Options of ordinary tests: more buffers than the jump window, and a deadline that fits them.
inline ClopOptions rig_options(std::uint32_t buffers = 4096) {
  ClopOptions o;
  o.buffers = buffers;
  o.timeout = 1000;
  o.deadline = 6000;
  o.burst_silence = 100'000;
  return o;
}

class Rig {
 public:
  explicit Rig(const ClopOptions& options = rig_options(), bool replay = false)
      : stream(options, 3, transmit, replay) {
    stream.observe(&observer);
    queue.resize(options.devices);
    for (const auto& view : stream.views()) views.push_back(view);
  }

  // Feed raw bytes, a packet, or a marker at time `now`.
  void raw(std::span<const std::byte> bytes) { stream.receiver().packet(bytes, now); }
  std::vector<std::byte> feed(const Packet& p) {
    Sequence& next = sequence_[{p.burst, p.board}];
    const Sequence s = p.sequence.value_or(next);
    next = s + 1;
    auto bytes = build(p, s);
    raw(bytes);
    return bytes;
  }
  void sob(BoardId board, std::uint8_t burst = first_burst) {
    raw(build_marker(mgp_flag::sob, board, 0, 0, burst));
    sequence_[{burst, board}] = 1;
  }
  void eob(BoardId board, Frame last, std::uint8_t burst = first_burst,
           std::optional<Sequence> sequence = {}) {
    Sequence& next = sequence_[{burst, board}];
    const Sequence s = sequence.value_or(next);
    next = s + 1;
    raw(build_marker(mgp_flag::eob, board, last, s, burst));
  }
  void sobs(std::uint8_t burst = first_burst, unsigned boards = 4) {
    for (unsigned b = 0; b < boards; ++b) sob(static_cast<BoardId>(b), burst);
  }
  void eobs(Frame last, std::uint8_t burst = first_burst, unsigned boards = 4) {
    for (unsigned b = 0; b < boards; ++b) eob(static_cast<BoardId>(b), last, burst);
  }
  // A whole frame, one packet per board.
  void frame(Frame f, std::uint8_t burst = first_burst, unsigned boards = 4) {
    for (unsigned b = 0; b < boards; ++b)
      feed({.board = static_cast<BoardId>(b), .frame = f, .burst = burst});
  }
  void skip_sequence(BoardId board, Sequence by, std::uint8_t burst = first_burst) {
    sequence_[{burst, board}] += by;
  }

  // All new events of a device, finished at once unless `hold`.
  std::vector<Event> take(std::size_t device = 0, bool hold = false) {
    std::vector<Event> got;
    Queue& q = queue[device];
    Event e;
    contract::Poll found;
    while ((found = contract::poll_event(views[device], q.next, e)) == contract::Poll::event) {
      ++q.next;
      got.push_back(e);
    }
    EXPECT_EQ(found, contract::Poll::nothing);
    if (!hold) contract::release(*views[device].finished, q.next);
    return got;
  }
  std::vector<Event> take(EventType type, std::size_t device = 0) {
    auto got = take(device);
    std::erase_if(got, [&](const Event& e) { return e.type != static_cast<std::uint8_t>(type); });
    return got;
  }
  std::uint64_t n_of(const Event& e) const { return contract::unwrap_counter(e.n, stream.table().end); }
  void post(const Event& e, std::size_t device = 0) {
    const auto& view = views[device];
    std::byte* at = view.send_buffer(e.buffer);
    contract::post(view, n_of(e), at, static_cast<std::uint32_t>(wire::mtp::encode(at, e.frame, nullptr, 0)),
                   0, e.buffer);
  }
  void give_back(const Event& e, std::size_t device = 0) { contract::return_buffer(views[device], n_of(e)); }
  void answer(const Event& e, std::size_t device = 0) {
    post(e, device);
    give_back(e, device);
  }
  // Reads and answers all events; returns the receive events.
  std::vector<Event> serve(std::size_t device = 0) {
    auto got = take(EventType::receive_done, device);
    for (const Event& e : got) answer(e, device);
    return got;
  }
  std::size_t send() {
    return stream.sender().poll(now, [this] { return now; });
  }
  void expire(Nanoseconds at) {
    now = at;
    stream.receiver().expire(now);
  }
  // Serves, sends and advances time until no answer is pending.
  void finish() {
    stream.receiver().expire(now);
    stream.receiver().drain(now);
    for (int i = 0; i < 3 || !stream.passed_all(); ++i) {
      for (std::size_t d = 0; d < views.size(); ++d) serve(d);
      send();
      now += 10'000;
      if (i > 100'000) {
        ADD_FAILURE() << "answers stay pending";
        return;
      }
    }
    stream.sender().reap_all();
    EXPECT_TRUE(balances(true));
  }

  std::uint64_t lost(Lost reason) const { return stream.counters().lost[static_cast<std::size_t>(reason)]; }
  std::uint64_t bad(wire::mgp::Refusal reason) const {
    return stream.counters().bad[static_cast<std::size_t>(reason)];
  }
  std::uint64_t lost_or_bad() const {
    std::uint64_t sum = 0;
    for (const auto& c : stream.counters().lost) sum += c;
    for (const auto& c : stream.counters().bad) sum += c;
    return sum;
  }
  std::int64_t missing() const { return stream.receive_status().missing(); }

  // Identities of the account in docs/formats.md.
  ::testing::AssertionResult balances(bool drained = false) const {
    const Counters& c = stream.counters();
    std::uint64_t packets = c.packets_used + c.burst_markers;
    for (const auto& b : c.bad) packets += b;
    for (std::size_t i = 0; i <= static_cast<std::size_t>(Lost::other_node); ++i) packets += c.lost[i];
    if (packets != c.packets_in)
      return ::testing::AssertionFailure()
             << "packets_in " << c.packets_in << " but accounted for " << packets;
    if (c.frames_out != c.frames_answered + c.frames_late)
      return ::testing::AssertionFailure()
             << "frames_out " << c.frames_out << " = " << c.frames_answered << " + " << c.frames_late;
    if (drained ? c.frames_in != c.frames_out : c.frames_in < c.frames_out)
      return ::testing::AssertionFailure() << "frames_in " << c.frames_in << " frames_out " << c.frames_out;
    if (c.frames_out != transmit.sent.size())
      return ::testing::AssertionFailure()
             << "frames_out " << c.frames_out << " but " << transmit.sent.size() << " datagrams left";
    return ::testing::AssertionSuccess();
  }
  const contract::FrameHeader& header(const Event& e, std::size_t device = 0) const {
    return *reinterpret_cast<const contract::FrameHeader*>(views[device].buffer(e.buffer));
  }

  struct Queue {
    std::uint64_t next = 0;
  };
  Nanoseconds now = 1'000'000;
  FakeTransmit transmit;
  Passed observer;
  SoftwareStream stream;
  std::vector<contract::View> views;
  std::vector<Queue> queue;

 private:
  std::map<std::pair<std::uint8_t, BoardId>, Sequence> sequence_;
};

}  // namespace nanet::card
