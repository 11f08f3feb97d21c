// SPDX-License-Identifier: Apache-2.0
// Needs a GPU (label gpu): the device's rings and primitives against the CPU's, for every algorithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "nanet/bench/math_slots_test.hpp"
#include "nanet/gpu/batch/batch_executor_test.hpp"
#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/registry.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::gpu {
namespace {

using rich::Rings;

struct Events {
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  void end() { first.push_back(static_cast<std::uint32_t>(pm.size())); }
  rich::EventBatch batch() const {
    return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()};
  }
};

// Hits at free positions.
struct Points {
  std::vector<std::uint32_t> first;
  std::vector<float> x, y;
  rich::PointBatch batch() const {
    return {static_cast<std::uint32_t>(first.size() - 1), first.data(), x.data(), y.data()};
  }
};

// Hits of the events up to `off` mm beside their PMs.
Points around(const Events& events, const rich::Geometry& geometry, float off) {
  Points points{events.first, {}, {}};
  std::mt19937 random(12);
  std::uniform_real_distribution<float> by(-off, off);
  for (const PmId pm : events.pm) {
    points.x.push_back(geometry.common[pm].x + by(random));
    points.y.push_back(geometry.common[pm].y + by(random));
  }
  return points;
}

// Number of events, or NANET_GPU_EVENTS: memory checkers are a hundred times slower.
std::uint32_t events_wanted(std::uint32_t usual) {
  const char* text = std::getenv("NANET_GPU_EVENTS");
  return text ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : usual;
}

Events generated(std::uint32_t count, double noise, std::uint64_t seed) {
  Events events;
  rich::GeneratorOptions options;
  options.seed = seed;
  options.noise = noise;
  rich::Generator generator(options, rich::Geometry::make());
  rich::TrueEvent event;
  for (std::uint32_t i = 0; i < count; ++i) {
    generator.next(event);
    int last = -1;
    for (const auto& hit : event.hits) {
      if (hit.pm != last) events.pm.push_back(hit.pm);
      last = hit.pm;
    }
    events.end();
  }
  return events;
}

// Events of every size: hits on lines, on spots, duplicated, random; more hits than the limit.
Events odd() {
  Events events;
  std::mt19937 random(11);
  std::uniform_int_distribution<int> any(0, pm_count - 1);
  for (unsigned n = 0; n <= max_event_hits + 40; ++n) {
    for (int again = 0; again < 20; ++again) {
      for (unsigned k = 0; k < n; ++k) events.pm.push_back(static_cast<PmId>(any(random)));
      events.end();
    }
  }
  for (unsigned n = 3; n <= 32; ++n) {
    for (unsigned k = 0; k < n; ++k) events.pm.push_back(235);
    events.end();
    for (unsigned k = 0; k < n; ++k) events.pm.push_back(static_cast<PmId>(k % 2 ? 66 : 235));
    events.end();
    for (unsigned k = 0; k < n && k < 12; ++k) events.pm.push_back(static_cast<PmId>(8 * k));  // along a row
    events.end();
    for (unsigned k = 0; k < n; ++k) events.pm.push_back(static_cast<PmId>(k % 3 + 976 * (k / 3 % 2)));
    events.end();
  }
  return events;
}

// Rings of 15 hits at most, of any radius that fits, over all pixels.
Events on_pixels(std::uint32_t count) {
  Events events;
  std::mt19937 random(13);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::vector<PmId> pm = pixels_of_ring(random);
    pm.erase(std::unique(pm.begin(), pm.end()), pm.end());
    events.pm.insert(events.pm.end(), pm.begin(), pm.end());
    events.end();
  }
  return events;
}

void print(const char* where, const Rings& rings) {
  std::printf("  %s: %u rings%s", where, rings.count, rings.ambiguous ? ", ambiguous" : "");
  for (unsigned k = 0; k < rings.count && k < rich::max_rings; ++k)
    std::printf("  (%.9g %.9g %.9g chi2 %.9g hits %u)", rings.ring[k].x, rings.ring[k].y, rings.ring[k].r,
                rings.ring[k].chi2_ndf, rings.ring[k].hits);
  std::printf("\n");
}

bool same(const Rings& a, const Rings& b) {
  if (a.count != b.count || a.ambiguous != b.ambiguous) return false;
  for (unsigned k = 0; k < a.count; ++k) {
    const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
    const rich::Ring &p = a.ring[k], &q = b.ring[k];
    if (bits(p.x) != bits(q.x) || bits(p.y) != bits(q.y) || bits(p.r) != bits(q.r) ||
        bits(p.chi2_ndf) != bits(q.chi2_ndf) || p.hits != q.hits)
      return false;
  }
  return true;
}

void print_hit(const rich::EventBatch& batch, std::uint32_t hit) {
  std::printf(" %u", batch.pm[hit]);
}
void print_hit(const rich::PointBatch& batch, std::uint32_t hit) {
  std::printf(" (%.9g %.9g)", batch.x[hit], batch.y[hit]);
}

class EveryAlgorithm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Devices all = devices();
    if (all.found.empty()) GTEST_SKIP() << "no GPU: " << all.trouble;
  }
  // Number of events with different rings; prints up to 20 of them. at_once: batch size.
  template <class Some>
  void compare(const Some& events, std::uint32_t at_once = 0xFFFFFFFFu,
               const rich::Parameters& parameters = {},
               const rich::Geometry& geometry = rich::Geometry::make()) {
    const auto cpu = rich::make_reconstructor(GetParam(), parameters, geometry);
    const auto gpu = make_reconstructor(*cpu, geometry, 0);
    const auto batch = events.batch();
    std::vector<Rings> on_cpu(batch.events), on_gpu(batch.events);
    for (std::uint32_t from = 0; from < batch.events;) {
      const std::uint32_t some = std::min(batch.events - from, at_once);
      auto part = batch;
      part.events = some;
      part.first += from;
      (*gpu)(part, on_gpu.data() + from);
      from += some;
    }
    ASSERT_EQ(gpu->failed(), nullptr);
    (*cpu)(batch, on_cpu.data());
    std::uint32_t rings = 0, primitives = 0;
    for (std::uint32_t i = 0; i < batch.events; ++i) {
      if (same(on_cpu[i], on_gpu[i])) continue;
      const std::uint32_t hits = batch.first[i + 1] - batch.first[i];
      primitives +=
          trigger::decide(on_cpu[i], hits, false, {}) != trigger::decide(on_gpu[i], hits, false, {});
      if (++rings > 20) continue;
      std::printf("event %u:", i);
      for (std::uint32_t h = batch.first[i]; h < batch.first[i + 1]; ++h) print_hit(batch, h);
      std::printf("\n");
      print("CPU", on_cpu[i]);
      print("GPU", on_gpu[i]);
    }
    std::printf("%s: %u events, other rings in %u, other primitives in %u\n", GetParam().c_str(),
                batch.events, rings, primitives);
    EXPECT_EQ(rings, 0u);
    EXPECT_EQ(primitives, 0u);
  }
};

// Fewer events for slow algorithms, which take long on the CPU.
TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpu) {
  compare(generated(events_wanted(GetParam() == "math" ? 1'000'000 : 100'000), 1, 5));
}

TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuWithNoise) {
  compare(generated(events_wanted(20'000), 5, 6));
}

TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuOnOddEvents) {
  compare(odd());
}

TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuWithOtherParameters) {
  for (const auto& known : rich::algorithm_parameters(GetParam())) {
    if (known.name != "breadth") continue;
    for (double breadth = known.low; breadth <= known.high; ++breadth)
      for (const std::uint32_t at_once : {300u, 2000u, 10000u})
        compare(generated(events_wanted(10'000), 2, 8), at_once, {{"breadth", breadth}});
  }
}

// Positions that are no whole numbers.
TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuForAnotherDetector) {
  rich::Geometry moved = rich::Geometry::make();
  for (rich::Point& p : moved.common) p = {p.x + 0.3f, p.y - 7.7f};
  compare(generated(events_wanted(20'000), 1, 9), 0xFFFFFFFFu, {}, moved);
  compare(odd(), 0xFFFFFFFFu, {}, moved);
}

// Kernels may differ with the size of the batch.
TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuInBatchesOfAnySize) {
  for (const std::uint32_t at_once : {1u, 64u, 300u, 2000u, 10000u}) {
    compare(generated(std::min(100 * at_once, 20000u), 1, 7), at_once);
    compare(odd(), at_once);
  }
}

TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuAtFreePositions) {
  const rich::Geometry na62 = rich::Geometry::make();
  compare(around(generated(events_wanted(GetParam() == "math" ? 300'000 : 30'000), 1, 9), na62, 9));
  for (const std::uint32_t at_once : {1u, 300u, 10000u}) {
    compare(around(generated(std::min(100 * at_once, 20000u), 2, 10), na62, 9), at_once);
    compare(around(odd(), na62, 0), at_once);
  }
}

// MATH's fixed point has a scale for each event.
TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuAtPositionsFarAway) {
  Points points = around(generated(events_wanted(3'000), 1, 11), rich::Geometry::make(), 9);
  for (std::uint32_t i = 0; i + 1 < points.first.size(); ++i)
    for (std::uint32_t h = points.first[i]; h < points.first[i + 1]; ++h)
      points.x[h] += std::ldexp(0.7f, static_cast<int>(8 + i % 14));  // up to 1.4 of the largest distance
  compare(points);
}

TEST_P(EveryAlgorithm, GivesTheBitsOfTheCpuWithPmIdsOf16Bits) {
  const rich::Geometry wide = pixels();
  const Events events = on_pixels(events_wanted(20'000));
  compare(events, 0xFFFFFFFFu, {}, wide);
  compare(events, 300, {}, wide);
  // Room for 128 hits per piece.
  compare(around(on_pixels(500), wide, 2), 0xFFFFFFFFu, {}, wide);
}

INSTANTIATE_TEST_SUITE_P(Gpu, EveryAlgorithm, testing::ValuesIn(kernel_names()),
                         [](const auto& info) { return info.param; });

TEST(Slots, GiveTheWordsOfTheCpu) {
  if (const Devices all = devices(); all.found.empty()) GTEST_SKIP() << "no GPU: " << all.trouble;
  const rich::Geometry geometry = rich::Geometry::make();
  Events all = generated(events_wanted(1'000'000), 1, 8);
  const Events strange = odd();
  for (std::uint32_t i = 0; i < strange.batch().events; ++i) {
    const auto view = strange.batch().view(i);
    all.pm.insert(all.pm.end(), view.pm, view.pm + view.hits);
    all.end();
  }
  const rich::EventBatch batch = all.batch();
  // Batch sizes include some that end within a tile.
  for (const std::uint32_t events : {batch.events, 1u, 31u, 255u, 256u, 257u, 1023u}) {
    const std::vector<std::byte> slots = bench::slots_of({events, batch.first, batch.pm});
    trigger::DecisionOptions decision;
    decision.min_hits = 2;
    const std::vector<std::uint32_t> words =
        bench::math_slots_on_device(rich::Math{}, geometry, slots, decision);
    ASSERT_EQ(words.size(), events);
    std::uint32_t different = 0;
    for (std::uint32_t i = 0; i < events; ++i) {
      const auto whole = batch.view(i);
      const rich::EventView view{whole.pm, std::min(whole.hits, 32u)};
      const Rings rings = rich::Math{}(view, geometry.common.data());
      const std::uint32_t id =
          view.hits < 2 ? 0 : trigger::decide(rings, view.hits, whole.hits > 32, decision);
      const std::uint32_t expected = id ? id << 16 | (i & 0xFF) << 8 | (7 * i & 0xFF) : 0;
      if (words[i] != expected && ++different < 20)
        std::printf("event %u of %u: %08x, expected %08x\n", i, events, words[i], expected);
    }
    EXPECT_EQ(different, 0u) << events;
  }
}

}  // namespace
}  // namespace nanet::gpu
