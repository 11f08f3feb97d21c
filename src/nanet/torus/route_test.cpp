// SPDX-License-Identifier: Apache-2.0
// Tests of route(): examples from INFN's router, all pairs arrive in the minimal number of hops, and the
// channel dependency graph is acyclic; with a rule broken, it is not.
#include "nanet/torus/route.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace nanet::torus {
namespace {

using RouteFunction =
    std::function<Routed(const Lattice&, const Coordinates&, unsigned, const Coordinates&, std::uint8_t)>;

Lattice lattice(unsigned x, unsigned y, unsigned z, VcRule rule = VcRule::infn) {
  Lattice l;
  l.size = {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(z)};
  l.rule = rule;
  return l;
}

TEST(TorusRoute, ExamplesOfInfnsRouter) {
  const Lattice ring = lattice(4, 1, 1);
  EXPECT_EQ(route(ring, {3, 0, 0}, local_port, {1, 0, 0}), (Routed{0, 0x01, false}));
  EXPECT_EQ(route(ring, {0, 0, 0}, 3, {1, 0, 0}, 0x01), (Routed{0, 0x10, false}));
  EXPECT_EQ(route(ring, {3, 0, 0}, local_port, {0, 0, 0}), (Routed{0, 0x11, false}));
  EXPECT_EQ(route(ring, {0, 0, 0}, local_port, {3, 0, 0}), (Routed{3, 0x11, false}));
  EXPECT_EQ(route(lattice(2, 1, 1), {1, 0, 0}, local_port, {0, 0, 0}), (Routed{0, 0x11, false}));
  // Z, Y, X, and a VC kept from the node.
  const Lattice cube = lattice(4, 4, 4);
  EXPECT_EQ(route(cube, {0, 0, 0}, local_port, {1, 1, 1}).port, 2);
  EXPECT_EQ(route(cube, {0, 0, 1}, 5, {1, 1, 1}).port, 1);
  EXPECT_EQ(route(cube, {0, 1, 1}, 4, {1, 1, 1}).port, 0);
  EXPECT_EQ(route(cube, {1, 1, 1}, 3, {1, 1, 1}), (Routed{local_port, 0, false}));
  EXPECT_EQ(route(ring, {3, 0, 0}, local_port, {1, 0, 0}, 0x00).vchan, 0x00);
  EXPECT_EQ(route(cube, {0, 0, 0}, local_port, {0, 0, 4}), (Routed{local_port, 0, true}));
}

// Steps of a packet: (node, output port, VC), without the delivery. Empty: it did not arrive.
struct Step {
  std::uint32_t node;
  unsigned port, vc;
};
std::vector<Step> walk(const Lattice& l, std::uint32_t from, std::uint32_t to, const RouteFunction& rule) {
  std::vector<Step> steps;
  Coordinates at = l.at(from);
  unsigned in = local_port;
  std::uint8_t vchan = vchan_inject;
  for (;;) {
    const Routed r = rule(l, at, in, l.at(to), vchan);
    if (r.port == local_port) return l.index(at) == to ? steps : std::vector<Step>{};
    if (steps.size() > 200) return {};
    steps.push_back({l.index(at), r.port, r.vc()});
    at = l.neighbour(at, r.port);
    in = (r.port + 3) % 6;
    vchan = r.vchan;
  }
}

// True if no cycle of channels exists in which each waits for the next (Dally and Seitz, 1987).
bool deadlock_free(const Lattice& l, const RouteFunction& rule) {
  const std::size_t channels = std::size_t{l.nodes()} * 12;
  std::vector<std::vector<std::uint32_t>> next(channels);
  std::vector<std::uint32_t> waits(channels, 0);
  const auto channel = [](const Step& s) { return (s.node * 6 + s.port) * 2 + s.vc; };
  for (std::uint32_t from = 0; from < l.nodes(); ++from) {
    for (std::uint32_t to = 0; to < l.nodes(); ++to) {
      const auto steps = walk(l, from, to, rule);
      for (std::size_t n = 0; n + 1 < steps.size(); ++n) {
        const auto a = channel(steps[n]), b = channel(steps[n + 1]);
        if (std::find(next[a].begin(), next[a].end(), b) == next[a].end()) {
          next[a].push_back(b);
          ++waits[b];
        }
      }
    }
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t c = 0; c < channels; ++c)
    if (waits[c] == 0) ready.push_back(c);
  std::size_t done = 0;
  for (; done < ready.size(); ++done)
    for (const std::uint32_t b : next[ready[done]])
      if (--waits[b] == 0) ready.push_back(b);
  return done == channels;
}

Routed shipped(const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
               std::uint8_t vchan) {
  return route(l, me, in, to, vchan);
}

const std::array<std::array<unsigned, 3>, 9> shapes{
    {{2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {3, 5, 2}, {2, 6, 3}, {4, 3, 2}, {7, 1, 4}, {1, 8, 2}, {5, 5, 1}}};

TEST(TorusRoute, AllPairsArriveInTheFewestHops) {
  for (const auto rule : {VcRule::infn, VcRule::balanced}) {
    for (const auto& [x, y, z] : shapes) {
      const Lattice l = lattice(x, y, z, rule);
      for (std::uint32_t from = 0; from < l.nodes(); ++from)
        for (std::uint32_t to = 0; to < l.nodes(); ++to)
          ASSERT_EQ(walk(l, from, to, shipped).size(), hops(l, l.at(from), l.at(to)));
    }
  }
}

TEST(TorusRoute, ChannelDependenciesHaveNoCycle) {
  for (const auto rule : {VcRule::infn, VcRule::balanced}) {
    for (unsigned k = 2; k <= 64; k += k < 16 ? 1 : 8)
      EXPECT_TRUE(deadlock_free(lattice(k, 1, 1, rule), shipped)) << k;
    EXPECT_TRUE(deadlock_free(lattice(5, 5, 5, rule), shipped));
    for (const auto& [x, y, z] : shapes) {
      Lattice l = lattice(x, y, z, rule);
      EXPECT_TRUE(deadlock_free(l, shipped));
      l.order = {0, 2, 1};
      EXPECT_TRUE(deadlock_free(l, shipped));
    }
  }
}

TEST(TorusRoute, EachBrokenRuleGivesACycle) {
  const Lattice ring = lattice(6, 1, 1), square = lattice(5, 5, 1);
  const auto one_vc = [](const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
                         std::uint8_t vchan) {
    Routed r = route(l, me, in, to, vchan);
    r.vchan &= 0x10;
    return r;
  };
  EXPECT_FALSE(deadlock_free(ring, one_vc));
  // VC kept after the wrap-around link, where packets that do not wrap use both.
  const auto kept = [](const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
                       std::uint8_t vchan) {
    Routed r = route(l, me, in, to, vchan);
    if (in < local_port && in % 3 == r.port % 3) r.vchan = static_cast<std::uint8_t>(vchan & 0xF);
    return r;
  };
  EXPECT_FALSE(deadlock_free(lattice(6, 1, 1, VcRule::balanced), kept));
  // VC by the parity of the destination, whether the packet wraps or not.
  const auto by_parity = [](const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
                            std::uint8_t vchan) {
    Routed r = route(l, me, in, to, vchan);
    if (r.port != local_port) r.vchan = static_cast<std::uint8_t>(to[0] & 1);
    return r;
  };
  EXPECT_FALSE(deadlock_free(lattice(8, 1, 1), by_parity));
  // Order of dimensions by parity of the destination.
  const auto any_order = [](const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
                            std::uint8_t vchan) {
    Lattice other = l;
    if ((to[0] + to[1]) % 2 != 0) other.order = {0, 1, 2};
    return route(other, me, in, to, vchan);
  };
  EXPECT_FALSE(deadlock_free(square, any_order));
  // Packets from the node with code 00000: VC 0 on the first hop of a way that wraps.
  const auto injected_0 = [](const Lattice& l, const Coordinates& me, unsigned in, const Coordinates& to,
                             std::uint8_t vchan) {
    return route(l, me, in, to, in == local_port ? 0 : vchan);
  };
  EXPECT_FALSE(deadlock_free(ring, injected_0));
}

}  // namespace
}  // namespace nanet::torus
