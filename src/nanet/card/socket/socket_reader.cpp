// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/socket/socket_reader.hpp"

#include <algorithm>

#include "nanet/card/card.hpp"
#include "nanet/os/affinity.hpp"
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
  validated_ = 0;
  for (std::size_t i = 0; i < got_; ++i) {
    received_[i] = {message_[i].msg_len, os::receive_info(message_[i].msg_hdr)};
    trains_ |= received_[i].info.segment_bytes != 0;
  }
  return got_ > 0;
}

void SocketBatch::validate(const wire::mgp::Rules& rules) noexcept {
  for (std::size_t i = 0; i < got_; ++i)
    datagrams(i, [&](std::span<const std::byte> datagram) {
      if (validated_ < room_checked_) checked_[validated_++] = wire::mgp::validate(datagram, rules);
    });
}

SocketReader::Lane::Lane() {
  ring.reserve(ring_entries);
  while (ring.size() < ring_entries) ring.emplace_back(handed_at_once).make_room_to_validate();
}

SocketReader::SocketReader(std::vector<int> fds, std::size_t threads, std::span<const int> cpus,
                           const wire::mgp::Rules& rules)
    : fds_(std::move(fds)),
      rules_(rules),
      requested_(fds_.size(), SocketBatch::most),
      read_up_to_(fds_.size(), 0),
      stamp_(fds_.size(), 0),
      empty_(fds_.size()) {
  threads = std::min(threads, fds_.size());
  for (std::size_t t = 0; t < threads; ++t) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    for (std::size_t s = t; s < fds_.size(); s += threads) lane.sockets.push_back(s);
    lane.thread = std::jthread([this, &lane] { run(lane); });
    try {
      if (t < cpus.size() && cpus[t] >= 0) os::pin_thread(lane.thread.native_handle(), cpus[t]);
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
  std::uint64_t filled = 0, fetched = ~std::uint64_t{0};
  struct Port {
    std::size_t socket, requested = 1;
    Nanoseconds reported = 0;
  };
  std::vector<Port> ports;
  for (const std::size_t s : lane.sockets) ports.push_back({s});
  while (!ending_.load(std::memory_order_acquire)) {
    for (Port& port : ports) {
      while (filled - lane.emptied.load(std::memory_order_acquire) == ring_entries) {
        if (ending_.load(std::memory_order_acquire)) return;
        os::spin();
      }
      SocketBatch& batch = lane.ring[filled % ring_entries];
      if (fetched != filled) batch.fetch_to_write();
      fetched = filled;
      if (batch.read(fds_[port.socket], port.socket, port.requested)) {
        port.requested = batch.trains() ? trains_handed_at_once : handed_at_once;
        batch.validate(rules_);
        lane.filled.store(++filled, std::memory_order_release);
        continue;
      }
      port.requested = 1;  // the first packet does not wait until the kernel has checked for a second
      if (batch.before() - port.reported < report_every) continue;
      port.reported = batch.before();
      empty_[port.socket].at.store(port.reported, std::memory_order_release);
    }
  }
}

}  // namespace nanet::card
