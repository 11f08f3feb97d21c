// SPDX-License-Identifier: Apache-2.0
// Software datapath of one CLOP: a stream with its receiver and sender. Used by the socket card and by
// replays.
#pragma once

#include <memory>

#include "nanet/card/software/receiver.hpp"
#include "nanet/card/software/sender.hpp"
#include "nanet/card/stream.hpp"

namespace nanet::card {

class SoftwareStream final : public Stream {
 public:
  // number: stream number in events. transmit outlives the stream. replay: no clock (docs/formats.md, gather
  // mode frame). Throws std::invalid_argument (options) or std::system_error (no memory).
  SoftwareStream(const ClopOptions& options, std::uint8_t number, Transmit& transmit, bool replay = false);

  Receiver& receiver() noexcept { return *receiver_; }
  // Segments that reading threads write; nullptr: the card's thread alone writes mailboxes. Called before
  // the first packet.
  SegmentsAhead* write_ahead();
  Sender& sender() noexcept { return sender_; }
  // nullptr in gather mode packets.
  const FrameReceiver* frame_receiver() const noexcept {
    return dynamic_cast<const FrameReceiver*>(receiver_.get());
  }

  using Stream::receive_status;
  ReceiveStatus& receive_status() noexcept override { return *receiver_; }
  void observe(FrameObserver* observer) noexcept override;
  bool has_packet_hooks() const noexcept override { return true; }
  void observe_packets(PacketObserver* observer) noexcept override { receiver_->observe_packets(observer); }
  void on_refused(const RefusedPacketHook& hook) override { receiver_->on_refused(hook); }
  bool observe_answers(AnswerObserver* observer) noexcept override {
    sender_.observe_answers(observer);
    return true;
  }
  bool limit_answers(const AnswerLimit* limit) noexcept override {
    sender_.limit_answers(limit);
    return true;
  }
  bool writes_mailboxes() const noexcept override {
    return contract::has_mailbox && options().gather == contract::Gather::frame;
  }
  bool use_mailboxes(std::span<const contract::Mailbox> mailboxes) noexcept override;
  const contract::RecentIndices* keep_indices() override;
  void reap_all() noexcept override { sender_.reap_all(); }

 private:
  std::unique_ptr<SegmentsAhead> ahead_;  // or nullptr
  std::unique_ptr<Receiver> receiver_;
  Sender sender_;
};

}  // namespace nanet::card
