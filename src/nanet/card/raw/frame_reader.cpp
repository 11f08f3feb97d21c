// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/raw/frame_reader.hpp"

#include "nanet/os/clock.hpp"

namespace nanet::card {
namespace {

std::uint16_t destination_port(std::span<const std::byte> frame) {
  constexpr std::size_t at = 36;  // in a frame without IP options, the only kind that a source passes
  if (frame.size() < at + 2) return 0;
  return static_cast<std::uint16_t>(static_cast<unsigned>(frame[at]) << 8 |
                                    static_cast<unsigned>(frame[at + 1]));
}

}  // namespace

FrameBatch::FrameBatch(std::size_t room) : room_(room) {
  joined_.reserve(2 * FrameSource::longest_frame);
}

bool FrameBatch::read(FrameSource* source, std::size_t index, std::size_t requested) noexcept {
  queue_ = source;
  index_ = index;
  requested_ = requested;
  validated_ = false;
  joined_.clear();
  before_ = os::monotonic_now();
  got_ = source->take({arrivals_.data(), requested}, joined_);
  return got_ > 0;
}

wire::UdpFrame FrameBatch::udp(std::size_t i) const noexcept {
  if (validated_) return parsed_[i].udp;
  const auto& frame = arrivals_[i].frame;
  return wire::parse_udp_frame(frame, frame.size(), destination_port(frame));
}

void FrameBatch::validate(const wire::mgp::Rules& rules, SegmentsAhead*, SegmentsAhead::Lane&) noexcept {
  std::span<std::uint32_t> room = listed_;
  for (std::size_t i = 0; i < got_; ++i) {
    parsed_[i].udp = udp(i);
    if (parsed_[i].udp.reason != wire::NotMgp::none) continue;
    parsed_[i].checked = wire::mgp::validate(parsed_[i].udp.payload, rules, room);
    if (parsed_[i].checked.index) room = room.subspan(parsed_[i].checked.fragments);
  }
  validated_ = true;
}

}  // namespace nanet::card
