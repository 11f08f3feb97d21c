// SPDX-License-Identifier: Apache-2.0
// Event-driven torus model: time wheel, input lanes, outputs with credits and round-robin arbitration.
//
// A lane is one VC of an input port. A passage is a packet in one lane; a packet that cuts through has
// several. Events of a cycle come first, then each changed output grants at most one packet: so the order of
// events within a cycle has no effect.
#include "nanet/torus/model.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>

#include "nanet/stats/histogram.hpp"

namespace nanet::torus {

namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};
constexpr std::uint64_t never = ~std::uint64_t{0};
constexpr unsigned lanes = ports * virtual_channels;
constexpr unsigned local_lane = local_port * virtual_channels;

struct Random {
  std::uint64_t state;
  std::uint64_t operator()() {  // SplitMix64
    std::uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(((*this)() >> 32) * n >> 32); }
};

// Records with a free list; grows only beyond what was reserved.
template <class T>
class Pool {
 public:
  explicit Pool(std::size_t reserved) { items_.reserve(reserved); }
  std::uint32_t take() {
    if (free_ == none) {
      items_.emplace_back();
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t index = free_;
    free_ = items_[index].next;
    return index;
  }
  void give(std::uint32_t index) {
    items_[index].next = free_;
    free_ = index;
  }
  void clear() {
    items_.clear();
    free_ = none;
  }
  T& operator[](std::uint32_t index) { return items_[index]; }

 private:
  std::vector<T> items_;
  std::uint32_t free_ = none;
};

enum Kind : std::uint32_t { head_event, tail_event, credit_event, source_event };

struct Event {
  std::uint32_t next, where, what;  // where: kind in the two upper bits, index below
};

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
  bool changed = false;
};

struct Source {
  std::uint64_t created = never;  // of the packet to inject next; never: no more
  std::uint32_t to = 0, words = 0, id = 0;
  std::uint32_t used[virtual_channels] = {};  // words in the local lanes
  std::uint8_t next_vc = 0;
  bool blocked = false;
};

void check(bool right, const std::string& text) {
  if (!right) throw std::invalid_argument(text);
}

}  // namespace

class Model::Engine {
 public:
  explicit Engine(const ModelOptions& options)
      : o_(options),
        t_(options.timing),
        nodes_(options.lattice.nodes()),
        event_(std::size_t{nodes_} * 32 + 1024),
        packet_(std::size_t{nodes_} * 16 + 1024),
        passage_(std::size_t{nodes_} * 32 + 1024),
        lane_(std::size_t{nodes_} * lanes),
        output_(std::size_t{nodes_} * ports),
        source_(nodes_),
        random_(nodes_),
        place_(nodes_),
        far_(std::size_t{nodes_} * 6),
        words_(std::size_t{nodes_} * 6),
        first_(wheel_size, none),
        last_(wheel_size, none) {
    changed_.reserve(output_.size());
    for (std::uint32_t n = 0; n < nodes_; ++n) {
      place_[n] = o_.lattice.at(n);
      for (unsigned p = 0; p < 6; ++p) far_[n * 6 + p] = o_.lattice.index(o_.lattice.neighbour(place_[n], p));
    }
  }

  LoadResult run(const Traffic& traffic) {
    const std::uint32_t words = words_of(traffic.payload_bytes);
    check(
        traffic.load > 0 && traffic.load <= 1,
        "load = " + std::to_string(traffic.load) + ": must be above 0 and at most 1 word per node and cycle");
    check(traffic.cycles > 0, "cycles = 0: must be at least 1");
    check(traffic.hot_share >= 0 && traffic.hot_share <= 1,
          "hot_share = " + std::to_string(traffic.hot_share) + ": must be 0 to 1");
    check(traffic.pattern != Pattern::transpose || o_.lattice.size[0] == o_.lattice.size[2],
          "pattern = transpose: sizes of x and z must be equal; choose another size or pattern");
    traffic_ = &traffic;
    deliveries_.clear();
    probability_ = traffic.load / words;
    log_miss_ = std::log1p(-probability_);
    packet_words_ = words;
    measure_from_ = traffic.warm_cycles;
    measure_to_ = traffic.warm_cycles + traffic.cycles;
    reset();
    for (std::uint32_t n = 0; n < nodes_; ++n) {
      Random seeds{o_.seed};
      random_[n].state = Random{seeds() + n}();  // hashed: sums with the generator's step would shift streams
      source_[n].created = 0;
      next_of_pattern(n, 0);
    }
    LoadResult r = loop(measure_to_);
    r.offered = traffic.load;
    return r;
  }

  std::vector<Delivery> play(std::span<const Injection> list) {
    traffic_ = nullptr;
    measure_from_ = 0;
    measure_to_ = never;
    for (const Injection& i : list) {
      check(i.from < nodes_ && i.to < nodes_, "node " + std::to_string(std::max(i.from, i.to)) +
                                                  ": must be below " + std::to_string(nodes_) +
                                                  ", the nodes of the lattice");
      words_of(i.payload_bytes);
    }
    std::vector<std::uint32_t> order(list.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return list[a].from < list[b].from; });
    list_ = list;
    order_ = order;
    deliveries_.assign(list.size(), {});
    list_at_.assign(nodes_ + 1, static_cast<std::uint32_t>(list.size()));
    for (std::uint32_t i = static_cast<std::uint32_t>(order.size()); i-- > 0;)
      list_at_[list[order[i]].from] = i;
    reset();
    for (std::uint32_t n = 0; n < nodes_; ++n) next_of_list(n, 0);
    loop(never);
    list_ = {};
    return std::move(deliveries_);
  }

  LoadResult exchange(std::uint32_t packets, std::uint32_t payload_bytes) {
    std::vector<Injection> list;
    list.reserve(std::size_t{nodes_} * packets * 6);
    for (std::uint32_t n = 0; n < nodes_; ++n)
      for (std::uint32_t k = 0; k < packets; ++k)
        for (unsigned p = 0; p < 6; ++p) list.push_back({0, n, far_[n * 6 + p], payload_bytes});
    const auto begin = std::chrono::steady_clock::now();
    const auto deliveries = play(list);
    LoadResult r = result_;
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const Delivery& d : deliveries) r.max_cycles = std::max(r.max_cycles, d.tail + 1);
    const auto words = static_cast<double>(list.size() * words_of(payload_bytes));
    r.accepted = r.max_cycles == 0 ? 0 : words / static_cast<double>(r.max_cycles) / nodes_;
    r.offered = r.accepted;
    return r;
  }

  std::span<const std::uint64_t> link_words() const { return words_; }

 private:
  static constexpr std::uint32_t wheel_size = 8192;  // cycles; longer than any stage

  std::uint32_t words_of(std::uint32_t payload_bytes) const {
    check(payload_bytes <= max_payload_bytes,
          "payload_bytes = " + std::to_string(payload_bytes) + ": must be at most 4096");
    const std::uint32_t words = 2 + (payload_bytes + 15) / 16;
    check(words <= t_.buffer_words,
          "payload_bytes = " + std::to_string(payload_bytes) + ": a packet of " + std::to_string(words) +
              " words does not fit into buffer_words = " + std::to_string(t_.buffer_words) +
              "; reduce it, or enlarge the buffers");
    return words;
  }

  void reset() {
    event_.clear();
    packet_.clear();
    passage_.clear();
    std::fill(lane_.begin(), lane_.end(), Lane{});
    std::fill(output_.begin(), output_.end(), Output{});
    for (Output& output : output_)
      for (Slot& slot : output.slot) slot.credit = static_cast<std::int32_t>(t_.buffer_words);
    std::fill(source_.begin(), source_.end(), Source{});
    std::fill(words_.begin(), words_.end(), 0);
    std::fill(first_.begin(), first_.end(), none);
    std::fill(last_.begin(), last_.end(), none);
    latency_.clear();
    pending_ = events_ = in_flight_ = delivered_words_ = latency_sum_ = latency_max_ = now_ = 0;
  }

  void schedule(std::uint64_t at, Kind kind, std::uint32_t index, std::uint32_t what = 0) {
    const std::uint32_t e = event_.take();
    event_[e] = {none, static_cast<std::uint32_t>(kind) << 30 | index, what};
    const auto bucket = static_cast<std::uint32_t>(at % wheel_size);
    if (first_[bucket] == none)
      first_[bucket] = e;
    else
      event_[last_[bucket]].next = e;
    last_[bucket] = e;
    ++pending_;
  }

  LoadResult loop(std::uint64_t end) {
    const auto begin = std::chrono::steady_clock::now();
    while (now_ < end && pending_ > 0) {
      const auto bucket = static_cast<std::uint32_t>(now_ % wheel_size);
      for (std::uint32_t e = first_[bucket]; e != none;) {
        const Event event = event_[e];
        event_.give(e);
        --pending_;
        ++events_;
        const std::uint32_t index = event.where & ((1u << 30) - 1);
        switch (static_cast<Kind>(event.where >> 30)) {
          case head_event:
            head(index, event.what);
            break;
          case tail_event:
            if (output_[index / 2].slot[index % 2].version == event.what) tail(index);
            break;
          case credit_event:
            if (output_[index].wake == now_) {
              output_[index].wake = never;
              mark(index);
            }
            break;
          case source_event:
            inject(index);
            break;
        }
        e = event.next;
      }
      first_[bucket] = none;
      for (const std::uint32_t o : changed_) {
        output_[o].changed = false;
        arbitrate(o);
      }
      changed_.clear();
      ++now_;
    }
    LoadResult r;
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    r.events = events_;
    r.packets = latency_.count();
    r.deadlocked = pending_ == 0 && in_flight_ > 0;
    r.max_cycles = latency_max_;
    if (r.packets > 0) r.mean_cycles = static_cast<double>(latency_sum_) / static_cast<double>(r.packets);
    r.p99_cycles = latency_.percentile(0.99);
    if (measure_to_ != never) {
      const auto cycles = static_cast<double>(measure_to_ - measure_from_);
      r.accepted = static_cast<double>(delivered_words_) / cycles / nodes_;
      std::uint64_t sum = 0, most = 0;
      for (const std::uint64_t w : words_) {
        sum += w;
        most = std::max(most, w);
      }
      r.link_load_max = static_cast<double>(most) / cycles;
      r.link_load_mean = static_cast<double>(sum) / cycles / static_cast<double>(words_.size());
    }
    result_ = r;
    return r;
  }

  void mark(std::uint32_t o) {
    if (output_[o].changed) return;
    output_[o].changed = true;
    changed_.push_back(o);
  }

  // The front passage of a lane requests its output.
  void request(std::uint32_t lane) {
    const std::uint32_t node = lane / lanes, p = lane_[lane].first;
    Passage& passage = passage_[p];
    const Routed routed =
        route(o_.lattice, place_[node], passage.in_port, place_[packet_[passage.packet].to], passage.vchan);
    passage.port = routed.port;
    passage.vc = static_cast<std::uint8_t>(routed.vc());
    passage.vchan = routed.vchan;
    const std::uint32_t o = node * ports + routed.port;
    output_[o].requests |= static_cast<std::uint16_t>(1u << lane % lanes);
    mark(o);
  }

  void head(std::uint32_t lane, std::uint32_t p) {
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

  std::int32_t credit(const Slot& slot, std::uint64_t at) const {
    if (at <= slot.stream_start) return slot.credit;
    const std::uint64_t flown = std::min<std::uint64_t>(at - slot.stream_start, slot.stream_words);
    return slot.credit + static_cast<std::int32_t>(flown);
  }

  void arbitrate(std::uint32_t o) {
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
          const std::int32_t there = credit(slot, now_);
          if (there < words) {
            const std::int32_t rest = slot.credit + static_cast<std::int32_t>(slot.stream_words) - words;
            if (rest >= 0)
              wake = std::min(wake, slot.stream_start + static_cast<std::uint64_t>(words - slot.credit));
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

  void grant(std::uint32_t o, unsigned lane) {
    Output& output = output_[o];
    const std::uint32_t node = o / ports, port = o % ports;
    const std::uint32_t l = node * lanes + lane, p = lane_[l].first;
    const Passage passage = passage_[p];
    const Packet& packet = packet_[passage.packet];
    Slot& slot = output.slot[passage.vc];
    output.requests &= static_cast<std::uint16_t>(~(1u << lane));
    output.next_lane = static_cast<std::uint8_t>((lane + 1) % lanes);
    const bool link = port != local_port;
    const std::uint32_t occupied = link ? t_.occupied(packet.words) : packet.words;
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
      passage_[q] = {
          never, none, passage.packet, none, 0, 0, static_cast<std::uint8_t>((port + 3) % 6), passage.vchan};
      slot.beyond = q;
      const std::uint32_t there = far_[node * 6 + port];
      schedule(now_ + t_.hop_cycles() + t_.passage(packet.words), head_event,
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
  void wake_next_cycle(std::uint32_t o) {
    Output& output = output_[o];
    const bool busy[2] = {output.slot[0].passage != none, output.slot[1].passage != none};
    if (output.requests == 0 || (busy[0] && busy[1]) || (t_.atomic && (busy[0] || busy[1]))) return;
    if (output.wake <= now_ + 1) return;
    output.wake = now_ + 1;
    schedule(now_ + 1, credit_event, o);
  }

  // The packet on the other VC of a link shares it from now on, or has it alone again.
  void slow(std::uint32_t o, unsigned vc, bool shared) {
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

  void tail(std::uint32_t s) {
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
    if (lane_[l].first != none) request(l);
    if (port != local_port) slow(o, (s & 1) ^ 1, false);
    mark(o);
  }

  void deliver(std::uint32_t id) {
    const Packet& packet = packet_[id];
    const std::uint64_t at = now_ - 1 + t_.out_cycles;
    --in_flight_;
    if (!deliveries_.empty()) deliveries_[packet.id].tail = at;
    if (at < measure_from_ || at >= measure_to_) return;
    delivered_words_ += packet.words;
    const std::uint64_t latency = at - packet.created;
    latency_sum_ += latency;
    latency_max_ = std::max(latency_max_, latency);
    latency_.add(static_cast<Nanoseconds>(latency));
  }

  // ------------------------------------------------------------------------------------------- sources

  // Destination and creation time of a node's next packet, created at s.created or later.
  void next_of_pattern(std::uint32_t n, std::uint64_t not_before) {
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

  void next_of_list(std::uint32_t n, std::uint64_t not_before) {
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
  void wait_for(std::uint32_t n, std::uint64_t not_before = 0) {
    const std::uint64_t at = std::max({source_[n].created, not_before, now_});
    schedule(std::min(at, now_ + wheel_size - 1), source_event, n);
  }

  void inject(std::uint32_t n) {
    Source& s = source_[n];
    if (s.created > now_) {
      wait_for(n);
      return;
    }
    unsigned vc = s.used[0] == s.used[1] ? s.next_vc : (s.used[1] < s.used[0] ? 1 : 0);
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
    if (traffic_ != nullptr) {
      ++s.created;
      next_of_pattern(n, free);
    } else {
      next_of_list(n, free);
    }
  }

  ModelOptions o_;
  Timing t_;
  std::uint32_t nodes_;
  Pool<Event> event_;
  Pool<Packet> packet_;
  Pool<Passage> passage_;
  std::vector<Lane> lane_;
  std::vector<Output> output_;
  std::vector<Source> source_;
  std::vector<Random> random_;
  std::vector<Coordinates> place_;
  std::vector<std::uint32_t> far_;           // neighbour by node * 6 + port
  std::vector<std::uint64_t> words_;         // by node * 6 + port
  std::vector<std::uint32_t> first_, last_;  // of the wheel's buckets
  std::vector<std::uint32_t> changed_;
  std::span<const Injection> list_;
  std::vector<std::uint32_t> order_, list_at_;
  std::vector<Delivery> deliveries_;
  stats::Histogram latency_;
  LoadResult result_;
  const Traffic* traffic_ = nullptr;
  double probability_ = 0, log_miss_ = -1;
  std::uint32_t packet_words_ = 0;
  std::uint64_t measure_from_ = 0, measure_to_ = never;
  std::uint64_t now_ = 0, pending_ = 0, events_ = 0, in_flight_ = 0;
  std::uint64_t delivered_words_ = 0, latency_sum_ = 0, latency_max_ = 0;
};

Model::Model(const ModelOptions& options) {
  const Lattice& l = options.lattice;
  constexpr unsigned most[3] = {64, 32, 32};
  for (unsigned d = 0; d < 3; ++d)
    check(l.size[d] >= 1 && l.size[d] <= most[d], std::string("size of ") + "xyz"[d] + " = " +
                                                      std::to_string(l.size[d]) + ": must be 1 to " +
                                                      std::to_string(most[d]));
  unsigned seen = 0;
  for (const unsigned d : l.order) seen |= d < 3 ? 1u << d : 8u;
  check(seen == 7, "order: must name each dimension once");
  const Timing& t = options.timing;
  check(t.route_cycles + t.out_cycles >= 1 && t.hop_cycles() + t.link_cycles + t.credit_cycles < 2000,
        "timing: a hop takes 1 to 2000 cycles");
  engine_ = std::make_unique<Engine>(options);
}

Model::~Model() = default;

LoadResult Model::run(const Traffic& traffic) {
  return engine_->run(traffic);
}

std::vector<Delivery> Model::play(std::span<const Injection> list) {
  return engine_->play(list);
}

LoadResult Model::exchange(std::uint32_t packets, std::uint32_t payload_bytes) {
  return engine_->exchange(packets, payload_bytes);
}

std::span<const std::uint64_t> Model::link_words() const {
  return engine_->link_words();
}

}  // namespace nanet::torus
