// SPDX-License-Identifier: Apache-2.0
// Truth columns of generated events, as in run.parquet and the file of --truth-hits (docs/formats.md).
#pragma once

#include <cstdint>
#include <vector>

#include "nanet/rich/generator.hpp"
#include "nanet/units.hpp"

namespace nanet::readout {

inline constexpr std::uint8_t no_ring = 255;      // ring value of an event without rings
inline constexpr std::uint8_t no_particle = 255;  // event without rings; otherwise rich::Particle

// Rows of run.parquet: one per ring with at least one hit. An event without rings has one row with ring =
// no_ring, and zeros where Parquet has null.
struct TruthColumns {
  std::vector<std::uint16_t> burst;
  std::vector<std::uint32_t> timestamp;
  std::vector<std::uint8_t> fine_time;
  std::vector<std::uint64_t> event;
  std::vector<std::uint8_t> ring;
  std::vector<float> x, y, r;
  std::vector<std::uint8_t> particle;
  std::vector<float> momentum;
  std::vector<std::uint8_t> n_hits;
  std::vector<std::uint16_t> event_hits;

  // burst_frames: frames per burst; bursts follow without a gap.
  void append(const rich::TrueEvent& event, Frame burst_frames);
  void clear();
};

// Rows of the true hits: one per owner of a PM.
struct HitColumns {
  std::vector<std::uint64_t> event;
  std::vector<std::uint8_t> ring;  // rich::noise_owner: noise
  std::vector<std::uint16_t> pm;
  std::vector<double> time;  // ns since the SOB of the event's burst, on the board's clock

  void append(const rich::TrueEvent& event, Frame burst_frames);
  void clear();
};

}  // namespace nanet::readout
