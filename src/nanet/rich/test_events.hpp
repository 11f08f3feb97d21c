// SPDX-License-Identifier: Apache-2.0
// Test events for ring algorithms: generated or given hits with truth, and efficiency against it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "nanet/os/sanitizer_test.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/generator.hpp"

namespace nanet::rich {

struct TestEvents {
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  std::vector<std::vector<TrueRing>> truth;  // for generated events

  void add(const std::vector<PmId>& hits) {
    pm.insert(pm.end(), hits.begin(), hits.end());
    first.push_back(static_cast<std::uint32_t>(pm.size()));
  }
  EventBatch batch() const { return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()}; }
  std::vector<Rings> reconstruct(Reconstructor& reconstructor) const {
    std::vector<Rings> rings(first.size() - 1);
    reconstructor(batch(), rings.data());
    return rings;
  }

  // rings: number per event, or ring_mix; noise: mean hits.
  static TestEvents generate(int rings, double noise, int events, std::uint64_t seed) {
    TestEvents out;
    Generator generator({.noise = noise, .rings = rings, .seed = seed}, Geometry::make());
    TrueEvent event;
    for (int i = 0; i < events; ++i) {
      generator.next(event);
      std::vector<PmId> hits;
      for (const TrueHit& hit : event.hits)
        if (hits.empty() || hits.back() != hit.pm) hits.push_back(hit.pm);
      out.add(hits);
      out.truth.push_back(event.rings);
    }
    return out;
  }
};

inline bool matches(const TrueRing& truth, const Ring& ring) {
  return std::hypot(truth.x - ring.x, truth.y - ring.y) < 15 && std::fabs(truth.r - ring.r) < 10;
}

struct Quality {
  double efficiency;  // fraction of true rings found, with four hits or more, in events with `rings` rings
  double fakes;       // unmatched found rings per such event
};
inline Quality quality(const TestEvents& events, const std::vector<Rings>& found, int rings) {
  int count = 0, total = 0, matched = 0, fakes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& truth = events.truth[i];
    if (std::count_if(truth.begin(), truth.end(), [](const TrueRing& t) { return t.hits >= 4; }) != rings)
      continue;
    ++count;
    const Ring *begin = found[i].ring, *end = begin + found[i].count;
    for (const TrueRing& t : truth) {
      if (t.hits < 4) continue;
      ++total;
      matched += std::any_of(begin, end, [&](const Ring& r) { return matches(t, r); });
    }
    fakes += static_cast<int>(std::count_if(begin, end, [&](const Ring& r) {
      return std::none_of(truth.begin(), truth.end(), [&](const TrueRing& t) { return matches(t, r); });
    }));
  }
  return {total ? static_cast<double>(matched) / total : 0.0,
          count ? static_cast<double>(fakes) / count : 0.0};
}

inline bool same_bits(const Rings& a, const Rings& b) {
  if (a.count != b.count || a.ambiguous != b.ambiguous) return false;
  for (unsigned i = 0; i < a.count; ++i) {
    const Ring &p = a.ring[i], &q = b.ring[i];
    const auto same = [](float left, float right) {
      return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
    };
    if (!same(p.x, q.x) || !same(p.y, q.y) || !same(p.r, q.r) || !same(p.chi2_ndf, q.chi2_ndf) ||
        p.hits != q.hits)
      return false;
  }
  return true;
}

}  // namespace nanet::rich
