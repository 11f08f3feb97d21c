// SPDX-License-Identifier: Apache-2.0
// Event-driven torus model: runs and their results.
#include "nanet/torus/model.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "nanet/torus/engine.hpp"

namespace nanet::torus {

Model::Engine::Engine(const ModelOptions& options)
    : o_(options),
      t_(options.timing),
      nodes_(options.lattice.nodes()),
      wheel_(std::size_t{nodes_} * 32 + 1024),
      packet_(std::size_t{nodes_} * 16 + 1024),
      passage_(std::size_t{nodes_} * 32 + 1024),
      lane_(std::size_t{nodes_} * lanes),
      output_(std::size_t{nodes_} * ports),
      source_(nodes_),
      random_(nodes_),
      place_(nodes_),
      far_(std::size_t{nodes_} * 6),
      words_(std::size_t{nodes_} * 6),
      resent_(std::size_t{nodes_} * 6) {
  changed_.reserve(output_.size());
  for (std::uint32_t n = 0; n < nodes_; ++n) {
    place_[n] = o_.lattice.at(n);
    for (unsigned p = 0; p < 6; ++p) far_[n * 6 + p] = o_.lattice.index(o_.lattice.neighbour(place_[n], p));
  }
}

LoadResult Model::Engine::run(const Traffic& traffic) {
  const std::uint32_t words = words_of(traffic.payload_bytes);
  check(traffic.load > 0 && traffic.load <= 1,
        "load = " + std::to_string(traffic.load) + ": must be above 0 and at most 1 word per node and cycle");
  check(traffic.cycles > 0, "cycles = 0: must be at least 1");
  check(traffic.hot_share >= 0 && traffic.hot_share <= 1,
        "hot_share = " + std::to_string(traffic.hot_share) + ": must be 0 to 1");
  check(traffic.pattern != Pattern::transpose || o_.lattice.size[0] == o_.lattice.size[2],
        "pattern = transpose: sizes of x and z must be equal; choose another size or pattern");
  traffic_ = &traffic;
  steps_.clear();
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

std::vector<Delivery> Model::Engine::play(std::span<const Injection> list) {
  traffic_ = nullptr;
  steps_.clear();
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

LoadResult Model::Engine::exchange(std::uint32_t packets, std::uint32_t payload_bytes) {
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

std::uint32_t Model::Engine::words_of(std::uint32_t payload_bytes) const {
  check(payload_bytes <= max_payload_bytes,
        "payload_bytes = " + std::to_string(payload_bytes) + ": must be at most 4096");
  const std::uint32_t words = 2 + (payload_bytes + 15) / 16;
  check(words <= t_.buffer_words,
        "payload_bytes = " + std::to_string(payload_bytes) + ": a packet of " + std::to_string(words) +
            " words does not fit into buffer_words = " + std::to_string(t_.buffer_words) +
            "; reduce it, or enlarge the buffers");
  return words;
}

void Model::Engine::reset() {
  wheel_.clear();
  packet_.clear();
  passage_.clear();
  std::fill(lane_.begin(), lane_.end(), Lane{});
  std::fill(output_.begin(), output_.end(), Output{});
  for (Output& output : output_)
    for (Slot& slot : output.slot) slot.credit = static_cast<std::int32_t>(t_.buffer_words);
  std::fill(source_.begin(), source_.end(), Source{});
  std::fill(words_.begin(), words_.end(), 0);
  std::fill(resent_.begin(), resent_.end(), 0);
  queued_.clear();
  error_random_.state = o_.seed ^ 0x6C696E6B;
  cells_sent_ = cells_damaged_ = cells_resent_ = 0;
  latency_.clear();
  events_ = in_flight_ = delivered_words_ = latency_sum_ = latency_max_ = now_ = 0;
}

void Model::Engine::cycle() {
  wheel_.take(now_, [&](std::uint32_t kind, std::uint32_t index, std::uint32_t what) {
    ++events_;
    switch (static_cast<Kind>(kind)) {
      case head_event:
        head(index, what);
        break;
      case tail_event:
        if (output_[index / 2].slot[index % 2].version == what) tail(index);
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
      case request_event:
        request(index);
        break;
    }
  });
  for (const std::uint32_t o : changed_) {
    output_[o].changed = false;
    arbitrate(o);
  }
  changed_.clear();
  ++now_;
}

LoadResult Model::Engine::loop(std::uint64_t end) {
  const auto begin = std::chrono::steady_clock::now();
  while (now_ < end && wheel_.pending() > 0) cycle();
  LoadResult r;
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  r.events = events_;
  r.packets = latency_.count();
  r.deadlocked = wheel_.pending() == 0 && in_flight_ > 0;
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

void Model::damage(std::span<const LinkErrors> errors) {
  engine_->damage(errors);
}

void Model::start(const Program& program) {
  engine_->start(program);
}

Progress Model::advance(std::uint64_t cycles) {
  return engine_->advance(cycles);
}

Progress Model::progress() const {
  return engine_->progress();
}

void Model::open() {
  engine_->open();
}

void Model::send(std::uint32_t from, std::uint32_t to, std::uint32_t payload_bytes, std::uint32_t id) {
  engine_->send(from, to, payload_bytes, id);
}

bool Model::step(std::uint64_t cycles, std::vector<Arrival>& arrivals) {
  return engine_->step(cycles, arrivals);
}

std::uint32_t Model::waiting(std::uint32_t node) const {
  return engine_->waiting(node);
}

std::uint64_t Model::now() const {
  return engine_->now();
}

std::span<const std::uint64_t> Model::link_words() const {
  return engine_->link_words();
}

std::span<const std::uint64_t> Model::link_resent() const {
  return engine_->link_resent();
}

}  // namespace nanet::torus
