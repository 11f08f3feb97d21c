// SPDX-License-Identifier: Apache-2.0
// MULTIRING: its data structures and parameter keys.
#pragma once

#include <string_view>

#include "nanet/rich/multiring_search.hpp"
#include "nanet/rich/parameters.hpp"

namespace nanet::rich {

struct Multiring {
  static constexpr std::string_view name = "multiring";
  static constexpr unsigned most_rings = rich::max_rings;
  static constexpr bool rejects_noise = true;
  static constexpr bool assumes_centre = true;  // prior on the ring centres
  using Parameters = MultiringParameters;

  // A set of rings. value: ln of the likelihood ratio of the hits with and without the rings, costs included.
  struct State {
    float x[max_rings], y[max_rings], r[max_rings];
    float value;
    std::int32_t count;
  };
  // Candidate ring for a state; promise: value of both before polishing.
  struct Candidate {
    Circle3 circle;
    float promise;
    std::int32_t state;
  };
  static constexpr int max_breadth = 4;
  static constexpr int ways = 2;    // candidates tried per state
  static constexpr int rounds = 2;  // of seeds, 32 each
  // State passed from one kernel to the next.
  struct Kept {
    State best;
    float best_of[max_rings + 1];  // best value for each number of rings
    std::int32_t settled;          // no search and no split needed
  };
  // Shared by all units that work on an event. Members per ring: results of finish() and write().
  struct Board {
    Candidate candidate[max_breadth * ways];
    Kept kept;
    float gain[max_rings], chi2[max_rings];
    std::int32_t hits[max_rings];
  };
  struct Scratch {
    MultiringHits hits;
    // Per ring, in units of the noise; the last: noise and all rings. The search for a pair of rings keeps
    // its sums here.
    alignas(64) float intensity[max_rings + 1][max_event_hits];
    alignas(16) float x[max_rings];  // current rings
    alignas(16) float y[max_rings];
    alignas(16) float r[max_rings];
    alignas(16) float unit[max_rings][4];       // see MultiringHand::Unit
    State now[max_breadth], next[max_breadth];  // of the search by 32 lanes alone
    Board board;
  };

  Parameters parameters;
  static Keys<Parameters> keys() {
    using P = Parameters;
    return {
        {"min_hits", &P::min_hits, 3, max_event_hits, "fewest hits that make a ring"},
        {"r_min", &P::r_min, 5, 1000, "smallest radius of a ring in mm"},
        {"r_max", &P::r_max, 5, 1000, "radius at beta = 1 in mm: no ring is larger"},
        {"yield", &P::yield, 1, 100, "photoelectrons of a ring of radius r_max, on average"},
        {"noise", &P::noise, 0, 50, "noise hits per event, on average"},
        {"centre_x", &P::centre_x, -1000, 1000, "middle of the rings' centres in x in mm; in y it is 0"},
        {"centre_sigma", &P::centre_sigma, 5, 10000, "spread of the rings' centres per axis in mm"},
        {"radius_prior", &P::radius_prior, 0, 5,
         "rings are spread in radius as (1.06 - (r / r_max)^2)^-this; 0: evenly"},
        {"first_cost", &P::first_cost, 0, 50, "ln of the odds against an event's first ring"},
        {"ring_cost", &P::ring_cost, 0, 50, "ln of the odds against each further ring"},
        {"noise_adaption", &P::noise_adaption, 0, 5,
         "how much an event's stray hits count against its only ring; 0: not at all"},
        {"ambiguity_margin", &P::ambiguity_margin, 0, 50,
         "an event is ambiguous when another number of rings comes this near in ln of the odds"},
        {"breadth", &P::breadth, 1, max_breadth,
         "ways of taking rings followed side by side: more is better and slower"},
    };
  }

  template <class L>
  NANET_HD void operator()(const EventView& event, const Point* plane, Scratch& scratch, Rings& rings) const;
};

}  // namespace nanet::rich
