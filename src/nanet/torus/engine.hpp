// SPDX-License-Identifier: Apache-2.0
// Engine of the torus model: input lanes, outputs with credits and round-robin arbitration, packet sources.
//
// A lane is one VC of an input port. A passage is a packet in one lane; a packet that cuts through has
// several. Events of a cycle come first, then each changed output grants at most one packet: so the order of
// events within a cycle has no effect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanet/stats/histogram.hpp"
#include "nanet/torus/model.hpp"
#include "nanet/torus/pool.hpp"
#include "nanet/torus/time_wheel.hpp"

namespace nanet::torus {

inline constexpr std::uint64_t never = ~std::uint64_t{0};
inline constexpr unsigned lanes = ports * virtual_channels;
inline constexpr unsigned local_lane = local_port * virtual_channels;

inline void check(bool right, const std::string& text) {
  if (!right) throw std::invalid_argument(text);
}

class Model::Engine {
 public:
  explicit Engine(const ModelOptions& options);

  LoadResult run(const Traffic& traffic);
  std::vector<Delivery> play(std::span<const Injection> list);
  LoadResult exchange(std::uint32_t packets, std::uint32_t payload_bytes);
  std::span<const std::uint64_t> link_words() const { return words_; }
  std::span<const std::uint64_t> link_resent() const { return resent_; }
  void damage(std::span<const LinkErrors> errors);
  void start(const Program& program);
  Progress progress() { return progress_of(loop(now_)); }
  Progress advance(std::uint64_t cycles);
  void open();
  void send(std::uint32_t from, std::uint32_t to, std::uint32_t payload_bytes, std::uint32_t id);
  bool step(std::uint64_t cycles, std::vector<Arrival>& arrivals);
  std::uint32_t waiting(std::uint32_t node) const { return queued_[node].count; }
  std::uint64_t now() const { return now_; }

 private:
  // SplitMix64.
  struct Random {
    std::uint64_t state;
    std::uint64_t operator()() {
      std::uint64_t z = state += 0x9E3779B97F4A7C15u;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      return z ^ z >> 31;
    }
    double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(((*this)() >> 32) * n >> 32); }
  };

  enum Kind : std::uint32_t { head_event, tail_event, credit_event, source_event, request_event };

  struct Packet {
    std::uint64_t created;
    std::uint32_t next, from, to, words, id;
  };

  struct Passage {
    std::uint64_t tail_at;  // earliest grant of the tail; never: the tail has not left the router before
    std::uint32_t next, packet;
    std::uint32_t waiting;  // output slot that waits for the tail
    std::uint8_t port, vc, in_port, vchan;
  };

  struct Lane {
    std::uint32_t first = none, last = none;
  };

  // One VC of an output.
  struct Slot {
    std::uint64_t since = 0;         // of the last change of `left`
    std::uint64_t stream_start = 0;  // credits of the newest packet that leaves the buffer beyond
    std::uint32_t passage = none;    // none: free
    std::uint32_t beyond = none;     // passage in the next router
    std::uint32_t left = 0;          // half words
    std::uint32_t version = 0;       // of the tail event
    std::int32_t credit = 0;         // without the newest stream
    std::uint32_t stream_words = 0;
    std::uint8_t lane = 0;
  };

  struct Output {
    Slot slot[virtual_channels];
    std::uint64_t wake = never;
    std::uint16_t requests = 0;
    std::uint8_t next_lane = 0;
    std::uint8_t turn_lane = 0;
    std::uint8_t turn = 0;  // packets of turn_lane in its turn
    bool changed = false;
  };

  struct Source {
    std::uint64_t created = never;  // of the packet to inject next; never: no more
    std::uint32_t to = 0, words = 0, id = 0;
    std::uint32_t used[virtual_channels] = {};  // words in the local lanes
    std::uint8_t next_vc = 0;
    bool blocked = false;
    std::uint64_t free = 0;  // live network: end of the injection before
  };

  // Packets of a live network that wait for their node's source.
  struct Queued {
    std::uint64_t created;
    std::uint32_t next, to, words, id;
  };
  struct Queue {
    std::uint32_t first = none, last = none, count = 0;
  };

  // A step of a program: a node sends as many packets as it receives.
  struct Step {
    std::uint32_t packets, words;  // to each
    std::uint8_t ports;            // bits of the outputs to them; 0: to the partner of the transposition
  };

  // A node's state in a program.
  struct Rank {
    std::uint64_t ready = 0;  // end of computation, or of the injection of the packet before
    std::uint32_t step = 0, sent = 0;
    bool waiting = false;
  };

  // Delays by damaged cells of a packet on a link: of its header, and of its tail.
  struct Repetition {
    std::uint32_t header = 0, tail = 0;
  };

  std::uint32_t words_of(std::uint32_t payload_bytes) const;
  void reset();
  void cycle();
  Progress progress_of(const LoadResult& r) const;
  LoadResult loop(std::uint64_t end);
  void schedule(std::uint64_t at, Kind kind, std::uint32_t index, std::uint32_t what = 0) {
    wheel_.add(at, kind, index, what);
  }

  // Routers (routers.cpp).
  void mark(std::uint32_t o);
  void request(std::uint32_t lane, std::uint32_t before = none);
  void head(std::uint32_t lane, std::uint32_t p);
  std::int32_t credit(const Slot& slot, std::uint64_t at) const;
  void arbitrate(std::uint32_t o);
  void grant(std::uint32_t o, unsigned lane);
  void wake_next_cycle(std::uint32_t o);
  void slow(std::uint32_t o, unsigned vc, bool shared);
  void tail(std::uint32_t s);
  void deliver(std::uint32_t id);

  // Sources (sources.cpp).
  void next_of_pattern(std::uint32_t n, std::uint64_t not_before);
  void next_of_list(std::uint32_t n, std::uint64_t not_before);
  void wait_for(std::uint32_t n, std::uint64_t not_before = 0);
  void inject(std::uint32_t n);

  // Live network (live.cpp).
  void next_of_queue(std::uint32_t n, std::uint64_t not_before);

  // Programs and link errors (program.cpp).
  void next_of_program(std::uint32_t n, std::uint64_t not_before);
  void arrived(std::uint32_t n, std::uint32_t step);
  Repetition repeat(std::uint32_t link, std::uint32_t words);

  ModelOptions o_;
  Timing t_;
  std::uint32_t nodes_;
  TimeWheel wheel_;
  Pool<Packet> packet_;
  Pool<Passage> passage_;
  std::vector<Lane> lane_;
  std::vector<Output> output_;
  std::vector<Source> source_;
  std::vector<Random> random_;
  std::vector<Coordinates> place_;
  std::vector<std::uint32_t> far_;    // neighbour by node * 6 + port
  std::vector<std::uint64_t> words_;  // by node * 6 + port
  std::vector<std::uint64_t> resent_;
  std::vector<LinkErrors> errors_;
  Random error_random_{};
  std::uint64_t cells_sent_ = 0, cells_damaged_ = 0, cells_resent_ = 0;
  std::vector<Step> steps_;  // of an iteration; empty: no program
  std::vector<Rank> rank_;
  std::vector<std::uint32_t> received_;  // by node and step modulo received_steps_
  std::uint32_t received_steps_ = 0, last_step_ = 0, compute_cycles_ = 0;
  std::vector<std::uint32_t> changed_;
  std::span<const Injection> list_;
  std::vector<std::uint32_t> order_, list_at_;
  std::vector<Delivery> deliveries_;
  Pool<Queued> queue_pool_{0};
  std::vector<Queue> queued_;  // by node; empty: no live network
  std::vector<Arrival>* arrivals_ = nullptr;
  stats::Histogram latency_;
  LoadResult result_;
  const Traffic* traffic_ = nullptr;
  double probability_ = 0, log_miss_ = -1;
  std::uint32_t packet_words_ = 0;
  std::uint64_t measure_from_ = 0, measure_to_ = never;
  std::uint64_t now_ = 0, events_ = 0, in_flight_ = 0;
  std::uint64_t delivered_words_ = 0, latency_sum_ = 0, latency_max_ = 0;
};

}  // namespace nanet::torus
