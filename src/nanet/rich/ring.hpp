// SPDX-License-Identifier: Apache-2.0
// Input and output of ring algorithms: hits and rings. Plain data, the same on CPU and GPU.
#pragma once

#include <cstdint>

#include "nanet/units.hpp"

namespace nanet::rich {

inline constexpr unsigned max_rings = 4;  // rings kept per event
inline constexpr float pixel_sigma_mm =
    4.85f;  // spread of a hit around its ring: PM 4.74 (18 mm pitch) + optics 1.0 in quadrature

// Common plane, mm.
struct Point {
  float x = 0, y = 0;
};

// Constants of the ring algorithms that depend on the detector; the defaults are NA62's.
struct RingModel {
  static constexpr float na62_reach = 12.0f;

  float sigma2 = pixel_sigma_mm * pixel_sigma_mm;              // of a hit about its ring, mm^2
  float four_sigma2 = 4.0f * pixel_sigma_mm * pixel_sigma_mm;  // mm^2
  float reach = na62_reach;  // half width of the hit density across a ring, mm
  float per_reach2 = 1.0f / (na62_reach * na62_reach);
  float on_ring = 0.0662f;         // hit density on the ring, per mm across it
  float area_per_disk = 140.296f;  // area of a channel divided by the number of disks, mm^2
  float channels = static_cast<float>(pm_count);
  float edge = 272.0f;                   // mm from the mean ring centre: rings that extend beyond lose light
  float scale = 1.0f, per_scale = 1.0f;  // reach relative to NA62's, for bands tuned there; its inverse
  std::int32_t centres = pm_count / 2;   // trial centres of POMH and DOMH: midway between ...
  std::int32_t beside = pm_count / 2;    // ... the channels i and i + beside
};

struct Ring {
  float x = 0, y = 0, r = 0;  // mm, common plane
  float chi2_ndf = 0;         // sum((distance - r)^2) / pixel_sigma^2 / (hits - 3); 0 when hits <= 3
  std::uint8_t hits = 0;      // hits assigned to this ring
};

// Rings of one event in descending order of hits; ties go to the larger radius.
struct Rings {
  std::uint8_t count = 0;
  bool ambiguous = false;  // margin between the best two ring counts is below the configured one
  // Non-zero: bits of the primitive, decided by the algorithm (trigger/decide/decide.hpp).
  std::uint16_t primitive = 0;
  Ring ring[max_rings];
};

// Hits of one event: distinct PM IDs in ascending order.
struct EventView {
  const PmId* pm = nullptr;
  std::uint32_t hits = 0;
};

// Events of one batch (one or many frames): event i holds pm[first[i]] .. pm[first[i + 1] - 1].
struct EventBatch {
  std::uint32_t events = 0;
  const std::uint32_t* first = nullptr;  // events + 1
  const PmId* pm = nullptr;
  EventView view(std::uint32_t i) const { return {pm + first[i], first[i + 1] - first[i]}; }
};

// Events with hits at free positions (common plane, mm): event i holds x, y of first[i] .. first[i + 1] - 1.
struct PointBatch {
  std::uint32_t events = 0;
  const std::uint32_t* first = nullptr;  // events + 1
  const float* x = nullptr;
  const float* y = nullptr;
};

}  // namespace nanet::rich
