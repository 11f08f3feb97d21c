// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/software_stream.hpp"

#include "nanet/card/software/packet_receiver.hpp"

namespace nanet::card {
namespace {

std::unique_ptr<Receiver> make_receiver(const ClopOptions& options, std::uint8_t number, bool replay,
                                        Consumers& consumers, FrameTable& table, Counters& counters) {
  ReceiverOptions receive;
  receive.rules = options.rules;
  receive.dealing = options.dealing;
  receive.stream = number;
  receive.timeout = options.timeout;
  receive.burst_silence = options.burst_silence;
  receive.replay = replay;
  receive.clock = options.clock;
  receive.merge = options.merge;
  receive.window_lsb = options.window_lsb;
  if (options.merge) check_merging(consumers.views[0].shape, options.rules.boards, options.window_lsb);
  if (options.gather == contract::Gather::frame)
    return std::make_unique<FrameReceiver>(receive, consumers, table, counters);
  return std::make_unique<PacketReceiver>(receive, consumers, table, counters);
}

}  // namespace

SoftwareStream::SoftwareStream(const ClopOptions& options, std::uint8_t number, Transmit& transmit,
                               bool replay)
    : Stream(options),
      receiver_(make_receiver(options, number, replay, consumers(), table(), counters())),
      sender_({number, options.rules.source, replay ? 0 : options.deadline,
               options.gather == contract::Gather::packets},
              consumers(), table(), counters(), transmit) {}

void SoftwareStream::observe(FrameObserver* observer) noexcept {
  receiver_->observe(observer);
  sender_.observe(observer);
}

SegmentsAhead* SoftwareStream::write_ahead() {
  auto* const frames = dynamic_cast<FrameReceiver*>(receiver_.get());
  if (!frames || !writes_mailboxes() || options().merge) return nullptr;
  ahead_ = std::make_unique<SegmentsAhead>(consumers(), options().dealing);
  frames->write_ahead(*ahead_);
  return ahead_.get();
}

const contract::RecentIndices* SoftwareStream::keep_indices() {
  auto* const frames = dynamic_cast<FrameReceiver*>(receiver_.get());
  return frames && !options().merge ? &frames->keep_indices() : nullptr;
}

bool SoftwareStream::use_mailboxes(std::span<const contract::Mailbox> mailboxes) noexcept {
  if (mailboxes.empty()) {
    if (ahead_) ahead_->disable();
    for (contract::EventWriter& events : consumers().events) events.attach({});
    return true;
  }
  if (!writes_mailboxes() || mailboxes.size() != consumers().events.size()) return false;
  for (std::size_t d = 0; d < mailboxes.size(); ++d)
    consumers().events[d].attach(contract::MailboxWriter(mailboxes[d]));
  receiver_->list_fragments();
  if (ahead_) ahead_->enable();
  return true;
}

}  // namespace nanet::card
