// SPDX-License-Identifier: Apache-2.0
// Hit times of an event sample.
#include "nanet/trigger/build/hit_times.hpp"

#include <algorithm>
#include <cstring>

#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {

namespace mgp = wire::mgp;

namespace {

// Time of the first hit of its PM, relative to the event.
void set_hit_time(stats::EventSample& event, std::uint16_t word, std::int32_t fragment_time,
                  std::uint8_t encoding = mgp::hit_encoding) noexcept {
  const PmId id = mgp::hit_pm(word, encoding);
  const PmId* const pm = event.pm;
  const PmId* const end = pm + std::min<std::size_t>(event.hits, max_event_hits);
  const PmId* const found = std::lower_bound(pm, end, id);
  if (found == end || *found != id) return;
  std::int16_t& late = event.late[found - pm];
  if (late == stats::EventSample::no_time)
    late = static_cast<std::int16_t>(fragment_time + mgp::hit_lsb(word, encoding) -
                                     static_cast<std::int32_t>(event.time % lsb_per_frame));
}

}  // namespace

void set_hit_times(stats::EventSample& event, std::span<const Segment> payloads, std::uint16_t opened,
                   std::int32_t window_lsb) noexcept {
  event.clear_times();
  for (const Segment& segment : payloads) {
    for (std::size_t at = 0; at + mgp::header_bytes <= segment.bytes;) {
      const mgp::Header header = mgp::decode_header(segment.at + at);
      if (header.length < mgp::header_bytes || at + header.length > segment.bytes) break;
      mgp::FragmentReader reader(segment.at + at, segment.bytes - at, header);
      for (mgp::Fragment f; reader.next(f);) {
        const auto begin = static_cast<std::int32_t>((f.timestamp << 8 | f.fine) & 0xFFFF);
        if (begin < opened || begin > opened + window_lsb) continue;
        for (std::uint32_t i = 0; i < f.stored; ++i)
          set_hit_time(event, mgp::load<std::uint16_t>(f.hits + 2 * i), begin, header.encoding);
      }
      at += (header.length + contract::payload_alignment - 1) / contract::payload_alignment *
            contract::payload_alignment;
    }
  }
}

void set_hit_times(stats::EventSample& event, std::span<const std::byte> buffer, std::uint32_t row) noexcept {
  event.clear_times();
  contract::FrameHeader header;
  contract::MergedRow of;
  const std::size_t row_at = sizeof header + sizeof of * row;
  if (row_at + sizeof of > buffer.size()) return;
  std::memcpy(&header, buffer.data(), sizeof header);
  std::memcpy(&of, buffer.data() + row_at, sizeof of);
  std::size_t at = sizeof header + sizeof of * header.rows + sizeof(std::uint16_t) * of.first;
  for (unsigned b = 0; b < contract::merged_boards; ++b)
    for (unsigned i = 0; i < of.hits[b]; ++i, at += 2) {
      if (at + 2 > buffer.size()) return;
      set_hit_time(event, mgp::load<std::uint16_t>(&buffer[at]), of.opened + of.delay[b]);
    }
}

}  // namespace nanet::trigger
