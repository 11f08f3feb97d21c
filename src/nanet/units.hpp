// SPDX-License-Identifier: Apache-2.0
// Units of time and identifiers used by every layer.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define NANET_HD __host__ __device__
#else
#define NANET_HD
#endif

namespace nanet {

using Frame = std::uint32_t;      // 24 bits: timestamp >> 8
using Timestamp = std::uint32_t;  // periods since the start of the burst (SOB)
using FineTime = std::uint8_t;    // 1/256 of a period
using Lsb = std::int64_t;         // fine-time steps since the start of the burst: timestamp * 256 + fine time
using PmId = std::uint16_t;       // photomultiplier, 0 - 1951
using BoardId = std::uint8_t;     // 0 - 3, or merged_board
using Sequence = std::uint32_t;   // packet count of one board, 0 is the SOB
using Nanoseconds = std::int64_t;  // CLOCK_MONOTONIC

// Period of the detector clock; every other time constant derives from it.
inline constexpr double lsb_ns = 0.097464731802;
inline constexpr std::int32_t lsb_per_period = 256;
inline constexpr std::int32_t periods_per_frame = 256;
inline constexpr std::int32_t lsb_per_frame = lsb_per_period * periods_per_frame;
inline constexpr double period_ns = lsb_ns * lsb_per_period;
inline constexpr double frame_ns = lsb_ns * lsb_per_frame;
inline constexpr Frame default_max_frames = 751'500;  // 4.8 s of detector time

inline constexpr PmId pm_count = 1952;
inline constexpr PmId pms_per_board = 512;
inline constexpr BoardId merged_board = 0xFF;
inline constexpr unsigned max_boards = 8;  // limit of the CLOP frame header
inline constexpr std::uint8_t rich_source = 0x1C;
inline constexpr unsigned max_fragment_hits = 32;
inline constexpr unsigned max_event_hits = 128;

}  // namespace nanet
