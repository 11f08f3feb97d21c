// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/packet_receiver.hpp"

#include <cstring>
#include <limits>

namespace nanet::card {

using contract::Event;
using contract::EventType;
namespace flag = wire::mgp::flag;

PacketReceiver::PacketReceiver(const ReceiverOptions& options, Consumers& consumers, FrameTable& table, Counters& counters)
    : options_(options),
      consumers_(consumers),
      table_(table),
      counters_(counters),
      expected_(options.rules.boards ? options.rules.boards : 1) {}

void PacketReceiver::packet(std::span<const std::byte> datagram, Nanoseconds stamp) noexcept {
  const auto lose = [this](Lost reason) { ++counters_.lost[static_cast<std::size_t>(reason)]; };
  ++counters_.packets_in;
  counters_.bytes_in += datagram.size();
  const auto checked = wire::mgp::validate(datagram, options_.rules);
  if (checked.refusal != wire::mgp::Refusal::none) {
    ++counters_.bad[static_cast<std::size_t>(checked.refusal)];
    if (refused_) refused_(datagram, checked.refusal, stamp);
    return;
  }
  const auto& header = checked.header;
  if (!any_burst_ || header.burst != burst_) {
    if (any_burst_) {
      if (static_cast<std::uint8_t>(header.burst - burst_) > 127) return lose(Lost::late);
      if (!header.has(flag::sob) && !(candidate_ && candidate_number_ == header.burst)) {
        candidate_ = true;
        candidate_number_ = header.burst;
        return lose(Lost::unconfirmed_jump);
      }
      missing_before_ = missing();
      board_ = {};
    }
    any_burst_ = true;
    candidate_ = false;
    burst_ = header.burst;
    ++counters_.bursts;
  }
  Board& board = board_[header.board == merged_board ? 0 : header.board];
  if (header.has(flag::sob)) {
    ++counters_.burst_markers;
    board.sequence.restart();
    board.sequence.accept(0);
    return;
  }
  if (!admit(header)) return;
  if (header.has(flag::eob)) {
    ++counters_.burst_markers;
    board.eob = true;
    for (unsigned b = 0; b < max_boards; ++b)
      if ((expected_ >> b & 1) && !board_[b].eob) return;
    return close(stamp);
  }
  if (!open_ && !open(header, stamp)) return lose(Lost::overrun);
  const std::uint64_t n = table_.end - 1;
  const contract::View& view = consumers_.views[n % consumers_.views.size()];
  if (header.length > view.shape.slot_bytes) return lose(Lost::segment_overflow);
  std::memcpy(view.buffer(view.buffer_of(n)) + std::size_t{filled_} * view.shape.slot_bytes, datagram.data(), header.length);
  ++filled_;
  bytes_ += header.length;
  ++counters_.packets_used;
  counters_.events_in += checked.fragments;
  counters_.hits_in += checked.hits;
  if (filled_ == view.shape.packets) close(stamp);
}

bool PacketReceiver::admit(const wire::mgp::Header& header) noexcept {
  Board& board = board_[header.board == merged_board ? 0 : header.board];
  switch (board.sequence.look(header.sequence)) {
    case SequenceTracker::Look::replayed:
      ++counters_.lost[static_cast<std::size_t>(Lost::replayed_sequence)];
      return false;
    case SequenceTracker::Look::jump: {
      const auto apart = static_cast<std::int32_t>(header.sequence - board.jump_sequence);
      if (!board.jumping || apart == 0 || apart > sequence_window || apart < -sequence_window) {
        board.jumping = true;
        board.jump_sequence = header.sequence;
        ++counters_.lost[static_cast<std::size_t>(Lost::unconfirmed_jump)];
        return false;
      }
      board.sequence.jump(board.jump_sequence, header.sequence);
      break;
    }
    case SequenceTracker::Look::fresh:
      board.sequence.accept(header.sequence);
  }
  board.jumping = false;
  return true;
}

bool PacketReceiver::open(const wire::mgp::Header& header, Nanoseconds stamp) noexcept {
  const std::uint64_t n = table_.end;
  const std::size_t device = n % consumers_.views.size();
  const contract::View& view = consumers_.views[device];
  FrameTable::Slot& slot = table_.slot(n);
  const bool returned = !slot.used || (contract::acquire(view.returned[view.buffer_of(n)]) == static_cast<std::uint32_t>(slot.n + 1) &&
                                       table_.next > slot.n);
  contract::EventWriter& events = consumers_.events[device];
  if (!returned || events.room() < 4) {
    if (!events.less_than_half_free()) {  // a stalled consumer is told, and not drowned
      Event e;
      e.type = static_cast<std::uint8_t>(EventType::error);
      e.stream = options_.stream;
      e.flags = contract::event_flag::overrun;
      e.bytes = 1;
      e.frame = header.frame;
      e.time_ns = static_cast<std::uint64_t>(stamp);
      e.n = static_cast<std::uint32_t>(n);
      events.write(e);
    }
    return false;
  }
  events.promise(2);  // receive done, send done
  if (slot.passed_late) {
    if (contract::Descriptor answer; contract::posted(view, slot.n, answer)) ++counters_.answers_after_deadline;
    if (observer_) observer_->reaped(slot.n);
  }
  slot = FrameTable::Slot{};
  slot.n = n;
  slot.used = slot.seen = true;
  slot.frame = header.frame;
  slot.first = stamp;
  table_.set(n, FrameTable::Status::open);
  table_.end = n + 1;
  ++counters_.frames_in;
  open_ = true;
  filled_ = bytes_ = 0;
  return true;
}

void PacketReceiver::close(Nanoseconds now) noexcept {
  if (!open_) return;
  if (options_.clock) now = options_.clock();
  const std::uint64_t n = table_.end - 1;
  const std::size_t device = n % consumers_.views.size();
  const contract::View& view = consumers_.views[device];
  FrameTable::Slot& slot = table_.slot(n);
  // A partly filled buffer: an empty slot says so by a length of 0 in its own header.
  for (std::uint32_t i = filled_; i < view.shape.packets; ++i)
    std::memset(view.buffer(view.buffer_of(n)) + std::size_t{i} * view.shape.slot_bytes, 0, wire::mgp::header_bytes);
  const bool full = filled_ == view.shape.packets;
  if (!full) ++counters_.frames_incomplete;
  slot.closed = now;
  table_.set(n, FrameTable::Status::closed);
  Event e;
  e.type = static_cast<std::uint8_t>(EventType::receive_done);
  e.stream = options_.stream;
  e.flags = full ? contract::event_flag::complete : std::uint16_t{0};
  e.buffer = view.buffer_of(n);
  e.bytes = bytes_;
  e.frame = slot.frame;
  e.time_ns = static_cast<std::uint64_t>(now);
  e.n = static_cast<std::uint32_t>(n);
  consumers_.events[device].write_promised(e);
  open_ = false;
}

void PacketReceiver::expire(Nanoseconds) noexcept {
  counters_.lost[static_cast<std::size_t>(Lost::missing)].set(static_cast<std::uint64_t>(missing() > 0 ? missing() : 0));
}

Nanoseconds PacketReceiver::next_timer() const noexcept { return std::numeric_limits<Nanoseconds>::max(); }

std::int64_t PacketReceiver::missing() const noexcept {
  std::int64_t sum = missing_before_;
  for (const Board& b : board_) sum += b.sequence.missing();
  return sum;
}

}  // namespace nanet::card
