// SPDX-License-Identifier: Apache-2.0
// Tables of a frame's fragments and events, and shared state of a block while it merges them (merge.hpp).
#pragma once

#include "nanet/contract/layout.hpp"
#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/block.hpp"
#include "nanet/gpu/frame/conditions.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gpu {

inline constexpr unsigned max_payloads = 64;  // per board, as in the CPU frame builder
inline constexpr std::uint16_t no_fragment = 0xFFFF;
inline constexpr std::uint32_t fixed_slot_bytes = wire::mgp::fixed_event_bytes;

struct Fragment {
  std::uint32_t hits;  // offset of its hit words in the bytes
  std::uint16_t time;  // within the frame, LSB
  std::uint8_t stored, truncated;
  std::uint32_t out;  // offset of its hits in Tables::pm
  std::uint32_t sum;  // sum of the time differences, units of 4 LSB; plus `disorder` for each lane that
                      // found an invalid PM ID, or one not above its predecessor
  static constexpr std::uint32_t disorder = 1u << 16;

  NANET_HD bool disordered() const {
    return static_cast<std::int16_t>(sum) != static_cast<std::int32_t>(sum);
  }
  NANET_HD std::int32_t times() const {  // sum of the times of its hits
    return 4 * static_cast<std::int16_t>(sum) + static_cast<std::int32_t>(stored) * time;
  }
};

struct BuiltEvent {
  std::uint32_t first;          // its hits are pm[first] .. pm[first + hits - 1]
  std::uint16_t time, opened;   // within the frame, LSB
  std::uint16_t hits, members;  // members: number of its list of fragments
  std::uint16_t primitive;
  std::uint8_t boards, truncated;
};
static_assert(sizeof(Fragment) == 16 && sizeof(BuiltEvent) == 16);

// Tables of a frame's fragments and events; in shared memory, or in device memory for large frames.
struct Tables {
  Fragment* fragment = nullptr;
  BuiltEvent* event = nullptr;      // also room for sorting the fragments
  std::uint16_t* member = nullptr;  // lists x fragments
  std::uint32_t* slot = nullptr;    // fragments + 1
  std::uint32_t* key = nullptr;     // fragments rounded up to a power of two
  PmId* pm = nullptr;               // capacity: hit words in the bytes
  std::uint32_t fragments = 0;      // total
};

NANET_HD inline constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

// Lays the tables out from `at`, a 16 B boundary. fragments: a power of two; hits: number of hit words.
NANET_HD inline Tables lay_out(std::byte* at, std::uint32_t fragments, unsigned lists, std::uint32_t hits) {
  Tables t;
  t.fragments = fragments;
  t.fragment = reinterpret_cast<Fragment*>(at);
  at += sizeof(Fragment) * fragments;
  t.event = reinterpret_cast<BuiltEvent*>(at);
  at += sizeof(BuiltEvent) * fragments;
  t.key = reinterpret_cast<std::uint32_t*>(at);
  at += sizeof(std::uint32_t) * fragments;
  t.slot = reinterpret_cast<std::uint32_t*>(at);
  at += round_up(sizeof(std::uint32_t) * (fragments + 1));
  t.member = reinterpret_cast<std::uint16_t*>(at);
  at += round_up(sizeof(std::uint16_t) * fragments * lists);
  t.pm = reinterpret_cast<PmId*>(at);
  static_cast<void>(hits);
  return t;
}
NANET_HD inline constexpr std::size_t table_bytes(std::uint32_t fragments, unsigned lists,
                                                  std::uint32_t hits) {
  return sizeof(Fragment) * fragments + sizeof(BuiltEvent) * fragments + sizeof(std::uint32_t) * fragments +
         round_up(sizeof(std::uint32_t) * (fragments + 1)) +
         round_up(sizeof(std::uint16_t) * fragments * lists) + round_up(sizeof(PmId) * hits);
}

// Number of fragment lists: 1, 4 or 8, so that loops over boards have a fixed length.
NANET_HD inline constexpr unsigned lists_for(unsigned boards) {
  return boards == 1 ? 1 : boards <= 4 ? 4 : max_boards;
}

// Index of a frame (contract::IndexEntry) by board; `none` behind a board's fragments.
inline constexpr std::uint32_t index_room = 256;  // of a board, a power of two
using Index = std::uint32_t[contract::index_boards][index_room];
static_assert(index_room >= contract::index_units * contract::entries_per_unit);

// Shared state of a block during merging.
struct Merge {
  struct Payload {
    std::uint32_t at, sequence;   // offset in the bytes
    std::uint16_t length, start;  // start: index of its first fragment within the board
    std::uint8_t most, fixed;     // most: upper limit of fragments; fixed: slots of 32 hits
    std::uint16_t walked;         // fragments found
    std::uint32_t sound;          // valid fragments before the first invalid one
  };
  union {
    Payload payload[max_boards][max_payloads];
    alignas(16) Index index;  // until Merger lists the packets
  };
  std::uint32_t payloads[max_boards];
  std::uint32_t count[max_boards];  // fragments of each board
  std::uint32_t unordered[max_boards];
  std::uint32_t gaps, pm_used, duplicates, masked;
  std::uint32_t room[33];
};

// Private copy of the description of a frame's bytes: board b at `at` + b x stride. The array is read with
// fixed indices only, so that it stays in registers.
struct Bytes {
  const std::byte* at = nullptr;
  std::uint32_t stride = 0;
  bool shared = false;   // `at` is in shared memory of the block
  bool indexed = false;  // with an index of every board: Merge::index
  std::uint32_t bytes[max_boards] = {};
  std::uint32_t fragments[contract::index_boards] = {};  // entries of the index
  unsigned boards = 0;
};

}  // namespace nanet::gpu
