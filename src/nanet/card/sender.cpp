// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/sender.hpp"

#include <limits>

namespace nanet::card {

using contract::Event;
using Status = FrameTable::Status;

std::size_t Sender::header_only(std::size_t at, Frame frame) noexcept {
  return wire::mtp::encode(header_[at].data(), frame, nullptr, 0, wire::mtp::sub_id_late, options_.source);
}

// Fills the batch with the numbers that can leave now, in order.
std::size_t Sender::gather(Nanoseconds now) noexcept {
  std::size_t ready = 0;
  std::uint64_t n = table_.next;
  // Never so far behind that a status would be overwritten: what blocks is answered as late.
  const std::uint64_t oldest = table_.end > table_.reach() ? table_.end - table_.reach() : 0;
  for (; n < table_.end && ready < batch_limit; ++n) {
    const Status status = table_.status(n);
    if (status == Status::skipped) {
      if (ready == 0) table_.next = n + 1;
      continue;
    }
    Passing& p = passing_[ready];
    Datagram& d = batch_[ready];
    p = {n, Outcome::answered, status != Status::overrun, 0};
    if (status == Status::overrun) {
      p.outcome = Outcome::overrun;
      d = {header_[ready].data(), static_cast<std::uint32_t>(header_only(ready, table_.frame_of_overrun(n))), 0};
    } else {
      const FrameTable::Slot& slot = table_.slot(n);
      const contract::View& view = consumers_.views[n % consumers_.views.size()];
      contract::Descriptor posted;
      if (status == Status::closed && contract::posted(view, n, posted)) {
        p.token = posted.token;
        const auto low = reinterpret_cast<std::uintptr_t>(view.send_buffers);
        const std::uint64_t offset = posted.address - low;
        if (offset <= std::uint64_t{contract::send_buffer_bytes} * view.shape.buffers && posted.bytes <= contract::send_buffer_bytes &&
            offset + posted.bytes <= std::uint64_t{contract::send_buffer_bytes} * view.shape.buffers &&
            posted.destination < transmit_.destinations()) {
          d = {view.send_buffers + offset, posted.bytes, posted.destination};
        } else {  // a consumer's mistake is answered for, not sent
          ++counters_.bad_descriptors;
          p.outcome = Outcome::late;
          d = {header_[ready].data(), static_cast<std::uint32_t>(header_only(ready, slot.frame)), 0};
        }
      } else {
        const bool counting = options_.deadline > 0 && !(options_.from_closed && status != Status::closed);
        const Nanoseconds from = options_.from_closed ? slot.closed : slot.first;
        if (!(counting && from + options_.deadline <= now) && n >= oldest) break;
        p.outcome = Outcome::late;
        d = {header_[ready].data(), static_cast<std::uint32_t>(header_only(ready, slot.frame)), 0};
      }
    }
    ++ready;
  }
  return ready;
}

void Sender::finish(std::size_t sent, Nanoseconds now) noexcept {
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
      contract::EventWriter& events = consumers_.events[p.n % consumers_.events.size()];
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
    if (observer_) observer_->passed(p.n, p.outcome, first, closed, now);
  }
}

void Sender::reap_all() noexcept {
  for (FrameTable::Slot& slot : table_.all()) {
    if (!slot.used || !slot.passed_late) continue;
    const contract::View& view = consumers_.views[slot.n % consumers_.views.size()];
    if (contract::acquire(view.returned[view.buffer_of(slot.n)]) != static_cast<std::uint32_t>(slot.n + 1)) continue;
    slot.passed_late = false;
    if (contract::Descriptor answer; contract::posted(view, slot.n, answer)) ++counters_.answers_after_deadline;
    if (observer_) observer_->reaped(slot.n);
  }
}

Nanoseconds Sender::next_deadline() const noexcept {
  if (options_.deadline <= 0) return std::numeric_limits<Nanoseconds>::max();
  for (std::uint64_t n = table_.next; n < table_.end; ++n) {
    if (table_.status(n) == Status::skipped) continue;
    if (table_.status(n) == Status::overrun) return 0;
    const FrameTable::Slot& slot = table_.slot(n);
    if (options_.from_closed && table_.status(n) != Status::closed) break;
    return (options_.from_closed ? slot.closed : slot.first) + options_.deadline;
  }
  return std::numeric_limits<Nanoseconds>::max();
}

}  // namespace nanet::card
