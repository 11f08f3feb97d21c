// SPDX-License-Identifier: Apache-2.0
// Toy Monte Carlo of the RICH: events with rings, hits, times and the owner of each hit (docs/detector.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nanet/rich/geometry.hpp"
#include "nanet/units.hpp"

namespace nanet::rich {

enum class Particle : std::uint8_t { electron, muon, pion, kaon };
std::string_view name(Particle particle);  // "e" "mu" "pi" "K"

// Radius on the focal plane in mm; 0 below the threshold. momentum in GeV/c.
double ring_radius_mm(Particle particle, double momentum, const MonteCarlo& optics = {});
// Mean number of photoelectrons of a ring with this radius: N0 L sin^2(theta).
double mean_photoelectrons(double radius_mm, const MonteCarlo& optics = {});

inline constexpr std::uint8_t noise_owner = 255;
inline constexpr int ring_mix = -1;

struct GeneratorOptions {
  double rate = 10e6;    // events per second of detector time
  double noise = 1.0;    // mean noise hits per event
  int rings = ring_mix;  // number of rings, 0 - 4; ring_mix: 0/1/2/3/4 rings in 5/45/27/18/5 % of events
  std::uint64_t seed = 1;
  double hit_sigma_ns = 0.3;
  double board_offset_ns = 1.0;  // clock offset of each board: constant, within +- this, drawn from the seed
  std::shared_ptr<const Geometry> detector = na62();  // of the packets (readout/packer.hpp)
};

struct TrueRing {
  float x, y, r;   // mm, common plane
  float momentum;  // GeV/c
  Particle particle;
  std::uint8_t hits;  // PMs with a photon of this ring
};
// One row per owner of a PM. A PM hit by photons of two rings has two consecutive rows and counts as one hit.
struct TrueHit {
  PmId pm;
  std::uint8_t owner;  // index of the ring, or noise_owner
  double time_ns;      // since the first SOB, earliest photon, on the board's clock (offset included)
};
struct TrueEvent {
  std::uint64_t number = 0;  // running number from 0
  double time_ns = 0;        // since the first SOB of the run, detector time
  std::vector<TrueRing> rings;
  std::vector<TrueHit> hits;   // by PM ID, then owner
  unsigned distinct_hits = 0;  // PMs hit
};

// Seeded and reproducible: the same options give the same events on all machines.
class Generator {
 public:
  Generator(const GeneratorOptions& options, const Geometry& geometry);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) = delete;
  // Generates the next event in time order. Reuses the vectors of `event`.
  void next(TrueEvent& event);

 private:
  struct State;
  State* state_;
};

}  // namespace nanet::rich
