// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket/socket_reader.hpp"

#include <algorithm>

#include "nanet/os/clock.hpp"

namespace nanet::card {

SocketBatch::SocketBatch(std::size_t room)
    : bytes_(std::make_unique_for_overwrite<std::byte[]>(room * stride)), room_(room) {
  for (std::size_t i = 0; i < room; ++i) vector_[i] = {bytes_.get() + i * stride, message_bytes};
}

bool SocketBatch::read(int fd, std::size_t socket, std::size_t requested) noexcept {
  const auto prepare = [this](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      message_[i].msg_hdr = {};
      message_[i].msg_hdr.msg_iov = &vector_[i];
      message_[i].msg_hdr.msg_iovlen = 1;
      message_[i].msg_hdr.msg_control = control_[i].data();
      message_[i].msg_hdr.msg_controllen = control_[i].size();
    }
  };
  prepare(0, got_);  // overwritten by the last call
  if (prepared_ < requested) prepare(prepared_, requested);
  prepared_ = std::max(prepared_, requested);
  socket_ = socket;
  requested_ = requested;
  before_ = os::monotonic_now();
  const int got = recvmmsg(fd, message_.data(), static_cast<unsigned>(requested), MSG_DONTWAIT, nullptr);
  got_ = got > 0 ? static_cast<std::size_t>(got) : 0;
  trains_ = false;
  checked_ = 0;
  for (std::size_t i = 0; i < got_; ++i) {
    received_[i] = {message_[i].msg_len, os::receive_info(message_[i].msg_hdr)};
    trains_ |= received_[i].info.segment_bytes != 0;
  }
  return got_ > 0;
}

std::size_t SocketBatch::packets() const noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < got_; ++i) datagrams(i, [&](std::span<const std::byte>) { ++count; });
  return count;
}

void SocketBatch::validate(const wire::mgp::Rules& rules, SegmentsAhead* ahead,
                           SegmentsAhead::Lane& lane) noexcept {
  std::span<std::uint32_t> room = listed_;
  const bool writes = ahead && ahead->begin(lane);
  copied_ = writes;
  for (std::size_t i = 0; i < got_; ++i)
    datagrams(i, [&](std::span<const std::byte> datagram) {
      if (checked_ == room_checked_) {
        if (ahead) ahead->distrust();
        copied_ = false;
        return;
      }
      Validated& v = validated_[checked_++];
      v.checked = wire::mgp::validate(datagram, rules, room);
      if (v.checked.index) room = room.subspan(v.checked.fragments);
      v.written = ahead ? ahead->write(lane, v.checked, datagram, writes) : WrittenSegment{};
      copied_ &= v.written.n != WrittenSegment::none;
    });
  if (writes) SegmentsAhead::end(lane);
}

}  // namespace nanet::card
