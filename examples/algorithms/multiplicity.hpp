// SPDX-License-Identifier: Apache-2.0
// Multiplicity trigger as a plug-in: an event fires with enough hits in the whole RICH, or in its inner part.
// Build: nanet build-algorithm multiplicity.hpp; run: nanet trigger --algorithm ./multiplicity.so
#include "nanet/plugin/algorithm.hpp"

struct Multiplicity {
  static constexpr std::string_view name = "multiplicity";
  struct Parameters {
    std::uint32_t cut = 24, inner_cut = 12;
    float inner_mm = 150.0f;
  };
  static nanet::plugin::Keys<Parameters> keys() {
    return {{"cut", &Parameters::cut, 1, 128, "fewest hits of an event that fires"},
            {"inner_cut", &Parameters::inner_cut, 1, 128, "or fewest hits in the inner part"},
            {"inner_mm", &Parameters::inner_mm, 0, 1000, "radius of the inner part about the origin in mm"}};
  }
  Parameters parameters;

  // b9: all hits reach the threshold; b8: hits of the inner part do; b5:0: number of hits, at most 63.
  NANET_HD nanet::plugin::Primitive operator()(const nanet::plugin::EventView& event,
                                               const nanet::plugin::Point* plane) const {
    std::uint32_t inner = 0;
    for (std::uint32_t i = 0; i < event.hits; ++i) {
      const nanet::plugin::Point p = plane[event.pm[i]];
      inner += p.x * p.x + p.y * p.y < parameters.inner_mm * parameters.inner_mm;
    }
    const unsigned all = event.hits >= parameters.cut, some = inner >= parameters.inner_cut;
    return {static_cast<std::uint16_t>(all << 9 | some << 8 | (event.hits < 63 ? event.hits : 63))};
  }
};
NANET_ALGORITHM(Multiplicity)
