// SPDX-License-Identifier: Apache-2.0
// Masks and time offsets (trigger/build/conditions.hpp) on a GPU: ring of tables, one per burst
// with changed conditions. The card's thread writes a table at the start of the burst, before its events.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "nanet/contract/atomic.hpp"
#include "nanet/trigger/build/conditions.hpp"

namespace nanet::gpu {

// Same number of tables as in ConditionsStore; all PM IDs of eleven bits.
inline constexpr std::uint32_t conditions_kept = 16, conditions_pms = 2048;
// Offset that marks a masked PM.
inline constexpr std::int16_t masked_pm = std::numeric_limits<std::int16_t>::min();

struct alignas(16) ConditionsTable {
  std::int16_t t0[conditions_pms];  // LSB, or masked_pm
};
static_assert(sizeof(ConditionsTable) % 16 == 0 && trigger::max_t0_lsb < -std::int32_t{masked_pm});

// In pinned memory, zeroed. Written by the host: table and `from`, then `version` with release.
struct ConditionsBoard {
  alignas(64) std::uint64_t version;    // tables written so far; table v is at v % conditions_kept
  std::uint64_t from[conditions_kept];  // first n of each table
  ConditionsTable table[conditions_kept];
};

// Number of the table for n, among `version` > 0 tables. If its table has been overwritten, n was answered
// long ago: returns the oldest table.
NANET_HD inline std::uint64_t table_for(std::uint64_t n, std::uint64_t version, const std::uint64_t* from) {
  const std::uint64_t oldest = version > conditions_kept ? version - conditions_kept : 0;
  std::uint64_t table = version - 1;
  while (table > oldest && from[table % conditions_kept] > n) --table;
  return table;
}

inline void fill(ConditionsTable& table, const trigger::Conditions& conditions) noexcept {
  for (std::size_t pm = 0; pm < pm_count; ++pm)
    table.t0[pm] = conditions.masked[pm] ? masked_pm : conditions.t0[pm];
  // PM IDs of 11 bits: frame kernels decode no others.
  std::fill(std::begin(table.t0) + pm_count, std::end(table.t0), std::int16_t{0});
}

inline void publish(ConditionsBoard& board, std::uint64_t from,
                    const trigger::Conditions& conditions) noexcept {
  const std::uint64_t version = contract::relaxed(board.version);
  fill(board.table[version % conditions_kept], conditions);
  board.from[version % conditions_kept] = from;
  contract::release(board.version, version + 1);
}

}  // namespace nanet::gpu
