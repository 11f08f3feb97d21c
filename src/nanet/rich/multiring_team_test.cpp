// SPDX-License-Identifier: Apache-2.0
// MULTIRING by teams of threads: rings equal to those of one unit, bit for bit.
#include "nanet/rich/multiring_team.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "nanet/rich/generator.hpp"

namespace nanet::rich {
namespace {

// Threads in place of warps.
struct ThreadTeam {
  static constexpr bool alone = false;
  MultiringTeamMemory* memory;
  std::barrier<>* barrier;
  int number, threads;
  int index() const { return number; }
  int size() const { return threads; }
  void sync() const { barrier->arrive_and_wait(); }
};

struct Sample {
  std::uint32_t events;
  double noise;
  std::uint32_t breadth;
};

class Teams : public testing::TestWithParam<Sample> {};

TEST_P(Teams, GiveTheBitsOfOneUnit) {
  const Geometry geometry = Geometry::make();
  std::vector<Point> plane(2048);
  std::copy(geometry.common.begin(), geometry.common.end(), plane.begin());
  GeneratorOptions options;
  options.seed = 41;
  options.noise = GetParam().noise;
  Generator generator(options, geometry);
  std::vector<std::vector<PmId>> events(GetParam().events);
  TrueEvent truth;
  for (auto& pm : events) {
    generator.next(truth);
    for (const auto& hit : truth.hits)
      if (pm.empty() || pm.back() != hit.pm) pm.push_back(hit.pm);
  }
  const auto view = [&](std::size_t i) {
    return EventView{events[i].data(), static_cast<std::uint32_t>(events[i].size())};
  };

  Multiring algorithm;
  algorithm.parameters.breadth = GetParam().breadth;
  const int threads = static_cast<int>(GetParam().breadth) * Multiring::ways;
  const auto scratch = std::make_unique<Multiring::Scratch[]>(static_cast<std::size_t>(threads));
  std::vector<Rings> alone(events.size()), team(events.size()), unsettled(events.size());
  std::vector<char> searched(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    algorithm.operator()<HostLanes>(view(i), plane.data(), scratch[0], alone[i]);
    MultiringEvent<HostLanes> event(algorithm.parameters, view(i), plane.data(), scratch[0],
                                    scratch[0].board);
    searched[i] = event.begin();
  }

  const auto memory = std::make_unique<MultiringTeamMemory>();
  std::barrier<> barrier(threads);
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        const ThreadTeam unit{memory.get(), &barrier, t, threads};
        for (std::size_t i = 0; i < events.size(); ++i) {
          for (const bool known : {false, true}) {
            if (known && !searched[i]) continue;
            MultiringTeamEvent<HostLanes, ThreadTeam> event(algorithm.parameters, view(i), plane.data(),
                                                            scratch.get(), unit);
            event.run(known ? unsettled[i] : team[i], known);
            barrier.arrive_and_wait();
          }
        }
      });
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto same = [&](const Rings& rings) {
      ASSERT_EQ(rings.count, alone[i].count) << i;
      EXPECT_EQ(rings.ambiguous, alone[i].ambiguous) << i;
      for (unsigned k = 0; k < rings.count; ++k) {
        EXPECT_EQ(rings.ring[k].x, alone[i].ring[k].x) << i;
        EXPECT_EQ(rings.ring[k].y, alone[i].ring[k].y) << i;
        EXPECT_EQ(rings.ring[k].r, alone[i].ring[k].r) << i;
        EXPECT_EQ(rings.ring[k].chi2_ndf, alone[i].ring[k].chi2_ndf) << i;
        EXPECT_EQ(rings.ring[k].hits, alone[i].ring[k].hits) << i;
      }
    };
    same(team[i]);
    if (searched[i]) same(unsettled[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Multiring, Teams,
                         testing::Values(Sample{400, 1.0, 3}, Sample{150, 5.0, 3}, Sample{150, 1.0, 4},
                                         Sample{100, 1.0, 1}, Sample{100, 0.2, 2}));

}  // namespace
}  // namespace nanet::rich
