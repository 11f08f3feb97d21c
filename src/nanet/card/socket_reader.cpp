// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket_reader.hpp"

#include <algorithm>

#include "nanet/card/card.hpp"
#include "nanet/card/spin.hpp"

namespace nanet::card {

SocketBatch::SocketBatch() : bytes_(std::make_unique_for_overwrite<std::byte[]>(most * stride)) {
  for (std::size_t i = 0; i < most; ++i) vector_[i] = {bytes_.get() + i * stride, message_bytes};
}

bool SocketBatch::read(int fd, std::size_t socket, std::size_t asked) noexcept {
  const auto prepare = [this](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      message_[i].msg_hdr = {};
      message_[i].msg_hdr.msg_iov = &vector_[i];
      message_[i].msg_hdr.msg_iovlen = 1;
      message_[i].msg_hdr.msg_control = control_[i].data();
      message_[i].msg_hdr.msg_controllen = control_[i].size();
    }
  };
  prepare(0, got_);  // the last call has written over these
  if (prepared_ < asked) prepare(prepared_, asked);
  prepared_ = std::max(prepared_, asked);
  socket_ = socket;
  asked_ = asked;
  before_ = monotonic_now();
  const int got = recvmmsg(fd, message_.data(), static_cast<unsigned>(asked), MSG_DONTWAIT, nullptr);
  got_ = got > 0 ? static_cast<std::size_t>(got) : 0;
  trains_ = false;
  validated_ = 0;
  for (std::size_t i = 0; i < got_; ++i) {
    info_[i] = receive_info(message_[i].msg_hdr);
    trains_ |= info_[i].segment_bytes != 0;
  }
  return got_ > 0;
}

void SocketBatch::validate(const wire::mgp::Rules& rules) noexcept {
  for (std::size_t i = 0; i < got_; ++i)
    datagrams(i, [&](std::span<const std::byte> datagram) {
      if (validated_ < most_validated) checked_[validated_++] = wire::mgp::validate(datagram, rules);
    });
}

SocketReader::SocketReader(std::vector<int> fds, std::size_t threads, std::span<const int> cpus,
                           const wire::mgp::Rules& rules)
    : fds_(std::move(fds)),
      rules_(rules),
      asked_(fds_.size(), SocketBatch::most),
      read_up_to_(fds_.size(), 0),
      stamp_(fds_.size(), 0),
      empty_(fds_.size()) {
  threads = std::min(threads, fds_.size());
  for (std::size_t t = 0; t < threads; ++t) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    for (SocketBatch& batch : lane.ring) batch.make_room_to_validate();
    for (std::size_t s = t; s < fds_.size(); s += threads) lane.sockets.push_back(s);
    lane.thread = std::jthread([this, &lane] { run(lane); });
    try {
      if (t < cpus.size() && cpus[t] >= 0) pin_thread(lane.thread.native_handle(), cpus[t]);
    } catch (...) {
      ending_ = true;
      throw;
    }
  }
}
SocketReader::~SocketReader() {
  ending_.store(true, std::memory_order_release);
}

void SocketReader::run(Lane& lane) noexcept {
  std::uint64_t filled = 0;
  while (!ending_.load(std::memory_order_acquire)) {
    for (const std::size_t s : lane.sockets) {
      while (filled - lane.emptied.load(std::memory_order_acquire) == ring_entries) {
        if (ending_.load(std::memory_order_acquire)) return;
        spin();
      }
      SocketBatch& batch = lane.ring[filled % ring_entries];
      if (batch.read(fds_[s], s, asked_[s])) {
        asked_[s] = batch.trains() ? trains_at_once : SocketBatch::most;
        batch.validate(rules_);
        lane.filled.store(++filled, std::memory_order_release);
      } else {
        empty_[s].store(batch.before(), std::memory_order_release);
      }
    }
  }
}

}  // namespace nanet::card
