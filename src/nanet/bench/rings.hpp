// SPDX-License-Identifier: Apache-2.0
// Ring benchmark on CPUs (`nanet bench rings`): events per second, time per batch and floating-point
// operations per event. Also measures the maximum operation rate of this CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/rich/algorithm.hpp"

namespace nanet::bench {

// Generated events as columns; event i holds pm[first[i]] .. pm[first[i + 1] - 1].
struct RingEvents {
  std::vector<std::uint32_t> first;
  std::vector<PmId> pm;
  rich::EventBatch batch() const {
    return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()};
  }
};
// noise, rings, seed: as in rich::GeneratorOptions. Keeps at most max_event_hits hits per event.
RingEvents ring_events(std::uint32_t events, double noise, int rings, std::uint64_t seed);

struct RingsCpuOptions {
  std::string algorithm;
  rich::Parameters parameters;
  std::uint32_t batch = 4096;  // events per call, at most the number given
  unsigned threads = 1;        // each with separate batches
  double seconds = 0.3;        // at least one batch
  std::string simd;            // variant of rich/simd.hpp; empty: this process's
};
struct RingsCpuResult {
  double events_per_s = 0;    // sum over all threads
  double batch_us = 0;        // median over blocks of batches of at least 50 us
  double batch_us_least = 0;  // fastest block
  std::uint64_t events = 0, rings = 0;
  double elapsed_s = 0;
};
// Throws std::invalid_argument (algorithm, parameters, batch, threads).
RingsCpuResult rings_cpu(const rich::EventBatch& events, const RingsCpuOptions& options);

// Floating-point additions, subtractions, multiplications, divisions and square roots per event, with default
// parameters. Lane algorithms count all 32 lanes, idle or not, and a fused multiply-add as two; their few
// scalar operations are omitted. MATH counts one lane per event, and its additions of whole numbers. nullopt
// for algorithms without operation counts.
std::optional<double> operations_per_event(std::string_view algorithm, const rich::EventBatch& events);

// Operations per second of one core for fused multiply-adds in registers.
double most_operations_per_s(double seconds);

}  // namespace nanet::bench
