// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/follower.hpp"

#include <nanet_regs.h>

#include <algorithm>
#include <limits>

#include "nanet/contract/queue.hpp"

namespace nanet::gateware {

using card::FrameTable;
using card::Outcome;
using contract::Event;
using contract::EventType;

#define NANET_AT(field) offsetof(nanet_regs_t, field)

Follower::Follower(Driver& driver, card::Consumers& consumers, FrameTable& table, card::Counters& counters)
    : Receiver(card::ReceiverOptions{}),
      driver_(driver),
      view_(consumers.views[0]),
      table_(table),
      counters_(counters) {
  out_.reserve(view_.shape.buffers);
  bases_.reserve(most_bursts);
}

Nanoseconds Follower::next_timer() const noexcept {
  return std::numeric_limits<Nanoseconds>::max();
}

// Numbers up to n are known now; of those between nothing was said yet.
void Follower::known(std::uint64_t n) {
  for (std::uint64_t m = table_.end; m <= n; ++m) table_.set(m, FrameTable::Status::skipped);
  table_.end = std::max(table_.end, n + 1);
}

void Follower::pass(std::uint64_t n, Outcome outcome) {
  ++passed_;
  if (observer_) observer_->passed(n, outcome, 0, 0, 0);
}

void Follower::take(const Event& e) {
  const std::uint64_t n = contract::widen(e.n, near_);
  switch (static_cast<EventType>(e.type)) {
    case EventType::receive_done: {
      known(n);
      near_ = std::max(near_, n);
      FrameTable::Slot& slot = table_.slot(n);
      // The buffer is handed out anew, so it was back: the consumer's late answer is final.
      if (slot.used && slot.passed_late && observer_) observer_->reaped(slot.n);
      slot = FrameTable::Slot{};
      slot.n = n;
      slot.used = true;
      slot.frame = e.frame;
      table_.set(n, FrameTable::Status::closed);
      ++received_;
      out_.push_back(n);
      break;
    }
    case EventType::send_done: {
      for (; table_.next < n; ++table_.next)
        if (table_.next < table_.end && table_.status(table_.next) == FrameTable::Status::overrun)
          pass(table_.next, Outcome::overrun);
      const bool late = e.flags & contract::event_flag::late;
      table_.slot(n).passed_late = late;
      table_.next = n + 1;
      pass(n, late ? Outcome::late : Outcome::answered);
      break;
    }
    case EventType::error:
      if (!(e.flags & contract::event_flag::overrun)) break;
      known(n + e.bytes - 1);
      for (std::uint32_t i = 0; i < e.bytes; ++i) table_.set(n + i, FrameTable::Status::overrun);
      received_ += e.bytes;
      break;
    case EventType::burst_begins: {
      const std::uint64_t base = std::uint64_t{e.bytes} << 32 | e.buffer;
      number_ += counters_.bursts ? static_cast<std::uint8_t>(e.frame - number_) : e.frame;
      ++counters_.bursts;
      ++open_bursts_;
      table_.begin_burst(base);
      note_burst({base, number_});
      near_ = base;
      if (follower_) follower_->burst_began(number_, base);
      break;
    }
    case EventType::burst_ends: {
      if (open_bursts_) --open_bursts_;
      // One of the two newest: the one whose last number this is.
      card::BurstEnded ended;
      for (auto it = bases_.rbegin(); it != bases_.rend(); ++it)
        if (it->base + e.frame == n) {
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
      if (follower_) follower_->burst_ended(ended);
      break;
    }
    default:
      break;
  }
}

// Return slots and doorbells lie in memory, where the consumer writes them; the card has them as registers.
bool Follower::forward() {
  bool any = false;
  const std::uint32_t bell = contract::relaxed(*view_.doorbell);
  if (bell != bell_) {
    bell_ = bell;
    driver_.ring(bell);
    any = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out_.size(); ++i) {
    const std::uint64_t n = out_[i];
    const std::uint32_t buffer = view_.buffer_of(n), value = static_cast<std::uint32_t>(n + 1);
    if (contract::acquire(view_.returned[buffer]) != value) {
      out_[kept++] = n;
      continue;
    }
    any = true;
    // Its answer was posted before. Doorbells that came in quick succession are one in memory, and those of
    // late answers are counted by number.
    if (table_.slot(n).passed_late || table_.next > n) driver_.ring(static_cast<std::uint32_t>(n));
    driver_.give_back(buffer, value);
  }
  out_.resize(kept);
  return any;
}

bool Follower::follow() {
  bool any = false;
  Event event;
  while (contract::poll_event(view_, next_, event) == contract::Poll::event) {
    take(event);
    ++next_;
    any = true;
  }
  any |= forward();
  const std::uint64_t finished = std::min(next_, contract::acquire(*view_.finished));
  if (finished != finished_) driver_.finished(finished_ = finished);
  return any;
}

void Follower::pass_overruns() {
  const auto waits = [&] {
    return table_.next < table_.end && table_.status(table_.next) == FrameTable::Status::overrun;
  };
  if (!waits()) return;
  const std::uint64_t done = driver_.read_pair(NANET_AT(sender_next));
  for (; waits() && table_.next < done; ++table_.next) pass(table_.next, Outcome::overrun);
}

bool Follower::passed_all() const noexcept {
  return counters_.frames_out == counters_.frames_in && passed_ == counters_.frames_out;
}

bool Follower::read_counters() {
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
  NANET_MIRROR(answers_after_deadline);
  NANET_MIRROR(bad_descriptors);
  NANET_MIRROR(events_in);
  NANET_MIRROR(hits_in);
#undef NANET_MIRROR
  for (std::size_t i = 0; i < counters_.bad.size(); ++i)
    counters_.bad[i].set(bank.at(NANET_AT(bad_packets) + 4 * i));
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
