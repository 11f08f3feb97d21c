// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/packet_receiver.hpp"

#include <cstring>
#include <limits>

namespace nanet::card {

using contract::Event;
using contract::EventType;
namespace flag = wire::mgp::flag;

PacketReceiver::PacketReceiver(const ReceiverOptions& options, Consumers& consumers, FrameTable& table,
                               Counters& counters)
    : Receiver(options),
      consumers_(consumers),
      table_(table),
      counters_(counters),
      expected_(options.rules.boards ? options.rules.boards : 1) {}

void PacketReceiver::checked_packet(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
                                    const WrittenSegment&, Nanoseconds stamp) noexcept {
  const auto lose = [this](Lost reason) { ++counters_.lost[static_cast<std::size_t>(reason)]; };
  ++counters_.packets_in;
  counters_.bytes_in += datagram.size();
  if (checked.refusal != wire::mgp::Refusal::none) {
    ++counters_.bad[static_cast<std::size_t>(checked.refusal)];
    if (packet_observer_) packet_observer_->packet(datagram, true, stamp);
    if (refused_) refused_(datagram, checked.refusal, stamp);
    return;
  }
  if (packet_observer_) packet_observer_->packet(datagram, false, stamp);
  const auto& header = checked.header;
  Burst* burst = burst_of(header, stamp);
  if (!burst) return;
  Board& board = burst->board[header.board == merged_board ? 0 : header.board];
  if (header.has(flag::sob)) {
    ++counters_.burst_markers;
    if (board.sequence.look(0) == SequenceTracker::Look::fresh)
      board.sequence.accept(0);
    else
      board.sob_pending = true;
    return;
  }
  if (!admit(board, header)) return;
  if (!header.has(flag::eob) && !options_.dealing.owns(header.frame)) return lose(Lost::other_node);
  if (header.has(flag::eob)) {
    ++counters_.burst_markers;
    board.eob = true;
    for (unsigned b = 0; b < max_boards; ++b)
      if ((expected_ >> b & 1) && !burst->board[b].eob) return;
    return close(stamp);
  }
  if (!open_ && !open(header, stamp)) return lose(Lost::overrun);
  const std::uint64_t n = table_.end - 1;
  const contract::View& view = consumers_.view_of(n);
  if (header.length > view.shape.slot_bytes) return lose(Lost::segment_overflow);
  std::memcpy(view.buffer(view.buffer_of(n)) + std::size_t{filled_} * view.shape.slot_bytes, datagram.data(),
              header.length);
  ++filled_;
  bytes_ += header.length;
  ++counters_.packets_used;
  counters_.events_in += checked.fragments;
  counters_.hits_in += checked.hits;
  if (filled_ == view.shape.packets) close(stamp);
}

// Returns the burst of a valid packet, or nullptr if the packet has already been counted. A burst begins with
// its second packet. Payloads of the previous burst are accepted until the timeout after its first packet.
PacketReceiver::Burst* PacketReceiver::burst_of(const wire::mgp::Header& header, Nanoseconds stamp) noexcept {
  const auto lose = [this](Lost reason) { ++counters_.lost[static_cast<std::size_t>(reason)]; };
  const unsigned b = header.board == merged_board ? 0 : header.board;
  if (any_burst_) {
    if (header.burst == current_.number) return &current_;
    if (old_known_ && header.burst == old_.number) {
      if (options_.replay || stamp <= old_until_) return &old_;  // a replay has no clock
      SequenceTracker& sequence = old_.board[b].sequence;        // late, but not missing
      if (sequence.look(header.sequence) == SequenceTracker::Look::fresh) sequence.accept(header.sequence);
    }
    if (static_cast<std::uint8_t>(header.burst - current_.number) > 127) {
      lose(Lost::late);
      return nullptr;
    }
    if (!candidate_ || candidate_number_ != header.burst) {
      candidate_ = true;
      candidate_number_ = header.burst;
      candidate_time_ = stamp;
      kept_sob_ = header.has(flag::sob) ? static_cast<std::uint8_t>(1u << b) : std::uint8_t{0};
      if (kept_sob_)
        ++counters_.burst_markers;
      else
        lose(Lost::unconfirmed_jump);
      return nullptr;
    }
    for (const Board& board : old_.board) missing_before_ += board.sequence.missing();
    old_ = current_;
    old_known_ = true;
    old_until_ = candidate_time_ + options_.timeout;
  }
  current_ = Burst{};
  current_.number = header.burst;
  for (unsigned k = 0; k < max_boards; ++k)
    if (any_burst_ && (kept_sob_ >> k & 1)) current_.board[k].sequence.accept(0);
  any_burst_ = true;
  candidate_ = false;
  ++counters_.bursts;
  return &current_;
}

bool PacketReceiver::admit(Board& board, const wire::mgp::Header& header) noexcept {
  if (board.sob_pending && header.sequence == 1) {  // confirms the restart of the board
    board.sequence.restart();
    board.sequence.accept(0);
  }
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
  board.jumping = board.sob_pending = false;
  return true;
}

bool PacketReceiver::open(const wire::mgp::Header& header, Nanoseconds stamp) noexcept {
  const std::uint64_t n = table_.end;
  const std::size_t device = consumers_.device_of(n);
  const contract::View& view = consumers_.views[device];
  FrameTable::Slot& slot = table_.slot(n);
  const bool returned = !slot.used || (contract::acquire(view.returned[view.buffer_of(n)]) ==
                                           static_cast<std::uint32_t>(slot.n + 1) &&
                                       table_.settled() > slot.n);
  contract::EventWriter& events = consumers_.events[device];
  if (!returned || events.room() < 4) {
    if (overrun_.bytes++ == 0) {
      overrun_.type = static_cast<std::uint8_t>(EventType::error);
      overrun_.stream = options_.stream;
      overrun_.flags = contract::event_flag::overrun;
      overrun_.frame = header.frame;
      overrun_.time_ns = static_cast<std::uint64_t>(stamp);
      overrun_.n = static_cast<std::uint32_t>(n);
    }
    report_overrun();
    return false;
  }
  report_overrun();
  events.promise(2);  // receive done, send done
  if (slot.passed_late) {
    if (contract::Descriptor answer; contract::posted(view, slot.n, answer))
      ++counters_.answers_after_deadline;
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
  const std::size_t device = consumers_.device_of(n);
  const contract::View& view = consumers_.views[device];
  FrameTable::Slot& slot = table_.slot(n);
  // In a partly filled buffer, an empty slot has length 0 in its packet header.
  for (std::uint32_t i = filled_; i < view.shape.packets; ++i)
    std::memset(view.buffer(view.buffer_of(n)) + std::size_t{i} * view.shape.slot_bytes, 0,
                wire::mgp::header_bytes);
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

// Payloads without a buffer share one event (bytes: their number) while fewer than half of the entries are
// free.
void PacketReceiver::report_overrun() noexcept {
  if (overrun_.bytes == 0) return;
  contract::EventWriter& events = consumers_.events[overrun_.n % consumers_.events.size()];
  if (events.room() == 0 || events.less_than_half_free()) return;
  events.write(overrun_);
  overrun_.bytes = 0;
}

void PacketReceiver::expire(Nanoseconds) noexcept {
  report_overrun();
  counters_.lost[static_cast<std::size_t>(Lost::missing)].set(
      static_cast<std::uint64_t>(missing() > 0 ? missing() : 0));
}

Nanoseconds PacketReceiver::next_timer() const noexcept {
  return std::numeric_limits<Nanoseconds>::max();
}

std::int64_t PacketReceiver::missing() const noexcept {
  std::int64_t sum = missing_before_;
  for (const Burst* burst : {&old_, &current_})
    for (const Board& b : burst->board) sum += b.sequence.missing();
  return sum;
}

}  // namespace nanet::card
