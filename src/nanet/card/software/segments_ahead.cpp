// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/segments_ahead.hpp"

#include <algorithm>
#include <cstring>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/fragment_index.hpp"
#include "nanet/os/affinity.hpp"

namespace nanet::card {

namespace flag = wire::mgp::flag;

void SegmentsAhead::disable() noexcept {
  enabled_.store(false, std::memory_order_seq_cst);
  wait_for_all();
}

void SegmentsAhead::wait_for_all() const noexcept {
  for (const Lane* lane : lanes_)
    while (lane->writes.load(std::memory_order_seq_cst)) os::spin();
}

std::uint64_t SegmentsAhead::begin_burst(std::uint8_t number, std::uint64_t base) noexcept {
  burst_.store(std::uint64_t{number} << base_bits | (base & base_mask), std::memory_order_seq_cst);
  wait_for_all();
  std::uint64_t written = 0;
  for (const Owner& owner : owner_) written = std::max(written, owner.up_to.load(std::memory_order_seq_cst));
  return written;
}

bool SegmentsAhead::begin(Lane& lane) const noexcept {
  if (!enabled_.load(std::memory_order_relaxed)) return false;
  lane.writes.store(true, std::memory_order_seq_cst);
  if (enabled_.load(std::memory_order_seq_cst)) return true;
  lane.writes.store(false, std::memory_order_release);
  return false;
}

void SegmentsAhead::end(Lane& lane) noexcept {
  contract::flush_lines();  // before the packets are handed over
  lane.writes.store(false, std::memory_order_release);
}

// Whether the buffer of n has been returned by the number before, and that number passed, as the card's
// thread will find it.
bool SegmentsAhead::returned(const contract::View& view, std::uint64_t n) const noexcept {
  const std::uint64_t lap = slots_;
  if (n >= lap && n - lap >= passed_.load(std::memory_order_acquire)) return false;
  return contract::acquire(view.returned[view.buffer_of(n)]) ==
         (n < lap ? 0 : static_cast<std::uint32_t>(n - lap + 1));
}

const SegmentsAhead::Lane* SegmentsAhead::owner_lane(unsigned board) const noexcept {
  const std::uint8_t number = owner_[board].lane.load(std::memory_order_seq_cst);
  for (const Lane* lane : lanes_)
    if (lane->number == number) return lane;
  return nullptr;
}

void SegmentsAhead::wait_for_owner(unsigned board) const noexcept {
  if (const Lane* const lane = owner_lane(board))
    while (lane->writes.load(std::memory_order_seq_cst)) os::spin();
}

void SegmentsAhead::distrust() noexcept {
  for (Owner& owner : owner_) owner.shared.store(true, std::memory_order_seq_cst);
}

bool SegmentsAhead::reserve(std::uint64_t n) noexcept {
  const std::size_t slot = n & (slots_ - 1);
  // Either the thread sees this, or this thread sees the thread's number.
  least_[slot].store(n, std::memory_order_seq_cst);
  for (unsigned b = 0; b < max_boards; ++b) {
    const std::uint64_t up_to = owner_[b].up_to.load(std::memory_order_seq_cst);
    if (up_to <= reserved_[slot] || up_to > n || ((up_to - 1) & (slots_ - 1)) != slot) continue;
    const Lane* const lane = owner_lane(b);
    if (lane && lane->writes.load(std::memory_order_seq_cst)) return false;
  }
  reserved_[slot] = n;
  return true;
}

// Notes the packet; false if the thread has seen another one of its frame, or a later frame.
bool SegmentsAhead::is_first_of_its_frame(Lane& lane, unsigned board, const wire::mgp::Header& header,
                                          std::uint64_t burst) const noexcept {
  if (burst != lane.burst) {
    // The numbers half a turn away from the current one are free for later bursts.
    constexpr unsigned half_turn = 128;
    const auto at = static_cast<std::uint8_t>(burst >> base_bits);
    auto before = static_cast<std::uint8_t>(lane.burst == no_burst ? at - 1 : lane.burst >> base_bits);
    // A thread that has missed more changes clears nothing: old frames keep it from writing, no more.
    if (static_cast<std::uint8_t>(at - before) >= half_turn) before = at;
    for (auto number = static_cast<std::uint8_t>(before + half_turn);
         number != static_cast<std::uint8_t>(at + half_turn);)
      for (++number; auto& of_board : lane.newest) of_board[number] = -1;
    lane.burst = burst;
  }
  std::int64_t& newest = lane.newest[board][header.burst];
  if (std::int64_t{header.frame} <= newest) return false;
  newest = header.frame;
  return true;
}

WrittenSegment SegmentsAhead::write(Lane& lane, const wire::mgp::Checked& checked,
                                    std::span<const std::byte> datagram, bool may_write) noexcept {
  const wire::mgp::Header& header = checked.header;
  if (checked.refusal != wire::mgp::Refusal::none || header.has(flag::sob | flag::eob)) return {};
  const unsigned b = header.board == merged_board ? 0 : header.board;
  if (b >= max_boards) return {};
  Owner& owner = owner_[b];
  std::uint8_t lane_of = owner.lane.load(std::memory_order_relaxed);
  if (lane_of == no_lane && owner.lane.compare_exchange_strong(lane_of, lane.number)) lane_of = lane.number;
  const std::uint64_t burst = burst_.load(std::memory_order_seq_cst);
  const bool current = burst != no_burst && burst >> base_bits == header.burst;
  const std::uint64_t n = (burst & base_mask) + dealing_.index(header.frame);
  if (lane_of != lane.number) {
    // Either the owner sees `shared`, or this thread sees the owner's number.
    owner.shared.store(true, std::memory_order_seq_cst);
    WrittenSegment other;
    other.foreign = !current || n < owner.up_to.load(std::memory_order_seq_cst);
    return other;
  }
  if (!is_first_of_its_frame(lane, b, header, burst)) return {};
  if (!may_write || !current || !dealing_.owns(header.frame) || header.index != 0 || !header.has(flag::last))
    return {};
  const contract::View& view = consumers_.view_of(n);
  constexpr std::uint32_t step = contract::payload_alignment;
  const std::uint32_t bytes = (header.length + step - 1) / step * step;
  if (b >= view.shape.boards || bytes > view.shape.segment_bytes || !returned(view, n)) return {};
  owner.up_to.store(n + 1, std::memory_order_seq_cst);
  if (owner.shared.load(std::memory_order_seq_cst) ||
      least_[n & (slots_ - 1)].load(std::memory_order_seq_cst) > n)
    return {};
  const std::uint32_t buffer = view.buffer_of(n);
  WrittenSegment written;
  written.n = n;
  contract::MailboxWriter& mailbox = consumers_.events[consumers_.device_of(n)].mailbox();
  if (mailbox && mailbox.holds(bytes) && contract::mailbox_mark(n) != 0) {
    written.in_mailbox = true;
    written.units =
        static_cast<std::uint16_t>(mailbox.segment(n, buffer, b, datagram.data(), 0, bytes, true));
    written.fragments = FrameTable::Slot::without_index;
    if (view.shape.boards <= contract::index_boards) {
      contract::MailboxWriter::Index index;
      mailbox.add(n, buffer, b, index, 0, header, checked.index);
      const std::uint32_t fragments = mailbox.finish(n, buffer, b, index, datagram.data(), bytes);
      if (fragments != contract::no_index) written.fragments = static_cast<std::uint8_t>(fragments);
    }
  }
  // After the mailbox, for which the consumer waits.
  std::memcpy(view.segment(buffer, b), datagram.data(), header.length);
  return written;
}

}  // namespace nanet::card
