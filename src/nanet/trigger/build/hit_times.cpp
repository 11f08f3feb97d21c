// SPDX-License-Identifier: Apache-2.0
// Hit times of an event sample.
#include "nanet/trigger/build/hit_times.hpp"

#include <algorithm>

#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {

namespace mgp = wire::mgp;

void set_hit_times(stats::EventSample& event, std::span<const Segment> payloads, std::uint16_t opened,
                   std::int32_t window_lsb) noexcept {
  event.clear_times();
  const PmId* const pm = event.pm;
  const PmId* const end = pm + std::min<std::size_t>(event.hits, max_event_hits);
  const auto event_time = static_cast<std::int32_t>(event.time % lsb_per_frame);
  for (const Segment& segment : payloads) {
    for (std::size_t at = 0; at + mgp::header_bytes <= segment.bytes;) {
      const mgp::Header header = mgp::decode_header(segment.at + at);
      if (header.length < mgp::header_bytes || at + header.length > segment.bytes) break;
      mgp::FragmentReader reader(segment.at + at, segment.bytes - at, header);
      for (mgp::Fragment f; reader.next(f);) {
        const auto begin = static_cast<std::int32_t>((f.timestamp << 8 | f.fine) & 0xFFFF);
        if (begin < opened || begin > opened + window_lsb) continue;
        for (std::uint32_t i = 0; i < f.stored; ++i) {
          const auto word = mgp::load<std::uint16_t>(f.hits + 2 * i);
          const PmId* const found = std::lower_bound(pm, end, mgp::hit_pm(word));
          if (found == end || *found != mgp::hit_pm(word)) continue;
          std::int16_t& late = event.late[found - pm];
          if (late == stats::EventSample::no_time)
            late = static_cast<std::int16_t>(begin + mgp::hit_lsb(word) - event_time);
        }
      }
      at += (header.length + contract::payload_alignment - 1) / contract::payload_alignment *
            contract::payload_alignment;
    }
  }
}

}  // namespace nanet::trigger
