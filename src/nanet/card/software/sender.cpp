// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/sender.hpp"

#include <algorithm>
#include <limits>

#include "nanet/card/frame_periods.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {

using contract::Event;
using Status = FrameTable::Status;

std::size_t Sender::header_only(std::size_t at, Frame frame) noexcept {
  return wire::mtp::encode(header_[at].data(), frame, nullptr, 0, wire::mtp::sub_id_late, options_.source);
}

// True if the deadline of a number with a buffer has passed.
bool Sender::due(std::uint64_t n, bool closed, Nanoseconds now) const noexcept {
  if (!deadline_.any() || (deadline_.from_closed && !closed)) return false;
  const FrameTable::Slot& slot = table_.slot(n);
  return deadline_.of(n, slot.first, slot.closed) <= now;
}

// True if the descriptor lies within the send buffers and has a valid destination; otherwise the consumer is
// faulty.
bool Sender::sound(const contract::View& view, const contract::Descriptor& d) const noexcept {
  const std::uint64_t room = std::uint64_t{contract::send_buffer_bytes} * view.shape.buffers;
  const std::uint64_t offset = d.address - reinterpret_cast<std::uintptr_t>(view.send_buffers);
  return d.bytes <= contract::send_buffer_bytes && offset <= room && offset + d.bytes <= room &&
         d.destination < transmit_.destinations();
}

// True if the consumer has returned the buffer of n without a descriptor: no answer follows.
bool Sender::abandoned(const contract::View& view, std::uint64_t n) noexcept {
  if (contract::acquire(view.returned[view.buffer_of(n)]) != static_cast<std::uint32_t>(n + 1)) return false;
  contract::Descriptor posted;
  return !contract::posted(view, n, posted);  // a descriptor precedes the return
}

void Sender::linger(bool quiet) const noexcept {
  constexpr unsigned looks = 8, looks_quiet = 40;
  constexpr Nanoseconds soon = 20'000;
  const std::uint64_t n = table_.next;
  if (n >= table_.end || table_.status(n) != Status::closed) return;
  const contract::MailboxWriter& mailbox = consumers_.events[consumers_.device_of(n)].mailbox();
  if (!mailbox) return;
  const std::uint32_t buffer = consumers_.view_of(n).buffer_of(n);
  const bool alone = quiet && n + 1 == table_.end && os::monotonic_now() - table_.slot(n).closed < soon;
  const unsigned most = alone ? looks_quiet : looks;
  for (unsigned i = 0; i < most && !mailbox.answered(n, buffer); ++i) os::spin();
}

// Fills the batch with the numbers that can leave now, in order. At its deadline a number is answered
// header-only, even if an answer has just been posted: packets that leave after the deadline are late.
std::size_t Sender::gather(Nanoseconds now) noexcept {
  std::size_t ready = 0;
  // A number that blocks is answered as late before its status entry would be overwritten. A replay waits
  // instead: it has no late frames, and the receiver accepts no jump that would overwrite an entry.
  const bool waits = !deadline_.any();
  const std::uint64_t oldest = !waits && table_.end > table_.reach() ? table_.end - table_.reach() : 0;
  const std::size_t most = std::min(batch_limit, unsettled_limit - (unsettled_tail_ - unsettled_head_));
  for (std::uint64_t n = table_.next; n < table_.end && ready < most; ++n) {
    const Status status = table_.status(n);
    if (status == Status::skipped) {
      if (ready == 0) table_.next = n + 1;
      continue;
    }
    const auto header = [&](Frame frame) {
      batch_[ready] = {header_[ready].data(), static_cast<std::uint32_t>(header_only(ready, frame)), 0};
    };
    Passing& p = passing_[ready];
    if (status == Status::overrun) {
      p = {n, Outcome::overrun, false, 0, false};
      header(table_.frame_of_overrun(n));
      ++ready;
      continue;
    }
    p = {n, Outcome::late, true, 0, false};
    const FrameTable::Slot& slot = table_.slot(n);
    const contract::View& view = consumers_.view_of(n);
    const bool closed = status == Status::closed;
    contract::Descriptor posted;
    const bool late = due(n, closed, now) || n < oldest;
    const contract::MailboxWriter& mailbox = consumers_.events[consumers_.device_of(n)].mailbox();
    if (mailbox && !late && closed && transmit_.destinations() > 0) {
      std::byte* const answer = answer_.data() + answer_bytes * ready;
      const std::uint32_t buffer = view.buffer_of(n);
      if (const std::uint32_t bytes = mailbox.answer(n, buffer, answer)) {
        p = {n, Outcome::answered, true, buffer, true};
        batch_[ready++] = {answer, bytes, 0};
        continue;
      }
    }
    const bool answered = !late && closed && contract::posted(view, n, posted);
    if (answered) p.token = posted.token;
    if (answered && sound(view, posted)) {
      p.outcome = Outcome::answered;
      batch_[ready] = {reinterpret_cast<const std::byte*>(posted.address), posted.bytes, posted.destination};
    } else {
      if (answered)
        ++counters_.bad_descriptors;
      else if (!late && !(closed && abandoned(view, n)))
        break;
      header(slot.frame);
    }
    ++ready;
  }
  return ready;
}

void Sender::tell_late(std::uint64_t n) noexcept {
  const FrameTable::Slot& slot = table_.slot(n);
  const bool closed = table_.status(n) == Status::closed;
  answers_->passed_late(n, slot.frame, periods_of(consumers_.view_of(n), slot, closed));
}

void Sender::finish(std::size_t sent, Nanoseconds now) noexcept {
  if (answers_) {
    for (std::size_t i = 0; i < sent; ++i) {
      if (wants_late_ && passing_[i].outcome == Outcome::late && passing_[i].has_buffer)
        tell_late(passing_[i].n);
      answers_->sent(passing_[i].n, {batch_[i].data, batch_[i].bytes});
    }
    answers_->flush();
  }
  for (std::size_t i = 0; i < sent; ++i) {
    const Passing& p = passing_[i];
    table_.next = p.n + 1;
    ++counters_.frames_out;
    if (p.outcome == Outcome::answered)
      ++counters_.frames_answered;
    else
      ++counters_.frames_late;
    Nanoseconds first = 0, closed = 0;
    if (p.has_buffer) {
      FrameTable::Slot& slot = table_.slot(p.n);
      first = slot.first;
      closed = slot.closed;
      slot.passed_late = p.outcome != Outcome::answered;
      contract::EventWriter& events = consumers_.events[consumers_.device_of(p.n)];
      Event e;
      e.type = static_cast<std::uint8_t>(contract::EventType::send_done);
      e.stream = options_.stream;
      e.flags = p.outcome == Outcome::answered ? std::uint16_t{0} : contract::event_flag::late;
      e.buffer = p.token;
      e.bytes = batch_[i].bytes;
      e.frame = slot.frame;
      e.time_ns = static_cast<std::uint64_t>(now);
      e.n = static_cast<std::uint32_t>(p.n);
      events.write_promised(e);
    }
    if (!p.by_mailbox && unsettled_head_ == unsettled_tail_) {
      if (observer_) observer_->passed(p.n, p.outcome, first, closed, now);
      continue;
    }
    if (unsettled_head_ == unsettled_tail_) table_.unsettled = p.n;
    unsettled_[unsettled_tail_++ % unsettled_limit] = {p.n, first, closed, now, p.outcome, p.by_mailbox};
  }
}

// Calls the observer, in order, for numbers whose descriptors have been posted.
void Sender::settle(Nanoseconds now) noexcept {
  while (unsettled_head_ != unsettled_tail_) {
    const Unsettled& u = unsettled_[unsettled_head_ % unsettled_limit];
    contract::Descriptor posted;
    if (u.waits && !contract::posted(consumers_.view_of(u.n), u.n, posted) && u.sent + settle_within > now)
      break;
    if (observer_) observer_->passed(u.n, u.outcome, u.first, u.closed, u.sent);
    ++unsettled_head_;
  }
  table_.unsettled =
      unsettled_head_ == unsettled_tail_ ? FrameTable::none : unsettled_[unsettled_head_ % unsettled_limit].n;
}

void Sender::reap_all() noexcept {
  for (FrameTable::Slot& slot : table_.all()) {
    if (!slot.used || !slot.passed_late) continue;
    const contract::View& view = consumers_.view_of(slot.n);
    if (contract::acquire(view.returned[view.buffer_of(slot.n)]) != static_cast<std::uint32_t>(slot.n + 1))
      continue;
    slot.passed_late = false;
    if (contract::Descriptor answer; contract::posted(view, slot.n, answer))
      ++counters_.answers_after_deadline;
    if (observer_) observer_->reaped(slot.n);
  }
}

Nanoseconds Sender::next_deadline() const noexcept {
  if (!deadline_.any()) return std::numeric_limits<Nanoseconds>::max();
  for (std::uint64_t n = table_.next; n < table_.end; ++n) {
    if (table_.status(n) == Status::skipped) continue;
    if (table_.status(n) == Status::overrun) return 0;
    const FrameTable::Slot& slot = table_.slot(n);
    if (deadline_.from_closed && table_.status(n) != Status::closed) break;
    return deadline_.of(n, slot.first, slot.closed);
  }
  return std::numeric_limits<Nanoseconds>::max();
}

}  // namespace nanet::card
