// SPDX-License-Identifier: Apache-2.0
// Truth columns of generated events.
#include "nanet/readout/truth.hpp"

#include <cmath>

namespace nanet::readout {
namespace {

struct BurstTime {
  std::uint64_t burst;
  Lsb time;  // since its SOB
};

BurstTime burst_time(double time_ns, Frame burst_frames) {
  const auto lsb = static_cast<Lsb>(std::floor(time_ns / lsb_ns));  // rounded down: stays inside its frame
  const Lsb length = static_cast<Lsb>(burst_frames) * lsb_per_frame;
  return {static_cast<std::uint64_t>(lsb / length), lsb % length};
}

}  // namespace

void TruthColumns::append(const rich::TrueEvent& e, Frame burst_frames) {
  const BurstTime at = burst_time(e.time_ns, burst_frames);
  const auto row = [&](std::uint8_t index, const rich::TrueRing& true_ring, std::uint8_t kind) {
    burst.push_back(static_cast<std::uint16_t>(at.burst));
    timestamp.push_back(static_cast<Timestamp>(at.time >> 8));
    fine_time.push_back(static_cast<FineTime>(at.time & 0xFF));
    event.push_back(e.number);
    ring.push_back(index);
    x.push_back(true_ring.x);
    y.push_back(true_ring.y);
    r.push_back(true_ring.r);
    particle.push_back(kind);
    momentum.push_back(true_ring.momentum);
    n_hits.push_back(true_ring.hits);
    event_hits.push_back(static_cast<std::uint16_t>(e.distinct_hits));
  };
  bool any = false;
  for (std::size_t i = 0; i < e.rings.size(); ++i) {
    if (e.rings[i].hits == 0) continue;
    row(static_cast<std::uint8_t>(i), e.rings[i], static_cast<std::uint8_t>(e.rings[i].particle));
    any = true;
  }
  if (!any) row(no_ring, rich::TrueRing{}, no_particle);
}

void TruthColumns::clear() {
  *this = TruthColumns{};
}

void HitColumns::append(const rich::TrueEvent& e, Frame burst_frames) {
  const double sob_ns =
      static_cast<double>(burst_time(e.time_ns, burst_frames).burst) * burst_frames * frame_ns;
  for (const rich::TrueHit& hit : e.hits) {
    event.push_back(e.number);
    ring.push_back(hit.owner);
    pm.push_back(hit.pm);
    time.push_back(hit.time_ns - sob_ns);
  }
}

void HitColumns::clear() {
  *this = HitColumns{};
}

}  // namespace nanet::readout
