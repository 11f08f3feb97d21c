// SPDX-License-Identifier: Apache-2.0
// Final trigger: decision and datagrams.
#include "nanet/trigger/live/final_trigger.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "nanet/card/frame_periods.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {
namespace {

constexpr std::size_t decided_periods = 1 << 16;  // above the latency of a card

}  // namespace

FinalTrigger::FinalTrigger(const FinalTriggerOptions& options)
    : options_(options), decisions_(options.masks, options.min_ticks, options.late), bytes_(batch) {
  std::vector<wire::Endpoint> to = options.boards;
  if (options.farm.port != 0)
    to.insert(to.begin(), {options.farm.address, static_cast<std::uint16_t>(options.farm.port + 1)});
  // Not connected: the error of a board that is gone would cost the next datagram.
  socket_ = os::open_udp_sender(to.at(0), {.source = std::nullopt, .connect = false});
  for (const wire::Endpoint& one : to) to_.push_back(os::to_sockaddr(one));
  vectors_.resize(batch);
  messages_.resize(batch * to_.size());
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    messages_[i] = {};
    messages_[i].msg_hdr.msg_iov = &vectors_[i / to_.size()];
    messages_[i].msg_hdr.msg_iovlen = 1;
    messages_[i].msg_hdr.msg_name = &to_[i % to_.size()];
    messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
  }
}

void FinalTrigger::burst_began(std::uint32_t number, std::uint64_t base) noexcept {
  if (bursts_ == begun_.size()) {  // more bursts than answers: the oldest has no frame left
    std::move(begun_.begin() + 1, begun_.end(), begun_.begin());
    --bursts_;
  }
  begun_[bursts_++] = {base, static_cast<std::uint8_t>(number)};
}

void FinalTrigger::begin_burst_of(std::uint64_t n) noexcept {
  while (bursts_ > 0 && begun_[0].base <= n) {
    burst_ = begun_[0].number;
    std::move(begun_.begin() + 1, begun_.begin() + bursts_, begun_.begin());
    --bursts_;
    decisions_.begin();
  }
}

void FinalTrigger::sent(std::uint64_t n, std::span<const std::byte> packet) noexcept {
  begin_burst_of(n);
  const wire::mtp::Decoded decoded = wire::mtp::decode(packet, primitives_.data(), options_.source);
  if (decoded.refusal != wire::mtp::Refusal::none || decoded.count == 0) return;
  const Frame frame = decoded.header.frame;
  queue_frame(frame, decisions_.frame(frame, std::span(primitives_).first(decoded.count)));
}

void FinalTrigger::passed_late(std::uint64_t n, Frame frame, const card::FramePeriods& periods) noexcept {
  begin_burst_of(n);
  queue_frame(frame, decisions_.late_frame(frame, [&](const auto& decide) { periods.each(decide); }));
}

void FinalTrigger::queue_frame(Frame frame, std::span<const wire::trigger::Trigger> triggers) noexcept {
  while (!triggers.empty()) {
    const auto some = triggers.first(std::min<std::size_t>(triggers.size(), wire::trigger::max_triggers));
    triggers = triggers.subspan(some.size());
    queue(burst_, frame, some);
  }
}

void FinalTrigger::queue(std::uint8_t burst, Frame frame,
                         std::span<const wire::trigger::Trigger> triggers) noexcept {
  if (used_ == batch) send();
  const std::size_t size =
      wire::trigger::encode(bytes_[used_].data(), {0, burst, 0, sequence_++, frame}, triggers);
  vectors_[used_] = {bytes_[used_].data(), size};
  ++used_;
}

void FinalTrigger::use_card(const card::CardTriggerCounts* counts) {
  card_ = counts;
  if (counts) decided_.resize(decided_periods);
}

void FinalTrigger::answered(std::span<const std::byte> packet) noexcept {
  if (decided_.empty()) return;
  const wire::mtp::Decoded decoded = wire::mtp::decode(packet, primitives_.data(), options_.source);
  if (decoded.refusal != wire::mtp::Refusal::none) return;
  if (decoded.header.frame <= decided_frame_) {  // a new burst
    decisions_.begin();
    std::fill(decided_.begin(), decided_.end(), wire::trigger::Trigger{});
  }
  decided_frame_ = decoded.header.frame;
  for (const wire::trigger::Trigger& t :
       decisions_.frame(decoded.header.frame, std::span(primitives_).first(decoded.count)))
    decided_[t.timestamp % decided_periods] = t;
}

void FinalTrigger::released(std::uint8_t burst, Timestamp t, std::uint8_t kind) noexcept {
  const bool same = waiting_ > 0 && burst == released_burst_ &&
                    t / periods_per_frame == released_[0].timestamp / periods_per_frame;
  if (!same || waiting_ == released_.size()) queue_released();
  released_burst_ = burst;
  wire::trigger::Trigger trigger{t, kind, 0, static_cast<std::uint16_t>(counters_.triggers)};
  const bool equal = !decided_.empty() && decided_[t % decided_periods].timestamp == t &&
                     decided_[t % decided_periods].kind == kind;
  if (equal)
    trigger.fine = decided_[t % decided_periods].fine;
  else
    ++counters_.differs;
  released_[waiting_++] = trigger;
  ++counters_.triggers;
}

void FinalTrigger::queue_released() noexcept {
  if (waiting_ == 0) return;
  queue(released_burst_, released_[0].timestamp / periods_per_frame, std::span(released_).first(waiting_));
  waiting_ = 0;
}

void FinalTrigger::flush() noexcept {
  queue_released();
  send();
  if (card_) return;
  const ttc::Decisions::Counts& c = decisions_.counts();
  counters_.primitives.set(c.primitives);
  counters_.decisions.set(c.decisions);
  counters_.triggers.set(c.sent);
  counters_.joined.set(c.joined);
  counters_.dead.set(c.dead);
  counters_.passed.set(c.passed);
}

void FinalTrigger::send() noexcept {
  const auto count = static_cast<unsigned>(used_ * to_.size());
  for (unsigned i = 0; i < count;) {
    const int n = sendmmsg(socket_.get(), messages_.data() + i, count - i, MSG_DONTWAIT);
    if (n > 0) {
      i += static_cast<unsigned>(n);
      counters_.datagrams += static_cast<unsigned>(n);
    } else if (errno != EINTR) {
      ++counters_.send_errors;
      ++i;
    }
  }
  used_ = 0;
}

}  // namespace nanet::trigger
