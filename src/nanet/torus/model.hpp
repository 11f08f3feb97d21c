// SPDX-License-Identifier: Apache-2.0
// Event-driven model of a torus: packets as events (head, tail, credit), in cycles, with route(), two VCs and
// virtual cut-through. Deterministic: the same options give the same result on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "nanet/stats/counter_list.hpp"
#include "nanet/torus/route.hpp"
#include "nanet/torus/timing.hpp"

namespace nanet::torus {

enum class Pattern : std::uint8_t {
  uniform,    // every node with equal probability, the sender included
  transpose,  // (x, y, z) to (z, y, x); sizes of x and z are equal
  neighbour,  // x + 1
  hotspot,    // node 0 with probability hot_share, else uniform
  halo,       // the six neighbours in turn
};

struct ModelOptions {
  Lattice lattice;
  Timing timing;
  std::uint64_t seed = 1;
};

// Open-loop traffic: each node creates packets in a Bernoulli process, whether the network accepts them or
// not.
struct Traffic {
  Pattern pattern = Pattern::uniform;
  double load = 0.5;                  // words (header and footer included) per node and cycle
  std::uint32_t payload_bytes = 256;  // at most 4096
  double hot_share = 0.2;
  std::uint64_t warm_cycles = 2'000;
  std::uint64_t cycles = 8'000;  // measured, after warm_cycles
};

struct LoadResult {
  double offered = 0;      // words per node and cycle
  double accepted = 0;     // words delivered per node and cycle
  double mean_cycles = 0;  // creation to tail delivered, of packets delivered in the measured time
  double p99_cycles = 0;
  std::uint64_t max_cycles = 0;
  std::uint64_t packets = 0;
  std::uint64_t events = 0;  // of the whole run
  double seconds = 0;        // wall clock of the whole run
  double link_load_max = 0;  // words per cycle of the busiest link
  double link_load_mean = 0;
  bool deadlocked = false;
};

struct Injection {
  std::uint64_t at = 0;  // cycle
  std::uint32_t from = 0, to = 0;
  std::uint32_t payload_bytes = 0;
};
struct Delivery {
  std::uint64_t head = 0, tail = 0;  // cycles at the local output of the destination; 0: not delivered
};

// Packet delivered by a live network.
struct Arrival {
  std::uint32_t id = 0;
  std::uint64_t created = 0, tail = 0;  // cycles
};

// Words of a reliable link damaged at random; their cells are sent again (go-back-N).
struct LinkErrors {
  std::uint32_t node = 0;
  std::uint8_t port = 0;               // output, 0 to 5
  double word_rate = 0;                // probability of a damaged word, at most 0.1
  std::uint64_t from = 0, to = ~0ull;  // cycles
};

// Communication of a parallel program, on every node: a halo exchange with the six neighbours; a
// transposition (x, y, z) to (z, y, x), where sizes allow it; a sum over all nodes by rings along X, Y and Z
// (one packet of 16 B per step); computation. A node goes on once its packets of a step have left and those
// for it are there.
struct Program {
  std::uint32_t iterations = 100;
  std::uint32_t packets = 16;  // to each neighbour, and to the partner of the transposition
  std::uint32_t payload_bytes = 1024;
  std::uint32_t compute_cycles = 4'000;
  bool transpose = true;
  bool sum = true;
};

struct Progress {
#define NANET_LINE(name, metric, text) std::uint64_t name = 0;
  NANET_TORUS_COUNTERS(NANET_LINE)
#undef NANET_LINE
  std::uint64_t cycles = 0;  // since the start
  std::uint64_t events = 0;
  double mean_cycles = 0, p99_cycles = 0;  // creation to tail delivered
  std::uint64_t max_cycles = 0;
  bool done = false;
  bool deadlocked = false;
};

class Model {
 public:
  // std::invalid_argument with key, value and remedy.
  explicit Model(const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Each call starts with an empty network.
  LoadResult run(const Traffic& traffic);
  // Plays a list of packets until all are delivered. Packets of a node leave in the order of the list.
  std::vector<Delivery> play(std::span<const Injection> list);
  // Each node sends `packets` packets to each of its six neighbours, all at cycle 0; cycles until the last
  // tail.
  LoadResult exchange(std::uint32_t packets, std::uint32_t payload_bytes);

  // Errors of links in all calls that follow; replaces those given before.
  void damage(std::span<const LinkErrors> errors);

  // Begins a program; advance() runs it for at most `cycles` cycles.
  void start(const Program& program);
  Progress advance(std::uint64_t cycles);

  // Live network, for packets of other programs: open() empties it, send() adds a packet at the present
  // cycle. Packets from one node to another arrive in order. step() runs until packets are delivered, for at
  // most `cycles` cycles; false: the network is empty, and its clock stops.
  void open();
  void send(std::uint32_t from, std::uint32_t to, std::uint32_t payload_bytes, std::uint32_t id);
  bool step(std::uint64_t cycles, std::vector<Arrival>& arrivals);
  std::uint32_t waiting(std::uint32_t node) const;  // packets sent that have not entered the network
  Progress progress() const;                        // of the live network since open(); without iterations
  std::uint64_t now() const;

  // Per output link of the last run, index node * 6 + port; words: measured time only.
  std::span<const std::uint64_t> link_words() const;
  std::span<const std::uint64_t> link_resent() const;  // cells

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

// Cycles from header in at the source to tail out at the destination in an empty network.
constexpr std::uint64_t unloaded_cycles(const Lattice& lattice, const Timing& timing, const Coordinates& from,
                                        const Coordinates& to, std::uint32_t payload_bytes) {
  const std::uint32_t words = 2 + (payload_bytes + 15) / 16;
  const std::uint64_t links = hops(lattice, from, to);
  const std::uint64_t last = links == 0 ? words : timing.occupied(words);
  return (links + 1) * timing.hop_cycles() + links * timing.passage(words) + last - 1;
}

}  // namespace nanet::torus
