// SPDX-License-Identifier: Apache-2.0
// End of frames and bursts, complete or by timeout, and the events that report it.
#include "nanet/card/software/receiver.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "nanet/contract/fragment_index.hpp"

namespace nanet::card {

using contract::Event;
using contract::EventType;
namespace flag = wire::mgp::flag;
namespace event_flag = contract::event_flag;

Event FrameReceiver::new_event(EventType type, Nanoseconds now) const noexcept {
  Event e;
  e.type = static_cast<std::uint8_t>(type);
  e.stream = options_.stream;
  e.time_ns = static_cast<std::uint64_t>(now);
  return e;
}

void FrameReceiver::close(std::uint64_t n, Nanoseconds now, bool timed_out) noexcept {
  if (options_.clock) now = options_.clock();
  FrameTable::Slot& slot = table_.slot(n);
  const std::size_t device = consumers_.device_of(n);
  const contract::View& view = devices_[device];
  const std::uint32_t index = view.buffer_of(n);
  Event e = new_event(EventType::receive_done, now);
  contract::FrameHeader header;
  std::uint8_t seen = 0;
  for (unsigned b = 0; b < view.shape.boards; ++b) {
    header.board[b] = {slot.board[b].bytes, slot.board[b].packets, slot.board[b].flags};
    e.bytes += slot.board[b].bytes;
    seen |= slot.board[b].flags;
  }
  const auto missing = static_cast<std::uint8_t>(expected_ & ~slot.complete);
  e.flags = static_cast<std::uint16_t>(
      (missing ? 0 : event_flag::complete) | (timed_out ? event_flag::timed_out : 0) |
      (seen & flag::truncated ? event_flag::truncated : 0) | (missing << event_flag::missing_shift));
  if (missing) ++counters_.frames_incomplete;
  header.frame = slot.frame;
  header.complete = slot.complete;
  header.expected = expected_;
  header.flags = e.flags;
  if (merger_) {
    if (const std::uint32_t bytes = (*merger_)(view.buffer(index), header))
      e.bytes = bytes;
    else
      ++counters_.frames_unmerged;
  }
  std::memcpy(view.buffer(index), &header, sizeof header);
  e.buffer = index;
  e.frame = slot.frame;
  e.n = static_cast<std::uint32_t>(n);
  slot.closed = now;
  table_.set(n, FrameTable::Status::closed);
  Burst& burst = old_.active && n < current_.base ? old_ : current_;
  --burst.open;
  if (pending_[device].count) flush_overrun(device, false);
  events_[device].write_promised(e, line_of(n, device));
}

namespace {

// Writes a merged frame to the mailbox; returns the mailbox's part of the event line.
contract::EventLine merged_line(std::uint64_t n, contract::MailboxWriter& mailbox, const std::byte* buffer,
                                std::uint32_t index) noexcept {
  contract::EventLine line;
  contract::FrameHeader header;
  std::memcpy(&header, buffer, sizeof header);
  if (header.layout != contract::Layout::merged || !mailbox.merged(n, index, buffer)) return line;
  line.bytes[0] = header.events;
  line.bytes[1] = header.hits;
  line.flags = contract::EventLine::merged;
  return line;
}

}  // namespace

// Writes the rest of the frame to the mailbox; returns the mailbox's part of the event line.
contract::EventLine FrameReceiver::line_of(std::uint64_t n, std::size_t device) noexcept {
  contract::EventLine line;
  contract::MailboxWriter& mailbox = events_[device].mailbox();
  if (!mailbox || contract::mailbox_mark(n) == 0) return line;
  const contract::View& view = devices_[device];
  if (merger_) return merged_line(n, mailbox, view.buffer(view.buffer_of(n)), view.buffer_of(n));
  const FrameTable::Slot& slot = table_.slot(n);
  const bool indices = view.shape.boards <= contract::index_boards;
  // A late packet of a missing board may be written ahead.
  bool whole = !ahead_ || !ahead_->enabled() || (slot.complete == expected_ && !spoiled(n)),
       indexed = indices;
  for (unsigned b = 0; b < view.shape.boards; ++b) {
    const std::uint16_t bytes = slot.board[b].bytes;
    line.bytes[b] = bytes;
    whole &= mailbox.holds(bytes);
    if (slot.board[b].fragments == FrameTable::Slot::not_yet_indexed) finish_segment(n, b);
    if (!indices) continue;
    indexed &= slot.board[b].fragments != FrameTable::Slot::without_index;
    line.bytes[contract::index_boards + b] = slot.board[b].fragments;
  }
  if (whole) line.flags = contract::EventLine::segments | (indexed ? contract::EventLine::indexed : 0);
  if (!whole || !indexed)
    for (unsigned b = 0; indices && b < view.shape.boards; ++b) line.bytes[contract::index_boards + b] = 0;
  return line;
}

// Writes the rest of a board's segment, to which no packet will be added, and its index to the mailbox.
void FrameReceiver::finish_segment(std::uint64_t n, unsigned b) noexcept {
  const std::size_t device = consumers_.device_of(n);
  const contract::View& view = devices_[device];
  const std::uint32_t buffer = view.buffer_of(n);
  const std::byte* const segment = view.segment(buffer, b);
  auto& board = table_.slot(n).board[b];
  contract::MailboxWriter& mailbox = events_[device].mailbox();
  board.units =
      static_cast<std::uint16_t>(mailbox.segment(n, buffer, b, segment, board.units, board.bytes, true));
  contract::MailboxWriter::Index* const index = index_of(n, b);
  if (index && board.packets == 0) *index = {};
  const std::uint32_t fragments =
      index ? mailbox.finish(n, buffer, b, *index, segment, board.bytes) : contract::no_index;
  static_assert(contract::index_entries < FrameTable::Slot::not_yet_indexed);
  board.fragments = fragments == contract::no_index ? FrameTable::Slot::without_index
                                                    : static_cast<std::uint8_t>(fragments);
}

void FrameReceiver::close_all(const Burst& burst, Nanoseconds now) noexcept {
  const std::uint64_t low = burst.base, high = burst.base + burst.next;
  for (std::size_t i = timer_head_; i != timer_tail_; ++i) {
    const std::uint64_t n = timers_[i & timer_mask_].n;
    if (n >= low && n < high && table_.slot(n).n == n && table_.status(n) == FrameTable::Status::open)
      close(n, now, true);
  }
}

// Fixes the last frame of the burst and opens all frames up to it.
void FrameReceiver::fix_last(Burst& burst, Nanoseconds stamp) noexcept {
  std::array<Frame, max_boards> said{};  // numbers of frames
  std::size_t count = 0;
  for (unsigned b = 0; b < max_boards; ++b)
    if (burst.board[b].eob) said[count++] = burst.board[b].eob_frames;
  if (count) {
    // Takes the largest value on which two boards agree, or the value of the only board. Without agreement,
    // takes the second largest, which two boards have reached.
    Frame largest = 0, second = 0, agreed = 0;
    bool any_agree = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (said[i] >= largest) {
        second = largest;
        largest = said[i];
      } else {
        second = std::max(second, said[i]);
      }
      for (std::size_t j = 0; j < i; ++j)
        if (said[i] == said[j] && (!any_agree || said[i] > agreed)) {
          any_agree = true;
          agreed = said[i];
        }
    }
    const Frame frames = count == 1 ? largest : any_agree ? agreed : second;
    if (!burst.started) join_without_sob(burst, frames);
    if (frames > burst.next) open_up_to(burst, frames - 1, stamp);
  }
  burst.ending = true;
  finish_if_done(burst, stamp);
}

void FrameReceiver::finish_if_done(Burst& burst, Nanoseconds now) noexcept {
  if (!burst.active || !burst.ending || burst.open) return;
  burst.active = false;
  Event e = new_event(EventType::burst_ends, now);
  const Frame last = burst.next ? burst.next - 1 : 0;
  e.frame = options_.dealing.frame(last);
  e.n = static_cast<std::uint32_t>(burst.base + last);
  broadcast(e);
  if (!burst_observer_) return;
  BurstEnded ended{burst.extended, burst.base, burst.base + burst.next, 0, 0, burst.how};
  for (unsigned b = 0; b < max_boards; ++b) {
    ended.sob |= static_cast<std::uint8_t>(burst.board[b].sob << b);
    ended.eob |= static_cast<std::uint8_t>(burst.board[b].eob << b);
  }
  burst_observer_->burst_ended(ended);
}

void FrameReceiver::broadcast(const Event& event) noexcept {
  for (std::size_t d = 0; d < events_.size(); ++d) {
    flush_overrun(d, true);
    if (events_[d].room() == 0)
      ++counters_.events_dropped;  // the consumer has not read for a whole queue length; the gap in n shows
                                   // the loss
    else
      events_[d].write(event);
  }
}

void FrameReceiver::overrun(std::uint64_t n, Frame frame, Nanoseconds stamp) noexcept {
  table_.set(n, FrameTable::Status::overrun);
  ++counters_.frames_overrun;
  const std::size_t device = consumers_.device_of(n);
  PendingOverrun& p = pending_[device];
  if (p.count && n == p.n + std::uint64_t{p.count} * devices_.size()) {
    ++p.count;
  } else {
    flush_overrun(device, true);
    if (p.count) ++counters_.events_dropped;
    p = {n, options_.dealing.frame(frame), 1, stamp};
  }
  flush_overrun(device, false);
}

// Consecutive overruns stay one entry while fewer than half of the entries are free.
void FrameReceiver::flush_overrun(std::size_t device, bool force) noexcept {
  PendingOverrun& p = pending_[device];
  if (p.count == 0) return;
  contract::EventWriter& events = events_[device];
  if (events.room() == 0 || (!force && events.less_than_half_free())) return;
  Event e = new_event(EventType::error, p.time);
  e.flags = event_flag::overrun;
  e.frame = p.frame;
  e.bytes = p.count;
  e.n = static_cast<std::uint32_t>(p.n);
  events.write(e);
  p.count = 0;
}

bool FrameReceiver::live(const Timer& timer) const noexcept {
  const FrameTable::Slot& slot = table_.slot(timer.n);
  return slot.n == timer.n && slot.first == timer.first && table_.status(timer.n) == FrameTable::Status::open;
}

void FrameReceiver::push_timer(std::uint64_t n, Nanoseconds first) noexcept {
  if (timer_tail_ - timer_head_ ==
      timers_.size()) {  // an old frame stays open while others proceed: remove dead timers
    std::size_t to = timer_head_;
    for (std::size_t i = timer_head_; i != timer_tail_; ++i)
      if (live(timers_[i & timer_mask_])) timers_[to++ & timer_mask_] = timers_[i & timer_mask_];
    timer_tail_ = to;
  }
  timers_[timer_tail_++ & timer_mask_] = {n, first};
}

void FrameReceiver::expire(Nanoseconds safe) noexcept {
  if (ahead_) ahead_->pass(table_.settled());
  while (!options_.replay && timer_head_ != timer_tail_) {
    const Timer timer = timers_[timer_head_ & timer_mask_];
    if (live(timer)) {
      if (timer.first + options_.timeout > safe) break;
      close(timer.n, safe, true);
      finish_if_done(old_, safe);
      finish_if_done(current_, safe);
    }
    ++timer_head_;
  }
  for (std::size_t d = 0; d < pending_.size(); ++d) flush_overrun(d, false);
  publish_missing();
  if (options_.replay) return;
  if (old_known_ && !old_.over && old_.close_at <= safe) {
    old_.over = true;
    close_all(old_, safe);
    finish_if_done(old_, safe);
  }
  if (current_.active && !current_.ending && current_.last_packet + options_.burst_silence <= safe) {
    current_.how = BurstEnd::silence;
    fix_last(current_, safe);
  }
}

// Replay: closes frames 1024 behind the newest, after the packet that reaches this distance.
void FrameReceiver::close_overtaken(Nanoseconds now) noexcept {
  while (timer_head_ != timer_tail_) {
    const Timer timer = timers_[timer_head_ & timer_mask_];
    if (live(timer)) {
      if (table_.end - timer.n <= static_cast<std::uint64_t>(frame_window)) break;
      close(timer.n, now, true);
      finish_if_done(old_, now);
      finish_if_done(current_, now);
    }
    ++timer_head_;
  }
}

void FrameReceiver::drain(Nanoseconds now) noexcept {
  for (Burst* burst : {&old_, &current_}) {
    if (!burst->active) continue;
    if (!burst->ending) burst->how = BurstEnd::drain;
    burst->ending = true;  // without an EOB the newest received frame is the last one
    close_all(*burst, now);
    finish_if_done(*burst, now);
  }
  timer_head_ = timer_tail_;
  publish_missing();
  for (std::size_t d = 0; d < pending_.size(); ++d) flush_overrun(d, true);
}

Nanoseconds FrameReceiver::next_timer() const noexcept {
  Nanoseconds next = std::numeric_limits<Nanoseconds>::max();
  if (timer_head_ != timer_tail_) next = timers_[timer_head_ & timer_mask_].first + options_.timeout;
  if (old_.active) next = std::min(next, old_.close_at);
  if (current_.active && !current_.ending)
    next = std::min(next, current_.last_packet + options_.burst_silence);
  return next;
}

void FrameReceiver::publish_missing() noexcept {
  counters_.lost[static_cast<std::size_t>(Lost::missing)].set(
      static_cast<std::uint64_t>(std::max<std::int64_t>(missing(), 0)));
}

std::int64_t FrameReceiver::missing() const noexcept {
  std::int64_t sum = missing_before_;
  for (const Burst* burst : {&old_, &current_})
    for (const Board& b : burst->board) sum += b.sequence.missing();
  return sum;
}

}  // namespace nanet::card
