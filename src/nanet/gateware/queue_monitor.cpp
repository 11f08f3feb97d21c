// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/queue_monitor.hpp"

#include <nanet_regs.h>

#include <algorithm>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"

namespace nanet::gateware {

using card::FrameTable;
using card::Outcome;
using contract::Event;
using contract::EventType;

#define NANET_AT(field) offsetof(nanet_regs_t, field)

QueueMonitor::QueueMonitor(Driver& driver, card::Consumers& consumers, FrameTable& table,
                           card::Counters& counters)
    : driver_(driver),
      table_(table),
      counters_(counters),
      queues_(consumers.views.begin(), consumers.views.end()),
      by_packets_(consumers.views[0].shape.gather == contract::Gather::packets),
      sent_(table.slots()) {
  bases_.reserve(most_bursts);
}

std::size_t QueueMonitor::out() const noexcept {
  std::size_t all = 0;
  for (const Queue& q : queues_) all += q.out.size();
  return all;
}

// Extends the numbers up to n; intermediate numbers have no status yet.
void QueueMonitor::known(std::uint64_t n) {
  for (std::uint64_t m = table_.end; m <= n; ++m) table_.set(m, FrameTable::Status::skipped);
  table_.end = std::max(table_.end, n + 1);
}

// First event of a number with a buffer. The previous user of the buffer has been passed and has returned it,
// so its slot can be overwritten.
void QueueMonitor::received(std::uint64_t n, Frame frame) {
  known(n);
  reference_ = std::max(reference_, n);
  FrameTable::Slot& slot = table_.slot(n);
  slot = FrameTable::Slot{};
  slot.n = n;
  slot.used = true;
  slot.frame = frame;
  table_.set(n, FrameTable::Status::closed);
  ++received_;
}

void QueueMonitor::pass(std::uint64_t n, Outcome outcome) {
  ++passed_;
  if (observer_) observer_->passed(n, outcome, 0, 0, 0);
}

// Passes numbers in the order of n. The queues of several devices are read in turn, so numbers in between may
// still be reported.
void QueueMonitor::advance() {
  for (; table_.next < table_.end; ++table_.next) {
    const std::uint64_t n = table_.next;
    const Queue& queue = queues_[n & (queues_.size() - 1)];
    switch (table_.status(n)) {
      case FrameTable::Status::closed: {
        const Sent how = sent(n);
        if (how == Sent::no) return;
        table_.slot(n).passed_late = how == Sent::late;
        pass(n, how == Sent::late ? Outcome::late : Outcome::answered);
        break;
      }
      case FrameTable::Status::overrun:
        if (n >= sent_to_) return;
        pass(n, Outcome::overrun);
        break;
      default:
        // Skipped permanently once its queue can no longer report it.
        if (n >= sent_to_ || !(n < queue.sent_to || (n >= queue.ended_base && n < queue.ended_to))) return;
    }
  }
}

void QueueMonitor::take(Queue& queue, const Event& e) {
  const std::uint64_t n = contract::unwrap_counter(e.n, reference_);
  switch (static_cast<EventType>(e.type)) {
    case EventType::receive_done:
      // If the deadline came first, its send-done event has been read already: those events are in order.
      if (n >= queue.sent_to) {
        received(n, e.frame);
        sent(n) = Sent::no;
      }
      queue.out.push_back(n);
      break;
    case EventType::send_done:
      // Only numbers with a buffer have send-done events, so an unknown number is received later.
      if (n >= table_.end || table_.status(n) == FrameTable::Status::skipped) received(n, e.frame);
      sent(n) = e.flags & contract::event_flag::late ? Sent::late : Sent::answered;
      sent_to_ = std::max(sent_to_, n + 1);
      queue.sent_to = std::max(queue.sent_to, n + 1);
      advance();
      break;
    case EventType::error: {
      // In gather mode packets these are payloads without a number.
      if (!(e.flags & contract::event_flag::overrun) || by_packets_ || e.bytes == 0) break;
      const std::uint64_t step = queues_.size();
      known(n + (e.bytes - 1) * step);
      for (std::uint32_t i = 0; i < e.bytes; ++i) {
        const std::uint64_t m = n + i * step;
        // The deadline of a later frame may come first; m has then been skipped.
        if (m < table_.next)
          ++passed_;
        else
          table_.set(m, FrameTable::Status::overrun);
      }
      received_ += e.bytes;
      break;
    }
    case EventType::burst_begins:
      // The event is in every queue; the first one counts.
      if (queue.bursts_begun++ == bursts_begun_)
        burst_began(std::uint64_t{e.bytes} << 32 | e.buffer, e.frame);
      break;
    case EventType::burst_ends:
      burst_ended(queue, n, e.frame);
      break;
    default:
      break;
  }
}

void QueueMonitor::burst_began(std::uint64_t base, std::uint32_t number) {
  number_ += bursts_begun_ ? static_cast<std::uint8_t>(number - number_) : number;
  ++bursts_begun_;
  ++open_bursts_;
  table_.begin_burst(base);
  note_burst({base, number_});
  reference_ = base;
  if (burst_observer_) burst_observer_->burst_began(number_, base);
}

// n: last frame of the burst.
void QueueMonitor::burst_ended(Queue& queue, std::uint64_t n, std::uint32_t last) {
  queue.ended_base = n - last;
  queue.ended_to = n + 1;
  ++queue.bursts_ended;
  // After the event from all queues, all frames of the burst are complete.
  for (const Queue& q : queues_)
    if (q.bursts_ended <= bursts_ended_) return;
  ++bursts_ended_;
  advance();
  if (open_bursts_) --open_bursts_;
  // Of the two newest bursts, the one with this last number.
  card::BurstEnded ended;
  for (auto it = bases_.rbegin(); it != bases_.rend(); ++it)
    if (it->base + last == n) {
      ended.number = it->number;
      ended.base = it->base;
      break;
    }
  ended.end = table_.end > n ? n + 1 : n;
  for (std::size_t r = 0; r < 2; ++r) {
    const std::uint32_t report = driver_.read(NANET_AT(burst_report) + 4 * r);
    if (static_cast<std::uint16_t>(report) != static_cast<std::uint16_t>(ended.number)) continue;
    ended.sob = report >> NANET_REGS__BURST_REPORT__SOB_bp & 0xF;
    ended.eob = report >> NANET_REGS__BURST_REPORT__EOB_bp & 0xF;
    ended.how = static_cast<card::BurstEnd>(report >> NANET_REGS__BURST_REPORT__HOW_bp & 3);
    break;
  }
  if (burst_observer_) burst_observer_->burst_ended(ended);
}

// The consumer writes return slots and doorbells to memory; the card has registers for them.
bool QueueMonitor::forward(Queue& queue) {
  bool any = false;
  const std::uint32_t bell = contract::relaxed(*queue.view.doorbell);
  if (bell != queue.bell) {
    queue.bell = bell;
    driver_.ring(bell);
    any = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < queue.out.size(); ++i) {
    const std::uint64_t n = queue.out[i];
    // Only after the number is passed: until then its trace, which shares the buffer's slot, is needed.
    if (n >= table_.next || contract::acquire(queue.view.returned[queue.view.buffer_of(n)]) !=
                                static_cast<std::uint32_t>(n + 1)) {
      queue.out[kept++] = n;
      continue;
    }
    any = true;
    // The answer was posted before and is final. Doorbells in quick succession collapse into one memory word;
    // late answers are counted by number.
    if (FrameTable::Slot& slot = table_.slot(n); slot.passed_late) {
      driver_.ring(static_cast<std::uint32_t>(n));
      slot.passed_late = false;
      if (observer_) observer_->reaped(n);
    }
    driver_.give_back(n);
  }
  queue.out.resize(kept);
  return any;
}

bool QueueMonitor::poll() {
  bool any = false;
  Event event;
  for (Queue& queue : queues_)
    while (contract::poll_event(queue.view, queue.next, event) == contract::Poll::event) {
      take(queue, event);
      ++queue.next;
      any = true;
    }
  if (any) advance();
  for (std::size_t device = 0; device < queues_.size(); ++device) {
    Queue& queue = queues_[device];
    any |= forward(queue);
    const std::uint64_t finished = std::min(queue.next, contract::acquire(*queue.view.finished));
    if (finished != queue.finished) driver_.finished(device, queue.finished = finished);
  }
  return any;
}

void QueueMonitor::pass_overruns() {
  if (table_.next >= table_.end || table_.status(table_.next) != FrameTable::Status::overrun) return;
  sent_to_ = std::max(sent_to_, driver_.read_pair(NANET_AT(sender_next)));
  advance();
}

bool QueueMonitor::passed_all() const noexcept {
  return counters_.frames_out == counters_.frames_in && passed_ == counters_.frames_out;
}

bool QueueMonitor::read_counters() {
  if (!driver_.read_counters()) return false;
  const CounterBank& bank = driver_.counters();
  const auto frames = [&](std::size_t at) { return bank.at(NANET_AT(frames) + at); };
#define NANET_MIRROR(name) counters_.name.set(frames(offsetof(frames_t_t, name)))
  NANET_MIRROR(packets_in);
  NANET_MIRROR(packets_used);
  NANET_MIRROR(burst_markers);
  NANET_MIRROR(frames_in);
  NANET_MIRROR(frames_out);
  NANET_MIRROR(frames_answered);
  NANET_MIRROR(frames_late);
  NANET_MIRROR(frames_skipped);
  NANET_MIRROR(frames_incomplete);
  NANET_MIRROR(frames_overrun);
  NANET_MIRROR(frames_unmerged);
  NANET_MIRROR(answers_after_deadline);
  NANET_MIRROR(bad_descriptors);
  NANET_MIRROR(events_in);
  NANET_MIRROR(hits_in);
  NANET_MIRROR(bursts);
#undef NANET_MIRROR
  for (std::size_t i = 0; i < counters_.bad.size(); ++i) {
    counters_.bad[i].set(bank.at(NANET_AT(bad_packets) + 4 * i) + refused_before[i]);
    counters_.packets_in += refused_before[i];
  }
  const auto lost = [&](card::Lost reason, std::size_t at) {
    counters_.lost[static_cast<std::size_t>(reason)].set(bank.at(NANET_AT(lost) + at));
  };
  lost(card::Lost::late, offsetof(lost_t_t, late));
  lost(card::Lost::duplicate, offsetof(lost_t_t, duplicate));
  lost(card::Lost::replayed_sequence, offsetof(lost_t_t, replayed_sequence));
  lost(card::Lost::unconfirmed_jump, offsetof(lost_t_t, unconfirmed_jump));
  lost(card::Lost::overrun, offsetof(lost_t_t, overrun));
  lost(card::Lost::segment_overflow, offsetof(lost_t_t, segment_overflow));
  lost(card::Lost::socket_overflow, offsetof(lost_t_t, socket_overflow));
  counters_.lost[static_cast<std::size_t>(card::Lost::socket_overflow)] += lost_before;
  counters_.lost[static_cast<std::size_t>(card::Lost::missing)].set(
      static_cast<std::uint64_t>(std::max<std::int64_t>(driver_.missing(), 0)));
  return true;
}

}  // namespace nanet::gateware
