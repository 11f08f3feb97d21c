// SPDX-License-Identifier: Apache-2.0
// Fuzz target for all ring algorithms: rings are finite, within their limits and ordered. Results do not
// depend on the other events of a batch.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "nanet/rich/algorithm.hpp"

namespace {

using namespace nanet;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Algorithm {
  std::unique_ptr<rich::Reconstructor> run;
  float r_min, r_max;
};

std::vector<Algorithm> make_all() {
  std::vector<Algorithm> all;
  const rich::Geometry geometry = rich::Geometry::make();
  for (const std::string& name : rich::algorithm_names()) {
    Algorithm algorithm{rich::make_reconstructor(name, {}, geometry), 0, 0};
    for (const rich::ParameterInfo& info : rich::algorithm_parameters(name)) {
      if (info.name == "r_min") algorithm.r_min = static_cast<float>(info.value);
      if (info.name == "r_max") algorithm.r_max = static_cast<float>(info.value);
    }
    require(algorithm.r_max > algorithm.r_min);
    all.push_back(std::move(algorithm));
  }
  return all;
}

void check(const rich::Rings& rings, std::uint32_t hits, const Algorithm& limits) {
  require(rings.count <= rich::max_rings);
  for (unsigned k = 0; k < rings.count; ++k) {
    const rich::Ring& ring = rings.ring[k];
    require(std::isfinite(ring.x) && std::isfinite(ring.y) && std::isfinite(ring.chi2_ndf));
    require(ring.r >= limits.r_min && ring.r <= limits.r_max);
    require(ring.chi2_ndf >= 0);
    require(ring.hits >= 3 && ring.hits <= std::min<std::uint32_t>(hits, max_event_hits));
    const rich::Ring& leading = rings.ring[0];
    require(ring.hits < leading.hits || (ring.hits == leading.hits && ring.r <= leading.r));
  }
}

bool same(const rich::Rings& a, const rich::Rings& b) {
  const auto bits = [](float f) { return std::bit_cast<std::uint32_t>(f); };
  if (a.count != b.count || a.ambiguous != b.ambiguous) return false;
  for (unsigned k = 0; k < a.count; ++k) {
    const rich::Ring &p = a.ring[k], &q = b.ring[k];
    if (bits(p.x) != bits(q.x) || bits(p.y) != bits(q.y) || bits(p.r) != bits(q.r) ||
        bits(p.chi2_ndf) != bits(q.chi2_ndf) || p.hits != q.hits)
      return false;
  }
  return true;
}

}  // namespace

// Input per event: one byte, then u16 hits, modulo the number of PMs. b6:0: number of hits; b7 set: hits
// unsorted as given; b7 clear: sorted and distinct, as in the trigger.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::vector<Algorithm> algorithms = make_all();
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  for (std::size_t at = 0; at < size && first.size() < 33;) {
    const bool raw = data[at] & 0x80;
    std::size_t hits = (data[at] & 0x7F) + std::size_t{raw};  // up to 128 in some
    ++at;
    hits = std::min(hits, (size - at) / 2);
    const auto begin = static_cast<std::ptrdiff_t>(pm.size());
    for (std::size_t i = 0; i < hits; ++i, at += 2)
      pm.push_back(static_cast<PmId>((data[at] | unsigned{data[at + 1]} << 8) % pm_count));
    if (!raw) {
      std::sort(pm.begin() + begin, pm.end());
      pm.erase(std::unique(pm.begin() + begin, pm.end()), pm.end());
    }
    first.push_back(static_cast<std::uint32_t>(pm.size()));
  }
  const auto events = static_cast<std::uint32_t>(first.size() - 1);
  std::vector<rich::Rings> rings(events);
  for (Algorithm& algorithm : algorithms) {
    (*algorithm.run)({events, first.data(), pm.data()}, rings.data());
    for (std::uint32_t e = 0; e < events; ++e) {
      check(rings[e], first[e + 1] - first[e], algorithm);
      rich::Rings alone;
      (*algorithm.run)({1, first.data() + e, pm.data()}, &alone);
      require(same(rings[e], alone));
    }
  }
  return 0;
}
