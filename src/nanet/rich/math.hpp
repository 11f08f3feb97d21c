// SPDX-License-Identifier: Apache-2.0
// MATH: one ring per event by moments. Crawford, NIM 211 (1983) 223; the algebraic circle fit that minimises
// sum((d^2 - r^2)^2), solved in closed form.
#pragma once

#include <cmath>
#include <string_view>

#include "nanet/rich/ring.hpp"

namespace nanet::rich {

// Every operation is float32, in this order, with no contraction: CPU, vector units and GPU give the same
// bits (docs/algorithms.md). Degenerate events (fewer than min_hits, hits on a line or all on one spot, a
// radius outside r_min .. r_max) have no ring; nothing is ever NaN or infinite.
struct Math {
  static constexpr std::string_view name = "math";
  struct Parameters {
    std::uint32_t min_hits = 4;
    float r_min = 50.0f;   // mm: a ring this small makes one photoelectron on average
    float r_max = 201.0f;  // mm: 190.7 mm at beta = 1, and 10 mm for the error of a fit
  };
  // Smallest det / trace^2 of the moments that counts as an arc; a straight line has 0, rounding leaves about
  // 1e-7, four hits of which one is off the line by one PM row 1e-3.
  static constexpr float flat = 1e-5f;

  Parameters parameters;

  // plane[pm]: common-plane position, mm. Looks at the first 128 hits.
  NANET_HD Rings operator()(const EventView& event, const Point* plane) const {
    Rings rings;
    const std::uint32_t hits = event.hits < max_event_hits ? event.hits : max_event_hits;
    if (hits < parameters.min_hits || hits < 3) return rings;
    const float n = static_cast<float>(hits);

    float sum_x = 0.0f, sum_y = 0.0f;
    for (std::uint32_t i = 0; i < hits; ++i) {
      sum_x += plane[event.pm[i]].x;
      sum_y += plane[event.pm[i]].y;
    }
    const float mean_x = sum_x / n, mean_y = sum_y / n;

    float uu = 0.0f, vv = 0.0f, uv = 0.0f, uz = 0.0f, vz = 0.0f;
    for (std::uint32_t i = 0; i < hits; ++i) {
      const float u = plane[event.pm[i]].x - mean_x, v = plane[event.pm[i]].y - mean_y;
      const float u2 = u * u, v2 = v * v, z = u2 + v2;
      uu += u2;
      vv += v2;
      uv += u * v;
      uz += u * z;
      vz += v * z;
    }
    const float det = uu * vv - uv * uv, trace = uu + vv;
    if (!(det > flat * (trace * trace))) return rings;
    const float half = 0.5f / det;  // Cramer's rule
    const float a = (uz * vv - vz * uv) * half, b = (vz * uu - uz * uv) * half;
    const float r = sqrtf(a * a + b * b + trace / n);
    if (!(r >= parameters.r_min && r <= parameters.r_max)) return rings;
    const float x = mean_x + a, y = mean_y + b;

    float chi2 = 0.0f;
    for (std::uint32_t i = 0; i < hits; ++i) {
      const float dx = plane[event.pm[i]].x - x, dy = plane[event.pm[i]].y - y;
      const float off = sqrtf(dx * dx + dy * dy) - r;
      chi2 += off * off;
    }
    rings.count = 1;
    rings.ring[0] = {x, y, r, hits > 3 ? chi2 / (pixel_sigma_mm * pixel_sigma_mm * (n - 3.0f)) : 0.0f,
                     static_cast<std::uint8_t>(hits)};
    return rings;
  }
};

}  // namespace nanet::rich
