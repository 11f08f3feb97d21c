// SPDX-License-Identifier: Apache-2.0
// MATH over a batch, sixteen events at a time; the very bits of the per-event Math.
#pragma once

#include <memory>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/math.hpp"

namespace nanet::rich {

std::unique_ptr<Reconstructor> make_math(const Math& math, const Geometry& geometry);

}  // namespace nanet::rich
