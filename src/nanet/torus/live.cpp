// SPDX-License-Identifier: Apache-2.0
// Torus model: live network, whose packets come from other programs while it runs.
#include <cstdint>
#include <vector>

#include "nanet/torus/engine.hpp"

namespace nanet::torus {

void Model::Engine::open() {
  traffic_ = nullptr;
  steps_.clear();
  deliveries_.clear();
  measure_from_ = 0;
  measure_to_ = never;
  reset();
  queue_pool_.clear();
  queued_.assign(nodes_, {});
}

void Model::Engine::send(std::uint32_t from, std::uint32_t to, std::uint32_t payload_bytes,
                         std::uint32_t id) {
  const std::uint32_t words = words_of(payload_bytes);
  const std::uint32_t k = queue_pool_.take();
  queue_pool_[k] = {now_, none, to, words, id};
  Queue& queue = queued_[from];
  (queue.first == none ? queue.first : queue_pool_[queue.last].next) = k;
  queue.last = k;
  ++queue.count;
  if (source_[from].created == never) next_of_queue(from, source_[from].free);
}

void Model::Engine::next_of_queue(std::uint32_t n, std::uint64_t not_before) {
  Source& s = source_[n];
  Queue& queue = queued_[n];
  s.free = not_before;
  if (queue.first == none) {
    s.created = never;
    return;
  }
  const std::uint32_t k = queue.first;
  const Queued next = queue_pool_[k];
  queue.first = next.next;
  --queue.count;
  queue_pool_.give(k);
  s.created = next.created;
  s.to = next.to;
  s.words = next.words;
  s.id = next.id;
  wait_for(n, not_before);
}

bool Model::Engine::step(std::uint64_t cycles, std::vector<Arrival>& arrivals) {
  arrivals_ = &arrivals;
  const std::size_t before = arrivals.size();
  for (const std::uint64_t end = now_ + cycles; now_ < end && wheel_.pending() > 0;) {
    cycle();
    if (arrivals.size() > before) break;
  }
  arrivals_ = nullptr;
  return wheel_.pending() > 0;
}

}  // namespace nanet::torus
