// SPDX-License-Identifier: Apache-2.0
// Conditions of the frames of a block of the resident kernel: a copy in shared memory of the newest valid
// table in pinned memory.
#pragma once

#include "nanet/contract/device_access.cuh"
#include "nanet/gpu/frame/block.hpp"
#include "nanet/gpu/resident/resident.hpp"

namespace nanet::gpu {

// In shared memory.
struct OwnConditions {
  ConditionsTable table;
  std::uint64_t from[conditions_kept];
  std::uint64_t version, asked;  // version: of `from`; second: newest of the host
  std::uint64_t number;          // number of `table`, plus one; 0: none
};

// Conditions of number n; null: there are none. All threads of C; one PCIe round trip, two more after a
// change.
template <class C>
__device__ const std::int16_t* conditions_of(const Resident& r, std::uint64_t n, OwnConditions& own) {
  using contract::Sixteen, contract::load_relaxed_system;
  if (!r.conditions) return nullptr;
  C::one([&] { own.asked = contract::load_acquire_system(&r.conditions->version); });
  C::sync();
  const std::uint64_t version = own.asked;
  if (version != own.version) {
    for (std::uint32_t i = C::thread(); i < conditions_kept; i += C::threads())
      own.from[i] = load_relaxed_system(&r.conditions->from[i]);
    C::sync();
    C::one([&] { own.version = version; });
  }
  const std::uint64_t number = table_for(n, version, own.from);
  if (own.number != number + 1) {
    const auto* const from =
        reinterpret_cast<const Sixteen*>(r.conditions->table[number % conditions_kept].t0);
    auto* const to = reinterpret_cast<Sixteen*>(own.table.t0);
    for (std::uint32_t i = C::thread(); i < sizeof(ConditionsTable) / sizeof(Sixteen); i += C::threads())
      to[i] = load_relaxed_system(from + i);
    C::sync();
    C::one([&] { own.number = number + 1; });
  }
  C::sync();
  return own.table.t0;
}

}  // namespace nanet::gpu
