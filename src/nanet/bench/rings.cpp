// SPDX-License-Identifier: Apache-2.0
// Ring benchmark on CPUs: timing and operation counts.
#include "nanet/bench/rings.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "nanet/bench/counting_lanes.hpp"
#include "nanet/generated/algorithms.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/rich/reconstructor.hpp"

namespace nanet::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One thread's share: batches from a separate start in the events, cyclic.
class Runner {
 public:
  Runner(const rich::EventBatch& events, std::uint32_t batch, std::uint32_t at,
         std::unique_ptr<rich::Reconstructor> algorithm)
      : events_(events), batch_(batch), at_(at), algorithm_(std::move(algorithm)), rings_(batch) {}

  void run(double seconds) {
    const std::uint32_t some = std::min(batch_, 4096u);
    call(some);  // warms up result memory, code and clock rates
    const auto trial = Clock::now();
    call(some);
    const double one_batch = seconds_since(trial) * batch_ / some;
    const auto block = static_cast<std::uint32_t>(std::clamp(50e-6 / std::max(one_batch, 1e-9), 1.0, 1e4));
    blocks_.reserve(static_cast<std::size_t>(seconds / 50e-6) + 2);
    rings_found_ = events_done_ = 0;
    const auto start = Clock::now();
    do {
      const auto from = Clock::now();
      for (std::uint32_t i = 0; i < block; ++i) call(batch_);
      blocks_.push_back(seconds_since(from) / block);
    } while (seconds_since(start) < seconds);
    elapsed_ = seconds_since(start);
  }

  void add_to(RingsCpuResult& result, std::vector<double>& blocks) const {
    result.events_per_s += static_cast<double>(events_done_) / elapsed_;
    result.events += events_done_;
    result.rings += rings_found_;
    result.elapsed_s = std::max(result.elapsed_s, elapsed_);
    blocks.insert(blocks.end(), blocks_.begin(), blocks_.end());
  }

 private:
  void call(std::uint32_t events) {
    if (at_ + events > events_.events) at_ = 0;
    (*algorithm_)({events, events_.first + at_, events_.pm}, rings_.data());
    at_ += events;
    events_done_ += events;
    rings_found_ += rings_[events - 1].count;
  }

  rich::EventBatch events_;
  std::uint32_t batch_, at_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  std::vector<rich::Rings> rings_;
  std::vector<double> blocks_;
  std::uint64_t events_done_ = 0, rings_found_ = 0;
  double elapsed_ = 0;
};

template <class A>
  requires requires { typename A::Scratch; }
double count(const A& algorithm, const rich::EventBatch& events) {
  std::vector<rich::Point> plane(rich::plane_table_size);
  const rich::Geometry geometry = rich::Geometry::make();
  std::copy(geometry.common.begin(), geometry.common.end(), plane.begin());
  const auto scratch = std::make_unique<typename A::Scratch>();
  rich::Rings rings;
  counted_operations = 0;
  for (std::uint32_t i = 0; i < events.events; ++i)
    algorithm.template operator()<CountingLanes>(events.view(i), plane.data(), *scratch, rings);
  return static_cast<double>(counted_operations) / events.events;
}

// MATH uses one lane per event and one step per hit: eight additions per hit, constant operations per fit.
double count(const rich::Math& math, const rich::EventBatch& events) {
  using F = CountingLanes::F;
  const auto per_lane = [] { return static_cast<double>(counted_operations) / rich::lane_count; };
  const rich::Math::Moments<CountingLanes> moments;
  constexpr double per_hit = 8;
  rich::Math::Fit<CountingLanes> fit;
  counted_operations = 0;
  math.solve(moments, F(4.0f), fit);
  const double per_fit = per_lane();
  double sum = 0;
  for (std::uint32_t i = 0; i < events.events; ++i) {
    const std::uint32_t hits = std::min(events.view(i).hits, max_event_hits);
    if (hits >= math.parameters.min_hits) sum += per_hit * hits + per_fit;
  }
  return sum / events.events;
}

// No count for algorithms without lanes, except MATH.
template <class A>
std::optional<double> count_if_possible(const rich::EventBatch& events) {
  if constexpr (requires { count(A{}, events); }) return count(A{}, events);
  return std::nullopt;
}

template <class... A>
std::optional<double> count_of(rich::AlgorithmList<A...>, std::string_view name,
                               const rich::EventBatch& events) {
  std::optional<double> result;
  ((name == A::name ? void(result = count_if_possible<A>(events)) : void()), ...);
  return result;
}

}  // namespace

RingEvents ring_events(std::uint32_t events, double noise, int rings, std::uint64_t seed) {
  rich::GeneratorOptions options;
  options.noise = noise;
  options.rings = rings;
  options.seed = seed;
  rich::Generator generator(options, rich::Geometry::make());
  RingEvents columns;
  columns.first.reserve(std::size_t{events} + 1);
  columns.first.push_back(0);
  rich::TrueEvent event;
  for (std::uint32_t i = 0; i < events; ++i) {
    generator.next(event);
    const std::size_t begin = columns.pm.size();
    for (const rich::TrueHit& hit : event.hits) {  // by PM; several owners are consecutive
      if (columns.pm.size() == begin || columns.pm.back() != hit.pm) columns.pm.push_back(hit.pm);
    }
    columns.pm.resize(std::min<std::size_t>(columns.pm.size(), begin + max_event_hits));
    columns.first.push_back(static_cast<std::uint32_t>(columns.pm.size()));
  }
  return columns;
}

RingsCpuResult rings_cpu(const rich::EventBatch& events, const RingsCpuOptions& options) {
  if (options.batch == 0 || options.batch > events.events)
    throw std::invalid_argument("batch = " + std::to_string(options.batch) + ": must be from 1 to the " +
                                std::to_string(events.events) + " events given");
  if (options.threads == 0 || options.threads > 1024)
    throw std::invalid_argument("threads = " + std::to_string(options.threads) + ": must be from 1 to 1024");
  const auto algorithm =
      rich::make_reconstructor(options.algorithm, options.parameters, rich::Geometry::make(), options.simd);
  std::vector<Runner> runners;
  for (unsigned t = 0; t < options.threads; ++t) {
    const std::uint64_t at = std::uint64_t{events.events} * t / options.threads;
    runners.emplace_back(events, options.batch, static_cast<std::uint32_t>(at), algorithm->clone());
  }
  if (options.threads == 1) {
    runners[0].run(options.seconds);
  } else {
    std::barrier start(static_cast<std::ptrdiff_t>(options.threads));
    std::vector<std::jthread> threads;
    for (Runner& runner : runners)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        runner.run(options.seconds);
      });
  }  // joins
  RingsCpuResult result;
  std::vector<double> blocks;
  for (const Runner& runner : runners) runner.add_to(result, blocks);
  std::sort(blocks.begin(), blocks.end());
  result.batch_us = 1e6 * blocks[blocks.size() / 2];
  result.batch_us_least = 1e6 * blocks.front();
  return result;
}

std::optional<double> operations_per_event(std::string_view algorithm, const rich::EventBatch& events) {
  if (events.events == 0) return std::nullopt;
  return count_of(rich::RingAlgorithms{}, algorithm, events);
}

double most_operations_per_s(double seconds) {
  using L = rich::HostLanes;
  constexpr int chains = 8;  // of 32 lanes: hides the latency and fits in the registers
  constexpr int steps = 4096;
  L::F sum[chains];
  for (int k = 0; k < chains; ++k) sum[k] = L::F(static_cast<float>(k));
  const L::F a(0.999f), b(0.001f);
  std::uint64_t rounds = 0;
  const auto start = Clock::now();
  double elapsed = 0;
  do {
    for (int i = 0; i < steps; ++i)
      for (L::F& s : sum) s = L::fma(s, a, b);
    ++rounds;
    elapsed = seconds_since(start);
  } while (elapsed < seconds);
  volatile float kept = 0;
  for (const L::F& s : sum) kept = kept + L::sum(s);
  return 2.0 * rich::lane_count * chains * steps * static_cast<double>(rounds) / elapsed;
}

}  // namespace nanet::bench
