// SPDX-License-Identifier: Apache-2.0
// Producer side of the memory contract, used by cards: writes events and reads posted descriptors. Lap words
// are released and acquired; they order all other words (docs/formats.md, Ordering).
#pragma once

#include <cstdint>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/layout.hpp"
#include "nanet/contract/mailbox.hpp"

namespace nanet::contract {

// Producer end of an event queue.
class EventWriter {
 public:
  explicit EventWriter(const View& view) : view_(view), mask_(view.shape.events - 1) {}

  // Entries that can be written without overwriting an unfinished one.
  std::uint64_t free() const noexcept { return view_.shape.events - (next_ - acquire(*view_.finished)); }
  // Free entries that are not promised: these may be written without a promise.
  std::uint64_t room() const noexcept {
    const std::uint64_t entries = free();
    return entries > promised_ ? entries - promised_ : 0;
  }
  // Reserves entries for events that must follow (receive done and send done of a buffer in use). Each
  // write_promised() uses one.
  void promise(std::uint64_t entries) noexcept { promised_ += entries; }
  void write_promised(const Event& event, const EventLine& line = {}) noexcept {
    --promised_;
    write(event, line);
  }
  // Writes every entry to the event lines of a mailbox too, from now on.
  void attach(const MailboxWriter& mailbox) noexcept { mailbox_ = mailbox; }
  MailboxWriter& mailbox() noexcept { return mailbox_; }
  const MailboxWriter& mailbox() const noexcept { return mailbox_; }
  bool less_than_half_free() const noexcept { return free() < view_.shape.events / 2; }
  std::uint64_t written() const noexcept { return next_; }

  // Requires free() > 0. Sets `event.lap`. line: the mailbox's part of the event line.
  void write(const Event& event, const EventLine& line = {}) noexcept {
    const auto lap = static_cast<std::uint32_t>(next_ >> exponent(view_.shape.events)) + 1;
    if (mailbox_) mailbox_.event(event, static_cast<std::uint32_t>(next_ & mask_), lap, line);
    Event& e = view_.queue[next_ & mask_];
    relax(e.type, event.type);
    relax(e.stream, event.stream);
    relax(e.flags, event.flags);
    relax(e.buffer, event.buffer);
    relax(e.bytes, event.bytes);
    relax(e.frame, event.frame);
    relax(e.time_ns, event.time_ns);
    relax(e.n, event.n);
    release(e.lap, lap);
    ++next_;
  }

 private:
  View view_;
  MailboxWriter mailbox_;
  std::uint64_t mask_, next_ = 0, promised_ = 0;
};

// Copies the descriptor of n to `out` and returns true once it is posted.
inline bool posted(const View& view, std::uint64_t n, Descriptor& out) noexcept {
  const Descriptor& d = view.descriptor(n);
  if (acquire(d.lap) != view.descriptor_lap(n)) return false;
  out.address = relaxed(d.address);
  out.bytes = relaxed(d.bytes);
  out.destination = relaxed(d.destination);
  out.token = relaxed(d.token);
  return true;
}

}  // namespace nanet::contract
