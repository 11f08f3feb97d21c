// SPDX-License-Identifier: Apache-2.0
// Routers of the torus model: lanes, credits, arbitration and passage of packets.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "nanet/torus/engine.hpp"
#include "nanet/torus/route.hpp"

namespace nanet::torus {

void Model::Engine::mark(std::uint32_t o) {
  if (output_[o].changed) return;
  output_[o].changed = true;
  changed_.push_back(o);
}

// The front passage of a lane requests its output VC; behind a packet for another one a cycle later.
void Model::Engine::request(std::uint32_t lane, std::uint32_t before) {
  const std::uint32_t node = lane / lanes, p = lane_[lane].first;
  Passage& passage = passage_[p];
  const Routed routed =
      route(o_.lattice, place_[node], passage.in_port, place_[packet_[passage.packet].to], passage.vchan);
  if (before != none && before != routed.port * virtual_channels + routed.vc()) {
    schedule(now_ + 1, request_event, lane);
    return;
  }
  passage.port = routed.port;
  passage.vc = static_cast<std::uint8_t>(routed.vc());
  passage.vchan = routed.vchan;
  const std::uint32_t o = node * ports + routed.port;
  output_[o].requests |= static_cast<std::uint16_t>(1u << lane % lanes);
  mark(o);
}

void Model::Engine::head(std::uint32_t lane, std::uint32_t p) {
  Lane& l = lane_[lane];
  passage_[p].next = none;
  if (l.first == none) {
    l.first = l.last = p;
    request(lane);
  } else {
    passage_[l.last].next = p;
    l.last = p;
  }
}

std::int32_t Model::Engine::credit(const Slot& slot, std::uint64_t at) const {
  if (at <= slot.stream_start) return slot.credit;
  const std::uint64_t flown = std::min<std::uint64_t>(at - slot.stream_start, slot.stream_words);
  return slot.credit + static_cast<std::int32_t>(flown);
}

void Model::Engine::arbitrate(std::uint32_t o) {
  Output& output = output_[o];
  if (output.requests == 0) return;
  const std::uint32_t node = o / ports, port = o % ports;
  const bool link = port != local_port;
  const bool busy[2] = {output.slot[0].passage != none, output.slot[1].passage != none};
  if (busy[0] && busy[1]) return;
  if ((t_.atomic || !link) && (busy[0] || busy[1])) return;
  std::uint64_t wake = never;
  unsigned chosen = lanes, eligible = 0;
  // Lanes from next_lane upwards, then from 0.
  const auto bits = static_cast<unsigned>(output.requests);
  const unsigned below = (1u << output.next_lane) - 1;
  for (unsigned part : {bits & ~below, bits & below}) {
    for (; part != 0; part &= part - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(part));
      const Passage& passage = passage_[lane_[node * lanes + lane].first];
      Slot& slot = output.slot[passage.vc];
      if (slot.passage != none) continue;
      const auto words = static_cast<std::int32_t>(packet_[passage.packet].words);
      if (link) {
        const std::int32_t needed =
            lane >= local_lane && t_.reserve
                ? std::min(2 * words - 2, (static_cast<std::int32_t>(t_.buffer_words) + words + 1) / 2)
                : words;
        if (credit(slot, now_) < needed) {
          const std::int32_t rest = slot.credit + static_cast<std::int32_t>(slot.stream_words) - needed;
          if (rest >= 0)
            wake = std::min(wake, slot.stream_start + static_cast<std::uint64_t>(needed - slot.credit));
          continue;
        }
      }
      ++eligible;
      if (chosen == lanes) chosen = lane;
    }
  }
  if (chosen != lanes) {
    grant(o, chosen);
    if (eligible > 1 && link && !t_.atomic) wake = now_ + 1;
  }
  if (wake != never && wake > now_ && wake < output.wake) {
    output.wake = wake;
    schedule(wake, credit_event, o);
  }
}

void Model::Engine::grant(std::uint32_t o, unsigned lane) {
  Output& output = output_[o];
  const std::uint32_t node = o / ports, port = o % ports;
  const std::uint32_t l = node * lanes + lane, p = lane_[l].first;
  const Passage passage = passage_[p];
  const Packet& packet = packet_[passage.packet];
  Slot& slot = output.slot[passage.vc];
  output.requests &= static_cast<std::uint16_t>(~(1u << lane));
  // A lane keeps the highest priority for a turn of several packets.
  output.turn = static_cast<std::uint8_t>(lane == output.turn_lane ? output.turn + 1 : 1);
  output.turn_lane = static_cast<std::uint8_t>(lane);
  output.next_lane = static_cast<std::uint8_t>(lane);
  if (output.turn >= t_.turn_packets) {
    output.next_lane = static_cast<std::uint8_t>((lane + 1) % lanes);
    output.turn = 0;
  }
  const bool link = port != local_port;
  Repetition repetition;
  if (link) {
    cells_sent_ += t_.cells(packet.words);
    if (!errors_.empty()) repetition = repeat(node * 6 + port, packet.words);
  }
  const std::uint32_t occupied = link ? t_.occupied(packet.words) + repetition.tail : packet.words;
  slow(o, passage.vc ^ 1u, true);
  slot.passage = p;
  slot.lane = static_cast<std::uint8_t>(lane);
  slot.left = 2 * occupied;
  slot.since = now_;
  ++slot.version;
  const bool shared = output.slot[passage.vc ^ 1u].passage != none;
  schedule(now_ + (shared ? 2 : 1) * std::uint64_t{occupied}, tail_event, o * 2 + passage.vc, slot.version);
  if (link) {
    slot.credit -= static_cast<std::int32_t>(packet.words);
    const std::uint32_t q = passage_.take();
    passage_[q] = {never,        none, passage.packet, none, 0, 0, static_cast<std::uint8_t>((port + 3) % 6),
                   passage.vchan};
    slot.beyond = q;
    const std::uint32_t there = far_[node * 6 + port];
    schedule(now_ + t_.hop_cycles() + t_.passage(packet.words) + repetition.header, head_event,
             there * lanes + ((port + 3) % 6) * virtual_channels + passage.vc, q);
    if (now_ >= measure_from_) words_[node * 6 + port] += packet.words;
  } else {
    slot.beyond = none;
    if (!deliveries_.empty()) deliveries_[packet.id].head = now_ + t_.out_cycles;
  }
  // Credits flow back to the router before, one per cycle.
  const unsigned in_port = lane / virtual_channels;
  if (in_port != local_port) {
    const std::uint32_t before = far_[node * 6 + in_port] * ports + (in_port + 3) % 6;
    Slot& upstream = output_[before].slot[lane % virtual_channels];
    const std::uint64_t from = now_ + t_.credit_cycles + t_.link_cycles;
    if (upstream.stream_start + upstream.stream_words == from) {
      upstream.stream_words += packet.words;
    } else {
      upstream.credit = credit(upstream, never);
      upstream.stream_start = from;
      upstream.stream_words = packet.words;
    }
    wake_next_cycle(before);
  }
}

// Arbitration in the next cycle, if a request could use a new credit.
void Model::Engine::wake_next_cycle(std::uint32_t o) {
  Output& output = output_[o];
  const bool busy[2] = {output.slot[0].passage != none, output.slot[1].passage != none};
  if (output.requests == 0 || (busy[0] && busy[1]) || (t_.atomic && (busy[0] || busy[1]))) return;
  if (output.wake <= now_ + 1) return;
  output.wake = now_ + 1;
  schedule(now_ + 1, credit_event, o);
}

// The packet on the other VC of a link shares it from now on, or has it alone again.
void Model::Engine::slow(std::uint32_t o, unsigned vc, bool shared) {
  Output& output = output_[o];
  Slot& slot = output.slot[vc];
  if (slot.passage == none) return;
  const std::uint64_t work = (now_ - slot.since) * (shared ? 2 : 1);
  slot.left -= static_cast<std::uint32_t>(std::min<std::uint64_t>(work, slot.left));
  slot.since = now_;
  if (slot.left == 0) return;
  ++slot.version;
  schedule(now_ + (shared ? slot.left : (slot.left + 1) / 2), tail_event, o * 2 + vc, slot.version);
}

void Model::Engine::tail(std::uint32_t s) {
  const std::uint32_t o = s / 2, node = o / ports, port = o % ports;
  Slot& slot = output_[o].slot[s % 2];
  const std::uint32_t p = slot.passage;
  Passage& passage = passage_[p];
  slot.left = 0;
  if (passage.tail_at == never) {
    passage.waiting = s;
    return;
  }
  if (passage.tail_at >= now_) {  // the tail is granted in the cycle before its tail event
    schedule(passage.tail_at + 1, tail_event, s, slot.version);
    return;
  }
  const std::uint32_t id = passage.packet;
  if (slot.beyond != none) {
    Passage& next = passage_[slot.beyond];
    next.tail_at = now_ - 1 + t_.hop_cycles() + t_.passage(packet_[id].words);
    if (next.waiting != none)
      schedule(next.tail_at + 1, tail_event, next.waiting,
               output_[next.waiting / 2].slot[next.waiting % 2].version);
  } else {
    deliver(id);
  }
  const std::uint32_t l = node * lanes + slot.lane;
  if (slot.lane >= local_lane) {
    Source& source = source_[node];
    source.used[slot.lane - local_lane] -= packet_[id].words;
    if (source.blocked) {
      source.blocked = false;
      schedule(now_ + 1, source_event, node);
    }
  }
  if (slot.beyond == none) packet_.give(id);
  slot.passage = none;
  slot.beyond = none;
  ++slot.version;
  lane_[l].first = passage.next;
  passage_.give(p);
  if (lane_[l].first != none) request(l, port * virtual_channels + s % 2);
  if (port != local_port) slow(o, (s & 1) ^ 1, false);
  mark(o);
}

void Model::Engine::deliver(std::uint32_t id) {
  const Packet& packet = packet_[id];
  const std::uint64_t at = now_ - 1 + t_.out_cycles;
  --in_flight_;
  if (!deliveries_.empty()) deliveries_[packet.id].tail = at;
  if (!steps_.empty()) arrived(packet.to, packet.id);
  if (arrivals_ != nullptr) arrivals_->push_back({packet.id, packet.created, at});
  if (at < measure_from_ || at >= measure_to_) return;
  delivered_words_ += packet.words;
  const std::uint64_t latency = at - packet.created;
  latency_sum_ += latency;
  latency_max_ = std::max(latency_max_, latency);
  latency_.add(static_cast<Nanoseconds>(latency));
}

}  // namespace nanet::torus
