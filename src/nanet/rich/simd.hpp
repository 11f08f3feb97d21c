// SPDX-License-Identifier: Apache-2.0
// CPU variants: the reconstructors compiled for several instruction sets (cmake/simd.cmake), chosen at run
// time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/rich/algorithm.hpp"

namespace nanet::rich {

// Makes the CPU reconstructor of one library algorithm; `algorithm` points to its struct.
using MakeReconstructor = std::unique_ptr<Reconstructor> (*)(const void* algorithm, const Geometry& geometry);

struct SimdVariant {
  std::string_view name;  // avx2, avx512, or baseline: the instruction set of the rest of the build
  std::string missing;    // instruction sets that this CPU lacks; empty: the variant runs here
  // Makers in the order of algorithms.list. Called only where the variant runs.
  const MakeReconstructor* (*makers)();
};

// Variants of this build, the fastest last.
std::span<const SimdVariant> simd_variants();
// The variant called `name`, or the last that runs here if `name` is empty. Throws std::invalid_argument,
// with NANET_SIMD as the key, if there is none.
const SimdVariant& choose_simd(std::string_view name,
                               std::span<const SimdVariant> variants = simd_variants());
// The variant of this process: named by the environment variable NANET_SIMD, read once.
const SimdVariant& simd();
// Names of the variants that run on this CPU; all give the same bits.
std::vector<std::string> simd_names();

}  // namespace nanet::rich
