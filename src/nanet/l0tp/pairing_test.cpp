// SPDX-License-Identifier: Apache-2.0
// Tests of the pairing of primitives with true events, against a plain search on random input.
#include "nanet/l0tp/pairing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

namespace nanet::l0tp {
namespace {

using Truth = std::vector<std::uint16_t>;
using Primitives = std::vector<wire::mtp::TimedPrimitive>;

Primitives at(Frame frame, std::initializer_list<Lsb> offsets) {
  Primitives primitives;
  for (const Lsb offset : offsets) primitives.push_back({Lsb{frame} * lsb_per_frame + offset, 0x4000});
  return primitives;
}
std::uint64_t unpaired(const Pairing& p, Unpaired reason) {
  return p.counts().unpaired[static_cast<std::size_t>(reason)];
}
std::uint64_t unexpected(const Pairing& p, Unexpected reason) {
  return p.counts().unexpected[static_cast<std::size_t>(reason)];
}
void check_sum(const Pairing& p) {
  const auto& c = p.counts();
  EXPECT_EQ(c.expected, std::accumulate(c.unpaired.begin(), c.unpaired.end(), c.paired));
}

TEST(Pairing, WithinFiveNanoseconds) {
  Pairing p;
  p.frame(0, Truth{1000, 2000, 3000, 4000}, at(0, {1000, 2051, 2949, 4052}), false);
  p.end_burst();
  EXPECT_EQ(p.counts().expected, 4u);
  EXPECT_EQ(p.counts().paired, 3u);  // 51 LSB are 4.97 ns, 52 are 5.07 ns
  EXPECT_EQ(unpaired(p, Unpaired::other), 1u);
  EXPECT_EQ(unexpected(p, Unexpected::other), 1u);
  check_sum(p);
}

TEST(Pairing, NearestFirst) {
  Pairing p;
  // 1000 is nearer to 1010 than 1030: 1030 stays unpaired, since its neighbour has the primitive.
  p.frame(0, Truth{1000, 1030}, at(0, {1010}), false);
  p.end_burst();
  EXPECT_EQ(p.counts().paired, 1u);
  EXPECT_EQ(unpaired(p, Unpaired::merged_with_neighbour), 1u);
  check_sum(p);
}

TEST(Pairing, AcrossTheEdgeOfAFrame) {
  Pairing p;
  p.frame(0, Truth{65530}, {}, false);
  p.frame(1, Truth{}, at(1, {5}), false);
  p.frame(2, Truth{3}, {}, false);
  p.end_burst();
  EXPECT_EQ(p.counts().paired, 1u);
  EXPECT_EQ(unpaired(p, Unpaired::other), 1u);  // frame 1 arrived without a primitive for it
  check_sum(p);
}

TEST(Pairing, SplitAtTheEdge) {
  Pairing p;
  p.frame(0, Truth{65530}, at(0, {65530}), false);
  p.frame(1, Truth{}, at(1, {2, 30'000}), false);
  p.end_burst();
  EXPECT_EQ(p.counts().paired, 1u);
  EXPECT_EQ(unexpected(p, Unexpected::split_at_frame_edge), 1u);
  EXPECT_EQ(unexpected(p, Unexpected::other), 1u);
}

TEST(Pairing, LateAndMissingFramesAreNamed) {
  Pairing p;
  p.frame(0, Truth{100, 65500}, at(0, {100}), false);  // the second one's primitive may be in frame 1
  p.frame(2, Truth{10, 500}, at(2, {500}), false);     // likewise the first one's: frame 1 is missing
  p.frame(3, Truth{100, 200, 300}, {}, true);          // late
  p.frame(4, Truth{20, 400}, at(4, {400}), false);     // 20 is near frame 3
  p.frame(5, Truth{700, 65520}, at(5, {700}), false);  // near frame 6, which is late
  p.frame(6, Truth{}, {}, true);
  p.end_burst();
  EXPECT_EQ(p.counts().paired, 4u);
  EXPECT_EQ(unpaired(p, Unpaired::frame_missing), 2u);
  EXPECT_EQ(unpaired(p, Unpaired::frame_late), 5u);
  EXPECT_EQ(unpaired(p, Unpaired::other), 0u);
  check_sum(p);
}

TEST(Pairing, OutOfOrderFramesCountAsExpected) {
  Pairing p;
  p.frame(0, Truth{100}, at(0, {100}), false);
  p.out_of_order(7);
  p.end_burst();
  EXPECT_EQ(unpaired(p, Unpaired::out_of_order), 7u);
  check_sum(p);
}

TEST(Pairing, PrimitivesOfAnotherFrameAreNotCompared) {
  Pairing p;
  p.frame(1, Truth{100}, at(2, {100}), false);
  p.end_burst();
  EXPECT_EQ(unexpected(p, Unexpected::outside_frame), 1u);
  EXPECT_EQ(p.counts().paired, 0u);
}

TEST(Pairing, BurstsStandApart) {
  Pairing p;
  p.frame(2000, Truth{65535}, {}, false);
  p.end_burst();
  p.frame(0, Truth{}, at(0, {0}), false);
  p.end_burst();
  EXPECT_EQ(p.counts().paired, 0u);
  EXPECT_EQ(unpaired(p, Unpaired::other), 1u);
}

// Reference implementation: one to one, nearest first, over the whole run at once.
std::uint64_t plain(const std::vector<Lsb>& truth, const std::vector<Lsb>& found) {
  struct Pair {
    Lsb distance;
    std::size_t t, f;
  };
  std::vector<Pair> pairs;
  for (std::size_t t = 0; t < truth.size(); ++t)
    for (std::size_t f = 0; f < found.size(); ++f)
      if (std::abs(truth[t] - found[f]) <= Pairing::pair_lsb)
        pairs.push_back({std::abs(truth[t] - found[f]), t, f});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.distance < b.distance; });
  std::vector<bool> used_t(truth.size()), used_f(found.size());
  std::uint64_t n = 0;
  for (const Pair& pair : pairs) {
    if (used_t[pair.t] || used_f[pair.f]) continue;
    used_t[pair.t] = used_f[pair.f] = true;
    ++n;
  }
  return n;
}

TEST(Pairing, AgreesWithAPlainSearchOnCrowdedRandomFrames) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    Pairing p;
    std::vector<Lsb> all_truth, all_found;
    std::uniform_int_distribution<int> offset(0, lsb_per_frame - 1), shift(-60, 60), chance(0, 9);
    for (Frame frame = 0; frame < 10; ++frame) {
      Truth truth;
      std::vector<Lsb> found;
      for (int i = 0; i < 150; ++i) {
        const int time = offset(random);
        truth.push_back(static_cast<std::uint16_t>(time));
        const int seen = std::clamp(time + shift(random), 0, lsb_per_frame - 1);
        if (chance(random) > 0) found.push_back(Lsb{frame} * lsb_per_frame + seen);
      }
      std::sort(truth.begin(), truth.end());
      std::sort(found.begin(), found.end());
      Primitives primitives;
      for (const Lsb time : found) primitives.push_back({time, 0x4000});
      p.frame(frame, truth, primitives, false);
      for (const auto time : truth) all_truth.push_back(Lsb{frame} * lsb_per_frame + time);
      all_found.insert(all_found.end(), found.begin(), found.end());
    }
    p.end_burst();
    EXPECT_EQ(p.counts().paired, plain(all_truth, all_found));
    check_sum(p);
    const auto& wrong = p.counts().unexpected;
    EXPECT_EQ(p.counts().paired + std::accumulate(wrong.begin(), wrong.end(), std::uint64_t{0}),
              all_found.size());
  }
}

}  // namespace
}  // namespace nanet::l0tp
