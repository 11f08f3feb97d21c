// SPDX-License-Identifier: Apache-2.0
// Final trigger: decision and datagrams.
#include "nanet/trigger/live/final_trigger.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "nanet/os/socket.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {

FinalTrigger::FinalTrigger(const FinalTriggerOptions& options)
    : options_(options),
      decisions_(options.masks, options.min_ticks),
      socket_(os::open_udp_sender(options.boards.at(0), {.source = std::nullopt, .connect = false})),
      bytes_(batch) {
  if (options.farm.port != 0)
    to_.push_back(os::to_sockaddr({options.farm.address, static_cast<std::uint16_t>(options.farm.port + 1)}));
  for (const wire::Endpoint& board : options.boards) to_.push_back(os::to_sockaddr(board));
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

void FinalTrigger::sent(std::uint64_t n, std::span<const std::byte> packet) noexcept {
  while (bursts_ > 0 && begun_[0].base <= n) {
    burst_ = begun_[0].number;
    std::move(begun_.begin() + 1, begun_.begin() + bursts_, begun_.begin());
    --bursts_;
    decisions_.begin();
  }
  const wire::mtp::Decoded decoded = wire::mtp::decode(packet, primitives_.data(), options_.source);
  if (decoded.refusal != wire::mtp::Refusal::none || decoded.count == 0) return;
  auto triggers = decisions_.frame(decoded.header.frame, std::span(primitives_).first(decoded.count));
  while (!triggers.empty()) {
    const auto some = triggers.first(std::min<std::size_t>(triggers.size(), wire::trigger::max_triggers));
    triggers = triggers.subspan(some.size());
    if (used_ == batch) flush();
    const std::size_t size =
        wire::trigger::encode(bytes_[used_].data(), {0, burst_, 0, sequence_++, decoded.header.frame}, some);
    vectors_[used_] = {bytes_[used_].data(), size};
    ++used_;
  }
}

void FinalTrigger::flush() noexcept {
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
  const ttc::Decisions::Counts& c = decisions_.counts();
  counters_.primitives.set(c.primitives);
  counters_.decisions.set(c.decisions);
  counters_.triggers.set(c.sent);
  counters_.joined.set(c.joined);
  counters_.dead.set(c.dead);
}

}  // namespace nanet::trigger
