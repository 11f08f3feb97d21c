// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/mailbox.hpp"

#include <algorithm>

#include "nanet/contract/fragment_index.hpp"
#include "nanet/wire/mgp.hpp"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace nanet::contract {
namespace {

#ifdef __AVX2__

// Two units in one store; only each of them is one access. data: eight words, the last two of which are not
// used.
void store_two_units(std::byte* at, __m256i data, std::uint32_t mark) noexcept {
  const __m256i spread = _mm256_permutevar8x32_epi32(data, _mm256_setr_epi32(0, 1, 2, 7, 3, 4, 5, 7));
  const __m256i marks = _mm256_set1_epi32(static_cast<int>(mark));
  const __m256i two = _mm256_blend_epi32(spread, marks, 0x88);
  asm volatile("vmovdqu %1, %0" : "=m"(*reinterpret_cast<__m256i_u*>(at)) : "x"(two));
}
void store_two_units(std::byte* at, const std::byte* data, std::uint32_t mark) noexcept {
  store_two_units(at, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)), mark);
}

#endif

}  // namespace

std::uint32_t MailboxWriter::segment(std::uint64_t n, std::uint32_t buffer, unsigned board,
                                     const std::byte* segment, std::uint32_t units, std::uint32_t bytes,
                                     bool whole) noexcept {
  if (bytes > mailbox_.shape.segment_bytes) return units;
  const std::uint32_t mark = mailbox_mark(n);
  const std::uint32_t end = whole ? units_for(bytes) : bytes / static_cast<std::uint32_t>(unit_data_bytes);
  std::byte* const to = mailbox_.input + mailbox_.shape.segment(buffer, board);
#ifdef __AVX2__
  for (; units + 2 <= end; units += 2)
    store_two_units(to + unit_bytes * units, segment + unit_data_bytes * units, mark);
#endif
  for (; units < end; ++units) store_unit(to + unit_bytes * units, segment + unit_data_bytes * units, mark);
  return units;
}

std::uint32_t MailboxWriter::index(std::uint64_t n, std::uint32_t buffer, unsigned board,
                                   const std::byte* segment, std::uint32_t bytes) noexcept {
  if (mailbox_.shape.index_stride() == 0 || !holds(bytes)) return no_index;
  // Entries behind the last one fill its unit, and the vector load of it.
  alignas(32) std::uint32_t entry[index_entries + entries_per_unit + 2];
  const std::uint32_t fragments = index_fragments(segment, bytes, {entry, index_entries});
  if (fragments == no_index) return no_index;
  std::fill_n(entry + fragments, entries_per_unit + 2, IndexEntry::none);
  const std::uint32_t mark = mailbox_mark(n);
  const auto* const data = reinterpret_cast<const std::byte*>(entry);
  std::byte* const to = mailbox_.input + mailbox_.shape.index(buffer, board);
  for (std::uint32_t u = 0; u * entries_per_unit < fragments; ++u)
    store_unit(to + unit_bytes * u, data + unit_data_bytes * u, mark);
  return fragments;
}

bool MailboxWriter::merged(std::uint64_t n, std::uint32_t buffer, const std::byte* from) noexcept {
  FrameHeader header;
  std::memcpy(&header, from, sizeof header);
  const std::size_t rows = sizeof(MergedRow) * header.events, hits = sizeof(std::uint16_t) * header.hits,
                    bytes = rows + hits;
  constexpr std::size_t most = merged_boards * (mailbox_segment_bytes + index_units * unit_data_bytes),
                        vector = 32;
  if (bytes > mailbox_.shape.merged_bytes() || bytes > most) return false;
  alignas(32) std::byte data[most + vector];
  std::memcpy(data, from + sizeof header, rows);
  std::memcpy(data + rows, from + sizeof header + sizeof(MergedRow) * header.rows, hits);
  std::memset(data + bytes, 0, vector);
  const std::uint32_t mark = mailbox_mark(n), end = units_for(static_cast<std::uint32_t>(bytes));
  std::byte* const to = mailbox_.input + mailbox_.shape.segment(buffer, 0);
  std::uint32_t u = 0;
#ifdef __AVX2__
  for (; u + 2 <= end; u += 2) store_two_units(to + unit_bytes * u, data + unit_data_bytes * u, mark);
#endif
  for (; u < end; ++u) store_unit(to + unit_bytes * u, data + unit_data_bytes * u, mark);
  return true;
}

void MailboxWriter::add(std::uint64_t n, std::uint32_t buffer, unsigned board, Index& index, std::uint32_t at,
                        const wire::mgp::Header& header, const std::uint32_t* entries) noexcept {
  using State = Index::State;
  if (index.state == State::none) return;
  // Rules of index_fragments().
  if (mailbox_.shape.index_stride() == 0 || ++index.packets > indexed_packets ||
      header.has(wire::mgp::flag::fixed) || header.sequence < index.newest || !holds(at + header.length) ||
      std::uint32_t{index.fragments} + header.events > index_entries) {
    index.state = State::none;
    return;
  }
  index.newest = header.sequence;
  if (!entries && header.events > 0) index.state = State::unlisted;
  if (index.state == State::unlisted) return;
  const std::uint32_t mark = mailbox_mark(n);
  std::byte* to = mailbox_.input + mailbox_.shape.index(buffer, board) +
                  unit_bytes * (index.fragments / entries_per_unit);
  const unsigned count = header.events, begun = index.fragments % entries_per_unit;
  index.fragments = static_cast<std::uint8_t>(index.fragments + count);
  const auto entry = [&](unsigned i) { return entries[i] + at; };  // within the 16 bits of offsets: holds()
  unsigned i = 0;
  if (begun > 0) {  // a unit that the packet before has begun
    if (begun == 1 && count > 0) index.rest[1] = entry(i++);
    if (begun + count < entries_per_unit) return;
    store_unit(to, index.rest[0], index.rest[1], entry(i++), mark);
    to += unit_bytes;
  }
#ifdef __AVX2__
  const __m256i offset = _mm256_set1_epi32(static_cast<int>(at));
  for (; i + 8 <= count; i += 2 * entries_per_unit, to += 2 * unit_bytes) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(entries + i));
    store_two_units(to, _mm256_add_epi32(eight, offset), mark);
  }
#endif
  for (; i + entries_per_unit <= count; i += entries_per_unit, to += unit_bytes)
    store_unit(to, entry(i), entry(i + 1), entry(i + 2), mark);
  for (unsigned r = 0; i < count; ++r) index.rest[r] = entry(i++);
}

std::uint32_t MailboxWriter::finish(std::uint64_t n, std::uint32_t buffer, unsigned board, const Index& index,
                                    const std::byte* segment, std::uint32_t bytes) noexcept {
  if (index.state == Index::State::unlisted) return this->index(n, buffer, board, segment, bytes);
  if (index.state == Index::State::none || mailbox_.shape.index_stride() == 0 || !holds(bytes))
    return no_index;
  const std::uint32_t filled = index.fragments % entries_per_unit;
  if (filled == 0) return index.fragments;
  store_unit(mailbox_.input + mailbox_.shape.index(buffer, board) +
                 unit_bytes * (index.fragments / entries_per_unit),
             index.rest[0], filled > 1 ? index.rest[1] : IndexEntry::none, IndexEntry::none, mailbox_mark(n));
  return index.fragments;
}

void MailboxWriter::event(const Event& event, std::uint32_t index, std::uint32_t lap,
                          const EventLine& rest) noexcept {
  EventLine line = rest;
  std::memcpy(line.event.data(), &event, sizeof line.event);
  alignas(16) std::byte data[sizeof line + 4] = {};
  std::memcpy(data, &line, sizeof line);
  std::byte* const to = mailbox_.input + line_bytes * index;
  for (unsigned u = 0; u < units_per_line; ++u)
    store_unit(to + unit_bytes * u, data + unit_data_bytes * u, lap);
  flush_lines();
}

}  // namespace nanet::contract
