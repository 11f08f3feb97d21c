// SPDX-License-Identifier: Apache-2.0
// Admission of packets in gather mode `frame`: burst, sequence number, buffer, placement. receiver_close.cpp
// ends frames and bursts.
#include "nanet/card/software/receiver.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace nanet::card {
namespace {

using wire::mgp::Checked;
using wire::mgp::Refusal;
namespace flag = wire::mgp::flag;

constexpr std::size_t round16(std::size_t bytes) {
  return (bytes + contract::payload_alignment - 1) / contract::payload_alignment *
         contract::payload_alignment;
}

}  // namespace

FrameReceiver::FrameReceiver(const ReceiverOptions& options, Consumers& consumers, FrameTable& table,
                             Counters& counters)
    : Receiver(options),
      consumers_(consumers),
      devices_(consumers.views),
      events_(consumers.events),
      pending_(devices_.size()),
      table_(table),
      counters_(counters),
      merger_(options.merge ? std::make_unique<FrameMerger>(devices_[0].shape, options.window_lsb,
                                                            options.rules.encoding)
                            : nullptr),
      indices_(devices_[0].shape.boards <= contract::index_boards ? table.slots() : 0),
      expected_(options.rules.boards ? options.rules.boards : 1),
      // A frame has at most two live timers (opened without a packet, then with one), and only numbers with a
      // slot are live.
      timers_(std::bit_ceil(table.slots() * 4)),
      timer_mask_(timers_.size() - 1) {
  bases_.reserve(most_bursts);
  lost_.reserve(options.replay ? 0 : most_lost);
}

void FrameReceiver::refuse(std::span<const std::byte> datagram, Refusal reason, Nanoseconds stamp) noexcept {
  ++counters_.bad[static_cast<std::size_t>(reason)];
  if (packet_observer_) packet_observer_->packet(datagram, true, stamp);
  if (refused_) refused_(datagram, reason, stamp);
}

void FrameReceiver::checked_packet(std::span<const std::byte> datagram, const Checked& checked,
                                   const WrittenSegment& written, Nanoseconds stamp) noexcept {
  written_ = written;
  receive(datagram, checked, stamp);
  if (written_.n != WrittenSegment::none) spoil(written_.n);  // not placed
}

void FrameReceiver::receive(std::span<const std::byte> datagram, const Checked& checked,
                            Nanoseconds stamp) noexcept {
  ++counters_.packets_in;
  counters_.bytes_in += datagram.size();
  if (checked.refusal != Refusal::none) return refuse(datagram, checked.refusal, stamp);
  if (of_a_third_burst(checked.header)) return refuse(datagram, Refusal::wrong_burst, stamp);
  Burst* burst = burst_of(checked.header, stamp);
  if (packet_observer_)
    packet_observer_->packet(datagram, false,
                             stamp);  // after the begin of its burst, to be in the same file
  if (!burst) return;
  burst->last_packet = std::max(burst->last_packet, stamp);
  if (checked.header.has(flag::sob | flag::eob))
    marker(*burst, checked.header, stamp);
  else
    data(*burst, checked, datagram, stamp);
  if (options_.replay) close_overtaken(stamp);
}

// Two bursts are open: a third burst waits until the oldest is closed. A replay closes it.
bool FrameReceiver::of_a_third_burst(const Header& header) const noexcept {
  return old_.active && !options_.replay && header.burst != current_.number && header.burst != old_.number &&
         static_cast<std::uint8_t>(header.burst - current_.number) <= 127;
}

// Returns the burst of a valid packet, or nullptr if the packet has already been counted.
FrameReceiver::Burst* FrameReceiver::burst_of(const Header& header, Nanoseconds stamp) noexcept {
  if (any_burst_) {
    if (header.burst == current_.number) {
      if (current_.active) return &current_;
      return closed_burst(current_, header, stamp);
    }
    if (old_known_ && header.burst == old_.number) {
      // All frames may be closed, but a further board's EOB still counts.
      const bool marker = header.has(flag::sob | flag::eob);
      return old_.active || (marker && !old_.over) ? &old_ : closed_burst(old_, header, stamp);
    }
    const auto ahead = static_cast<std::uint8_t>(header.burst - current_.number);
    if (ahead > 127) {
      lose(Lost::late);
      return nullptr;
    }
    if (!candidate_[header.burst]) {
      candidate_[header.burst] = true;
      candidate_time_[header.burst] = stamp;
      if (header.has(flag::sob)) {
        ++counters_.burst_markers;
        kept_sob_[header.burst] |= static_cast<std::uint8_t>(1u << board_index(header.board));
      } else {
        lose(Lost::unconfirmed_jump);
      }
      return nullptr;
    }
    if (old_.active) {  // a replay has no clock; the third burst closes the oldest
      close_all(old_, stamp);
      finish_if_done(old_, stamp);
    }
  }
  begin(header.burst, stamp, any_burst_ ? candidate_time_[header.burst] : stamp);
  return &current_;
}

// Packet of a finished burst: counted as late, but not as missing.
FrameReceiver::Burst* FrameReceiver::closed_burst(Burst& burst, const Header& header,
                                                  Nanoseconds stamp) noexcept {
  const unsigned b = board_index(header.board);
  Board& board = burst.board[b];
  if (!header.has(flag::sob)) renew(board, header);
  remember(board, header);
  // Numbers from `next` on are those of the next burst.
  if (!header.has(flag::sob | flag::eob) && options_.dealing.owns(header.frame) &&
      options_.dealing.index(header.frame) < burst.next)
    lose(Lost::late, burst.base + options_.dealing.index(header.frame), b, stamp);
  else
    lose(Lost::late);
  return nullptr;
}

void FrameReceiver::begin(std::uint8_t number, Nanoseconds stamp, Nanoseconds first) noexcept {
  if (any_burst_) {
    extended_ += static_cast<std::uint8_t>(number - current_.number);
    current_.over = current_.ending;
    if (current_.active && !current_.ending) {
      current_.how = BurstEnd::next_burst;
      fix_last(current_, stamp);
    }
    if (old_known_)
      for (const Board& b : old_.board) missing_before_ += b.sequence.missing();
    old_ = current_;
    old_.close_at = first + options_.timeout;
    old_known_ = true;
  } else {
    extended_ = number;
  }
  any_burst_ = true;
  current_ = Burst{};
  current_.active = true;
  current_.number = number;
  current_.extended = extended_;
  current_.base = table_.end;
  current_.last_packet = stamp;
  table_.begin_burst(current_.base);
  if (ahead_) spoiled_below_ = ahead_->begin_burst(number, current_.base);
  note_burst({current_.base, extended_});
  ++counters_.bursts;
  if (const std::uint8_t kept = kept_sob_[number]) {
    current_.started = true;
    for (unsigned b = 0; b < max_boards; ++b)
      if (kept >> b & 1) {
        current_.board[b].sob = true;
        current_.board[b].sequence.accept(0);
        current_.board[b].has_frame = true;
      }
  }
  candidate_.fill(false);
  kept_sob_.fill(0);
  if (burst_observer_) burst_observer_->burst_began(extended_, current_.base);
  contract::Event e = new_event(contract::EventType::burst_begins, stamp);
  e.buffer = static_cast<std::uint32_t>(current_.base);
  e.bytes = static_cast<std::uint32_t>(current_.base >> 32);
  e.frame = extended_;
  e.n = static_cast<std::uint32_t>(current_.base);
  broadcast(e);
  close_old_if_done(stamp);
}

// The older of two open bursts is over when every board has sent EOB, or SOB for the newer burst.
void FrameReceiver::close_old_if_done(Nanoseconds now) noexcept {
  if (!old_known_ || !all_done(old_)) return;
  old_.over = true;
  if (!old_.active) return;
  close_all(old_, now);
  finish_if_done(old_, now);
}

// A burst joined without SOB needs answers from its first received frame.
void FrameReceiver::join_without_sob(Burst& burst, Frame frame) noexcept {
  burst.started = true;
  burst.next = frame;
  for (Frame f = 0; f < frame; ++f) table_.set(burst.base + f, FrameTable::Status::skipped);
  table_.end = burst.base + frame;
}

void FrameReceiver::marker(Burst& burst, const Header& header, Nanoseconds stamp) noexcept {
  Board& board = burst.board[board_index(header.board)];
  if (header.has(flag::sob)) {
    ++counters_.burst_markers;
    if (!burst.started) burst.started = true;
    board.sob = true;
    if (board.sequence.look(0) ==
        SequenceTracker::Look::fresh)  // first packet of this board, even if data overtook it
      board.sequence.accept(0);
    else
      board.sob_pending = true;
    board.has_frame = true;
    if (&burst == &current_) close_old_if_done(stamp);
    return;
  }
  renew(board, header);
  const Frame frames = options_.dealing.frames(header.frame);
  Header last = header;
  last.frame = frames ? frames - 1 : 0;
  if (!admit(burst, board, last)) return;
  ++counters_.burst_markers;
  board.eob = true;
  board.eob_frames = frames;
  if (&burst == &old_) return close_old_if_done(stamp);
  if (burst.ending || !all_done(burst)) return;
  fix_last(burst, stamp);
  if (options_.replay) close_all(burst, stamp);
  finish_if_done(burst, stamp);
}

// True if every configured board has sent EOB for this burst or, for the older of two, SOB for the newer.
bool FrameReceiver::all_done(const Burst& burst) const noexcept {
  const bool older = &burst == &old_;
  for (unsigned b = 0; b < max_boards; ++b)
    if ((expected_ >> b & 1) && !burst.board[b].eob && !(older && current_.board[b].sob)) return false;
  return true;
}

// A further SOB followed by sequence number 1 confirms a restart of the board, even if packet 1 itself is
// lost.
void FrameReceiver::renew(Board& board, const Header& header) noexcept {
  if (!board.sob_pending || header.sequence != 1) return;
  board.sob_pending = false;
  board.sequence.restart();
  board.sequence.accept(0);
}

// Counts the packet as received even if it is not used.
void FrameReceiver::remember(Board& board, const Header& header) noexcept {
  const Sequence s = header.has(flag::sob) ? 0 : header.sequence;
  if (board.sequence.look(s) == SequenceTracker::Look::fresh) board.sequence.accept(s);
}

// Checks sequence number and frame jump of one board. Returns false if the packet is counted as lost;
// otherwise marks the number as seen.
bool FrameReceiver::admit(Burst& burst, Board& board, const Header& header) noexcept {
  if (!table_.has_room(burst.base +
                       header.frame)) {  // bursts and jumps arrive faster than the sender passes frames
    lose(Lost::unconfirmed_jump);
    return false;
  }
  const auto look = board.sequence.look(header.sequence);
  if (look == SequenceTracker::Look::replayed) {
    lose(Lost::replayed_sequence);
    return false;
  }
  // A board without packets so far is compared with the newest frame of all boards (0 after an SOB).
  const bool has_reference = board.has_frame || burst.started;
  const Frame reference = board.has_frame ? board.newest : (burst.next ? burst.next - 1 : 0);
  const bool far = has_reference && static_cast<std::int64_t>(header.frame) - reference > frame_window;
  if (far || look == SequenceTracker::Look::jump) {
    const auto frames = std::abs(static_cast<std::int64_t>(header.frame) - board.jump_frame);
    const auto numbers = std::abs(std::int64_t{header.sequence} - std::int64_t{board.jump_sequence});
    // A repeated packet confirms nothing.
    if (!board.jumping || frames > frame_window || numbers > sequence_window || numbers == 0) {
      board.jumping = true;
      board.jump_frame = header.frame;
      board.jump_sequence = header.sequence;
      lose(Lost::unconfirmed_jump);
      return false;
    }
    board.sequence.jump(board.jump_sequence, header.sequence);
  } else {
    board.sequence.accept(header.sequence);
  }
  board.jumping = board.sob_pending = false;
  if (!header.has(flag::eob)) {
    board.newest = board.has_frame ? std::max(board.newest, header.frame) : header.frame;
    board.has_frame = true;
  }
  return true;
}

// Packet of a frame that is dealt to another node: its sequence number is not missing.
void FrameReceiver::other_node(Board& board, const Header& header) noexcept {
  if (board.sequence.look(header.sequence) == SequenceTracker::Look::replayed)
    return lose(Lost::replayed_sequence);
  remember(board, header);
  lose(Lost::other_node);
}

void FrameReceiver::data(Burst& burst, const Checked& checked, std::span<const std::byte> datagram,
                         Nanoseconds stamp) noexcept {
  Header header = checked.header;
  const unsigned b = board_index(header.board);
  Board& board = burst.board[b];
  renew(board, header);
  if (!options_.dealing.owns(header.frame)) return other_node(board, header);
  header.frame = options_.dealing.index(header.frame);
  const std::uint64_t n = burst.base + header.frame;
  bool known = header.frame < burst.next || burst.ending;
  if (known) {
    const auto status =
        header.frame >= burst.next || table_.forgotten(n) ? FrameTable::Status::closed : table_.status(n);
    if (status == FrameTable::Status::closed || status == FrameTable::Status::skipped) {
      remember(board, header);
      return header.frame < burst.next ? lose(Lost::late, n, b, stamp) : lose(Lost::late);
    }
    if (status == FrameTable::Status::open) {
      const auto& s = table_.slot(n).board[b];
      const bool there = s.indices >> header.index & 1;
      const bool contradicts =
          s.last >= 0 && (header.index > s.last || (header.has(flag::last) && header.index != s.last));
      if (there || contradicts) {
        remember(board, header);
        return lose(Lost::duplicate);
      }
    }
  }
  if (!admit(burst, board, header)) return;
  if (!known) {
    if (!burst.started) {
      join_without_sob(burst, header.frame);
      if (options_.replay) close_overtaken(stamp);
    }
    open_up_to(burst, header.frame, stamp);
  }
  if (table_.status(n) == FrameTable::Status::overrun) return lose(Lost::overrun, n, b, stamp);
  place(burst, n, b, checked, datagram, stamp);
  // The board's next packet probably belongs to the next frame, whose buffer is not cached. The prefetch
  // follows the event, so as not to delay it.
  const contract::View& view = consumers_.view_of(n + 1);
  const std::uint32_t next = view.buffer_of(n + 1);
  const std::byte* const segment = view.segment(next, b);
  __builtin_prefetch(view.buffer(next), 1);  // frame header
  for (std::size_t i = 0; i < header.length; i += 64) __builtin_prefetch(segment + i, 1);
}

void FrameReceiver::open_up_to(Burst& burst, Frame frame, Nanoseconds stamp) noexcept {
  if (frame < burst.next) return;
  const Frame newest = burst.next ? burst.next - 1 : 0;
  if (frame - newest >
      static_cast<Frame>(frame_window)) {  // confirmed jump: the frames of the gap need no answer
    const Frame gap = frame - burst.next;
    for (Frame f = burst.next; f < frame; ++f) table_.set(burst.base + f, FrameTable::Status::skipped);
    counters_.frames_skipped += gap;
    burst.next = frame;
    table_.end = burst.base + frame;
    if (options_.replay) close_overtaken(stamp);  // the gap may lead to a buffer still in use
  }
  while (burst.next <= frame) open(burst, burst.next, stamp);
}

// Decides once whether a frame gets a buffer.
void FrameReceiver::open(Burst& burst, Frame frame, Nanoseconds stamp) noexcept {
  const std::uint64_t n = burst.base + frame;
  const std::size_t device = consumers_.device_of(n);
  const contract::View& view = devices_[device];
  FrameTable::Slot& slot = table_.slot(n);
  const auto returned = [&] {
    return !slot.used ||
           (contract::acquire(view.returned[view.buffer_of(n)]) == static_cast<std::uint32_t>(slot.n + 1) &&
            table_.settled() > slot.n && table_.status(slot.n) != FrameTable::Status::open);
  };
  const auto queue_is_full = [&] { return events_[device].room() < 4; };
  while (full_ && ((!returned() && table_.status(slot.n) != FrameTable::Status::open) || queue_is_full()))
    full_();
  ++counters_.frames_in;
  burst.next = frame + 1;
  table_.end = n + 1;
  if (!returned() || queue_is_full()) return overrun(n, frame, stamp);
  // A reading thread may be writing a missing packet of the buffer's last number.
  const bool whole = slot.used && slot.n + table_.slots() == n && slot.complete == expected_;
  if (ahead_ && !whole && n >= table_.slots() && !ahead_->reserve(n)) return overrun(n, frame, stamp);
  events_[device].promise(2);  // receive done, send done
  if (slot.passed_late) {      // the buffer is back, so the consumer's late answer is final
    if (contract::Descriptor answer; contract::posted(view, slot.n, answer))
      ++counters_.answers_after_deadline;
    if (observer_) observer_->reaped(slot.n);
  }
  slot = FrameTable::Slot{};
  slot.n = n;
  slot.used = true;
  slot.frame = options_.dealing.frame(frame);
  slot.first = stamp;
  table_.set(n, FrameTable::Status::open);
  push_timer(n, stamp);
  ++burst.open;
}

// The index does not hold which fragments are truncated.
void FrameReceiver::note_recent(std::uint64_t n, unsigned b, bool first, const Checked& checked) noexcept {
  if (b >= contract::RecentIndices::boards) return;
  if (checked.index && !checked.truncated)
    recent_->add(n, b, first, {checked.index, checked.fragments}, checked.header.length);
  else
    recent_->remove(n, b);
}

void FrameReceiver::place(Burst& burst, std::uint64_t n, unsigned b, const Checked& checked,
                          std::span<const std::byte> datagram, Nanoseconds stamp) noexcept {
  const Header& header = checked.header;
  FrameTable::Slot& slot = table_.slot(n);
  if (!slot.seen) {
    slot.seen = true;
    if (slot.first != stamp &&
        !options_.replay) {  // opened before without a packet: its timeout starts with its own first packet
      slot.first = stamp;
      push_timer(n, stamp);
    }
  }
  const contract::View& view = consumers_.view_of(n);
  auto& board = slot.board[b];
  const std::size_t end = board.bytes + round16(header.length);
  if (end > view.shape.segment_bytes || end > std::numeric_limits<std::uint16_t>::max())
    return lose(Lost::segment_overflow);
  std::byte* const segment = view.segment(view.buffer_of(n), b);
  const std::uint32_t at = board.bytes;
  if (written_.foreign) {
    spoil(n);
    if (ahead_) ahead_->wait_for_owner(b);
  }
  const bool copied = written_.n == n && at == 0;
  if (!copied) std::memcpy(segment + at, datagram.data(), header.length);
  board.bytes = static_cast<std::uint16_t>(end);
  contract::MailboxWriter& mailbox = events_[consumers_.device_of(n)].mailbox();
  const bool by_mailbox = mailbox && !merger_;  // a merged frame follows when it is closed
  const bool written = copied && written_.in_mailbox;
  if (written) {
    board.units = written_.units;
    board.fragments = written_.fragments;
  } else if (by_mailbox) {
    const std::uint32_t buffer = view.buffer_of(n);
    board.units =
        static_cast<std::uint16_t>(mailbox.segment(n, buffer, b, segment, board.units, board.bytes, false));
    if (contract::MailboxWriter::Index* const index = index_of(n, b)) {
      if (board.packets == 0) *index = {};
      mailbox.add(n, buffer, b, *index, at, header, checked.index);
    }
  }
  if (copied) written_ = {};
  if (recent_) note_recent(n, b, board.packets == 0, checked);
  ++board.packets;
  board.flags |= header.flags;
  board.indices |= static_cast<std::uint16_t>(1u << header.index);
  if (header.has(flag::last)) board.last = static_cast<std::int8_t>(header.index);
  ++counters_.packets_used;
  counters_.events_in += checked.fragments;
  counters_.hits_in += checked.hits;
  if (board.last < 0) return;
  const auto lower = static_cast<std::uint16_t>((2u << board.last) - 1);
  if ((board.indices & lower) != lower) return;
  slot.complete |= static_cast<std::uint8_t>(1u << b);
  if (by_mailbox && !written) finish_segment(n, b);
  if (slot.complete != expected_) return;
  close(n, stamp, false);
  finish_if_done(burst, stamp);
}

}  // namespace nanet::card
