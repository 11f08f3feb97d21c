// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of the slot kernel: events as slots, and kernel calls from the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/rich/geometry.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::bench {

// Slots with the first 32 hits of each event; event i at timestamp i, fine time 7 i.
std::vector<std::byte> slots_of(const rich::EventBatch& batch);

// Throws std::runtime_error.
std::vector<std::uint32_t> math_slots_on_device(const rich::Math& math, const rich::Geometry& geometry,
                                                const std::vector<std::byte>& slots,
                                                const trigger::DecisionOptions& decision);

}  // namespace nanet::bench
