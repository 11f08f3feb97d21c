// SPDX-License-Identifier: Apache-2.0
// Ring finder in a plug-in: one ring about the mean of the hits, refined by steps of least squares.
#include <cmath>

#include "nanet/plugin/algorithm.hpp"

struct Centroid {
  static constexpr std::string_view name = "centroid";
  struct Parameters {
    std::uint32_t min_hits = 6, steps = 8;
    float band_mm = 15.0f;
  };
  static nanet::plugin::Keys<Parameters> keys() {
    return {{"min_hits", &Parameters::min_hits, 3, 128, "fewest hits of a ring"},
            {"steps", &Parameters::steps, 1, 100, "steps of the fit"},
            {"band_mm", &Parameters::band_mm, 1, 100, "largest distance of a hit from its ring in mm"}};
  }
  Parameters parameters;

  NANET_HD nanet::plugin::Rings operator()(const nanet::plugin::EventView& event,
                                           const nanet::plugin::Point* plane) const {
    nanet::plugin::Rings rings;  // no ring: count = 0
    if (event.hits < parameters.min_hits) return rings;
    const float n = static_cast<float>(event.hits);
    float mean_x = 0, mean_y = 0;
    for (std::uint32_t i = 0; i < event.hits; ++i) {
      mean_x += plane[event.pm[i]].x / n;
      mean_y += plane[event.pm[i]].y / n;
    }
    float x = mean_x, y = mean_y, r = 0;
    for (std::uint32_t step = 0; step < parameters.steps; ++step) {
      float sum = 0, ux = 0, uy = 0;  // of distances and unit vectors
      for (std::uint32_t i = 0; i < event.hits; ++i) {
        const float dx = plane[event.pm[i]].x - x, dy = plane[event.pm[i]].y - y;
        const float distance = sqrtf(dx * dx + dy * dy) + 1e-6f;
        sum += distance;
        ux += dx / distance;
        uy += dy / distance;
      }
      r = sum / n;
      x = mean_x - r * ux / n;
      y = mean_y - r * uy / n;
    }
    unsigned hits = 0;
    float chi2 = 0;
    for (std::uint32_t i = 0; i < event.hits; ++i) {
      const float dx = plane[event.pm[i]].x - x, dy = plane[event.pm[i]].y - y;
      const float from = (sqrtf(dx * dx + dy * dy) - r) / nanet::rich::pixel_sigma_mm;
      if (from * from * nanet::rich::pixel_sigma_mm * nanet::rich::pixel_sigma_mm >
          parameters.band_mm * parameters.band_mm)
        continue;
      ++hits;
      chi2 += from * from;
    }
    if (hits < parameters.min_hits) return rings;
    rings.count = 1;
    rings.ring[0].x = x;
    rings.ring[0].y = y;
    rings.ring[0].r = r;
    rings.ring[0].hits = static_cast<std::uint8_t>(hits);
    rings.ring[0].chi2_ndf = hits > 3 ? chi2 / static_cast<float>(hits - 3) : 0;
    return rings;
  }
};
NANET_ALGORITHM(Centroid)
