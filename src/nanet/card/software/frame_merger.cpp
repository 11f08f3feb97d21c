// SPDX-License-Identifier: Apache-2.0
// Frame merger: collection of fragments, rows, hits.
#include "nanet/card/software/frame_merger.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "nanet/wire/join.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {
namespace {

namespace mgp = wire::mgp;
using contract::merged_boards;
using contract::MergedRow;
using contract::Unmerged;

constexpr std::size_t hits_at = sizeof(MergedRow) * contract::merged_rows;

}  // namespace

std::size_t merging_segment(std::uint32_t boards) noexcept {
  constexpr std::size_t step = 1024, bytes = contract::merged_buffer_bytes - contract::frame_header_bytes;
  return (bytes + step * boards - 1) / (step * boards) * step;
}

void check_merging(const contract::Shape& shape, std::uint8_t boards, std::int32_t window_lsb) {
  if (shape.gather != contract::Gather::frame)
    throw std::invalid_argument("merge = true: a card merges whole frames: use --gather frame");
  if (boards == 0)
    throw std::invalid_argument(
        "merge = true with boards = merged: such a stream has whole events: leave --merge out");
  if (shape.boards > merged_boards)
    throw std::invalid_argument("merge = true: a card merges boards 0 to 3 at most: leave --merge out");
  if (shape.buffer_bytes() < contract::merged_buffer_bytes)
    throw std::invalid_argument("segment_bytes = " + std::to_string(shape.segment_bytes) + " with " +
                                std::to_string(shape.boards) + (shape.boards == 1 ? " board" : " boards") +
                                ": a merged frame takes " + std::to_string(contract::merged_buffer_bytes) +
                                " bytes; give --segment-bytes " +
                                std::to_string(merging_segment(shape.boards)) + ", or leave --merge out");
  if (window_lsb < 0 || window_lsb > contract::merged_window_lsb)
    throw std::invalid_argument("window_lsb = " + std::to_string(window_lsb) +
                                ": a merging card takes 0 to " + std::to_string(contract::merged_window_lsb));
}

FrameMerger::FrameMerger(const contract::Shape& shape, std::int32_t window_lsb, std::uint8_t encoding)
    : shape_(shape),
      window_(static_cast<std::uint32_t>(window_lsb)),
      encoding_(encoding),
      capacity_(shape.segment_bytes / static_cast<std::uint32_t>(mgp::event_header_bytes)),
      fragments_(std::size_t{capacity_} * merged_boards),
      times_(std::size_t{capacity_ + 1} * merged_boards),
      merged_(contract::merged_buffer_bytes - contract::frame_header_bytes) {}

// Returns false if the fragments are not in order of sequence number and time, or the bytes are no packets.
bool FrameMerger::collect(unsigned board, const std::byte* segment, std::size_t bytes) noexcept {
  Fragment* const fragments = &fragments_[std::size_t{capacity_} * board];
  std::uint32_t* const times = &times_[std::size_t{capacity_ + 1} * board];
  std::uint32_t count = 0, newest = 0;
  Sequence sequence = 0;
  for (std::size_t at = 0; at < bytes;) {
    if (bytes - at < mgp::header_bytes) return false;
    const mgp::Header header = mgp::decode_header(segment + at);
    if (header.length < mgp::header_bytes || header.length > bytes - at || header.sequence < sequence)
      return false;
    sequence = header.sequence;
    mgp::FragmentReader reader(segment + at, bytes - at, header);
    mgp::Fragment f;
    for (unsigned i = 0; i < header.events; ++i) {
      if (count == capacity_ || !reader.next(f)) return false;
      const auto time = static_cast<std::uint16_t>(f.timestamp << 8 | f.fine);
      if (time < newest) return false;
      newest = time;
      times[count] = mgp::join_key(time, count);  // at most 65535 B: the number fits
      fragments[count++] = {f.hits, time, f.stored, (f.flags & 1) != 0 || f.seen > f.stored};
      hits_ += f.stored;
    }
    at += (header.length + contract::payload_alignment - 1) / contract::payload_alignment *
          contract::payload_alignment;
  }
  times[count] = mgp::end_of_fragments;
  count_[board] = count;
  return true;
}

void FrameMerger::write_row(std::uint32_t event, std::uint32_t first,
                            const std::array<bool, merged_boards>& joins,
                            const std::array<std::uint32_t, merged_boards>& number) noexcept {
  MergedRow row;
  row.first = static_cast<std::uint16_t>(written_);
  row.opened = static_cast<std::uint16_t>(first);
  std::int32_t sum = 0;
  std::uint32_t flags = 0;
  std::byte* to = &merged_[hits_at] + sizeof(std::uint16_t) * written_;
  for (unsigned b = 0; b < merged_boards; ++b) {
    if (!joins[b]) continue;
    const Fragment& f = fragments_[std::size_t{capacity_} * b + number[b]];
    row.boards = static_cast<std::uint8_t>(row.boards | 1u << b);
    row.hits[b] = f.stored;
    row.delay[b] = static_cast<std::uint8_t>(f.time - first);
    if (f.truncated) flags |= MergedRow::truncated;
    std::uint32_t above = 0;
    for (unsigned i = 0; i < f.stored; ++i) {
      const auto word = mgp::load<std::uint16_t>(f.hits + 2 * i);
      const std::uint32_t pm = mgp::hit_pm(word, encoding_);
      if (pm < above) flags |= MergedRow::disordered;
      above = pm + 1;
      sum += mgp::hit_lsb(word, encoding_) / 4;
    }
    std::memcpy(to, f.hits, 2u * f.stored);
    to += 2u * f.stored;
    written_ += f.stored;
  }
  row.sum = static_cast<std::int16_t>(sum);
  row.flags = static_cast<std::uint8_t>(flags);
  std::memcpy(&merged_[sizeof row * event], &row, sizeof row);
}

std::uint32_t FrameMerger::operator()(std::byte* buffer, contract::FrameHeader& header) noexcept {
  header.layout = contract::Layout::segments;
  header.rows = static_cast<std::uint16_t>(contract::merged_rows);
  header.events = header.fragments = header.hits = 0;
  hits_ = written_ = 0;
  std::array<const std::uint32_t*, merged_boards> times;
  std::uint32_t fragments = 0;
  for (unsigned b = 0; b < merged_boards; ++b) {
    const std::size_t bytes = b < shape_.boards ? header.board[b].bytes : 0;
    const std::byte* const segment =
        buffer + contract::frame_header_bytes + std::size_t{b} * shape_.segment_bytes;
    if (bytes > shape_.segment_bytes || !collect(b, segment, bytes)) {
      header.unmerged = Unmerged::disordered;
      return 0;
    }
    times[b] = &times_[std::size_t{capacity_ + 1} * b];
    fragments += count_[b];
  }
  if (hits_ > contract::merged_hits) {
    header.unmerged = Unmerged::hits;
    return 0;
  }
  const std::uint32_t events = mgp::join<merged_boards>(
      times, window_, [&](std::uint32_t event, std::uint32_t first, const auto& joins, const auto& number) {
        if (event < contract::merged_rows) write_row(event, first, joins, number);
      });
  if (events > contract::merged_rows) {
    header.unmerged = Unmerged::events;
    return 0;
  }
  header.unmerged = Unmerged::none;
  header.layout = contract::Layout::merged;
  header.events = static_cast<std::uint16_t>(events);
  header.fragments = static_cast<std::uint16_t>(fragments);
  header.hits = static_cast<std::uint16_t>(hits_);
  std::byte* const rows = buffer + contract::frame_header_bytes;
  const std::size_t row_bytes = sizeof(MergedRow) * events, hit_bytes = sizeof(std::uint16_t) * hits_;
  std::memcpy(rows, merged_.data(), row_bytes);
  std::memcpy(rows + hits_at, &merged_[hits_at], hit_bytes);
  return static_cast<std::uint32_t>(contract::frame_header_bytes + row_bytes + hit_bytes);
}

}  // namespace nanet::card
