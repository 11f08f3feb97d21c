// SPDX-License-Identifier: Apache-2.0
// Packet sources of the torus model: traffic patterns and lists.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "nanet/torus/engine.hpp"

namespace nanet::torus {

// Destination and creation time of a node's next packet, created at s.created or later.
void Model::Engine::next_of_pattern(std::uint32_t n, std::uint64_t not_before) {
  Source& s = source_[n];
  Random& random = random_[n];
  const double gap = std::floor(std::log(1.0 - random.uniform()) / log_miss_);
  s.created += static_cast<std::uint64_t>(std::min(gap, 1e15));
  s.words = packet_words_;
  Coordinates at = place_[n];
  switch (traffic_->pattern) {
    case Pattern::uniform:
      s.to = random.below(nodes_);
      break;
    case Pattern::transpose:
      s.to = o_.lattice.index({at[2], at[1], at[0]});
      break;
    case Pattern::neighbour:
      s.to = far_[n * 6];
      break;
    case Pattern::hotspot:
      s.to = random.uniform() < traffic_->hot_share ? 0 : random.below(nodes_);
      break;
    case Pattern::halo:
      s.to = far_[n * 6 + s.id++ % 6];
      break;
  }
  wait_for(n, not_before);
}

void Model::Engine::next_of_list(std::uint32_t n, std::uint64_t not_before) {
  Source& s = source_[n];
  const std::uint32_t at = list_at_[n];
  if (at >= order_.size() || list_[order_[at]].from != n) {
    s.created = never;
    return;
  }
  ++list_at_[n];
  const Injection& injection = list_[order_[at]];
  s.created = injection.at;
  s.to = injection.to;
  s.words = words_of(injection.payload_bytes);
  s.id = order_[at];
  wait_for(n, not_before);
}

// The next source event of a node: at creation, or at the end of the wheel.
void Model::Engine::wait_for(std::uint32_t n, std::uint64_t not_before) {
  const std::uint64_t at = std::max({source_[n].created, not_before, now_});
  schedule(std::min(at, now_ + TimeWheel::size - 1), source_event, n);
}

void Model::Engine::inject(std::uint32_t n) {
  Source& s = source_[n];
  if (s.created > now_) {
    wait_for(n);
    return;
  }
  unsigned vc = s.used[0] == s.used[1] ? s.next_vc : (s.used[1] < s.used[0] ? 1 : 0);
  if (!queued_.empty()) vc = s.to & 1;  // packets to one node keep their order
  if (s.used[vc] + s.words > t_.buffer_words) {
    s.blocked = true;
    return;
  }
  s.used[vc] += s.words;
  s.next_vc = static_cast<std::uint8_t>(vc ^ 1);
  const std::uint32_t id = packet_.take();
  packet_[id] = {s.created, none, n, s.to, s.words, s.id};
  const std::uint32_t p = passage_.take();
  passage_[p] = {now_ + s.words - 1 + t_.route_cycles, none, id, none, 0, 0, local_port, vchan_inject};
  schedule(now_ + t_.route_cycles, head_event, n * lanes + local_lane + vc, p);
  ++in_flight_;
  const std::uint64_t free = now_ + s.words;
  if (!queued_.empty()) {
    next_of_queue(n, free);
  } else if (!steps_.empty()) {
    next_of_program(n, free);
  } else if (traffic_ != nullptr) {
    ++s.created;
    next_of_pattern(n, free);
  } else {
    next_of_list(n, free);
  }
}

}  // namespace nanet::torus
