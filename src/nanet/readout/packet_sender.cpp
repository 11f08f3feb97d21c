// SPDX-License-Identifier: Apache-2.0
// Packet sender: gathering, trains and error handling.
#include "nanet/readout/packet_sender.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace nanet::readout {
namespace {

constexpr std::string_view names[send_error_count] = {"refused",  "would_block", "no_buffers",
                                                      "too_long", "unreachable", "other"};
constexpr unsigned max_attempts = 100;  // about 0.1 s of waiting for buffer space, then drops them

SendError classify(int error) {
  switch (error) {
    case ECONNREFUSED:
      return SendError::refused;
    case EAGAIN:
      return SendError::would_block;
    case ENOBUFS:
    case ENOMEM:
      return SendError::no_buffers;
    case EMSGSIZE:
      return SendError::too_long;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
      return SendError::unreachable;
    default:
      return SendError::other;
  }
}

}  // namespace

std::string_view name(SendError error) {
  return error == SendError::none ? std::string_view("none") : names[static_cast<std::size_t>(error)];
}

PacketSender::PacketSender(const wire::Endpoint& destination, bool segmentation)
    : socket_(os::open_udp_sender(destination)),
      segmentation_(segmentation && os::supports_segmentation(socket_.get())),
      messages_(max_packets),
      vectors_(max_packets),
      control_(max_packets),
      trains_(max_packets) {}

void PacketSender::push(const std::byte* data, std::uint32_t size) noexcept {
  if (gathered_ == max_packets) flush();
  ++gathered_;
  if (append(data, size)) return;
  Train& train = trains_[used_trains_++];
  train = Train{used_vectors_, 1, size, size, 1, false};
  vectors_[used_vectors_++] = {const_cast<std::byte*>(data), size};
}

// Adds a datagram to the current train if the kernel's rules permit: equal sizes, only the last may be
// shorter.
bool PacketSender::append(const std::byte* data, std::uint32_t size) noexcept {
  if (!segmentation_ || used_trains_ == 0 || size == 0) return false;
  Train& train = trains_[used_trains_ - 1];
  if (train.closed || size > train.segment || train.datagrams == max_segments ||
      train.bytes + size > max_train)
    return false;
  iovec& last = vectors_[used_vectors_ - 1];
  if (static_cast<std::byte*>(last.iov_base) + last.iov_len == data) {
    last.iov_len += size;
  } else {
    vectors_[used_vectors_++] = {const_cast<std::byte*>(data), size};
    ++train.vectors;
  }
  train.bytes += size;
  ++train.datagrams;
  train.closed = size < train.segment;
  return true;
}

void PacketSender::prepare(unsigned i) noexcept {
  const Train& train = trains_[i];
  msghdr& header = messages_[i].msg_hdr;
  header = msghdr{};
  header.msg_iov = &vectors_[train.first_vector];
  header.msg_iovlen = train.vectors;
  if (train.datagrams == 1) return;
  header.msg_control = &control_[i];
  header.msg_controllen = sizeof(Control);
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto segment = static_cast<std::uint16_t>(train.segment);
  std::memcpy(CMSG_DATA(c), &segment, sizeof segment);
}

void PacketSender::count(const Train& train) noexcept {
  packets_ += train.datagrams;
  bytes_ += train.bytes;
  ++messages_sent_;
}

bool PacketSender::retry(int error, unsigned datagrams, unsigned attempt) noexcept {
  if (error == EINTR) return true;
  const SendError kind = classify(error);
  stats::Counter& counter = errors_[static_cast<std::size_t>(kind)];
  if (kind == SendError::refused) {  // caused by an earlier datagram; reading the error cleared it
    ++counter;
    return attempt < max_attempts;
  }
  if ((kind == SendError::would_block || kind == SendError::no_buffers) && attempt < max_attempts) {
    if (kind == SendError::would_block) {
      pollfd wait{socket_.get(), POLLOUT, 0};
      (void)poll(&wait, 1, 1);
    } else {
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return true;
  }
  counter += datagrams;
  return false;
}

void PacketSender::send_one_by_one(const Train& train) noexcept {
  unsigned v = train.first_vector;
  std::size_t at = 0;
  for (unsigned i = 0; i < train.datagrams; ++i) {
    // No datagram spans two vectors: each was pushed whole.
    if (at == vectors_[v].iov_len && train.bytes > 0) {
      ++v;
      at = 0;
    }
    const std::size_t size = std::min<std::size_t>(train.segment, vectors_[v].iov_len - at);
    const auto* data = static_cast<const std::byte*>(vectors_[v].iov_base) + at;
    for (unsigned attempt = 0;; ++attempt) {
      if (send(socket_.get(), data, size, 0) >= 0) {
        count({v, 1, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size), 1, false});
        break;
      }
      if (!retry(errno, 1, attempt)) break;
    }
    at += size;
  }
}

void PacketSender::flush() noexcept {
  for (unsigned i = 0; i < used_trains_; ++i) prepare(i);
  const std::uint64_t refusals = errors(SendError::refused);
  if (used_trains_ > 0 && messages_sent_ > 0) ++later_flushes_;
  unsigned sent = 0, attempt = 0;
  while (sent < used_trains_) {
    if (!segmentation_ && trains_[sent].datagrams > 1) {
      send_one_by_one(trains_[sent++]);
      continue;
    }
    // A single datagram, the usual case when each frame is sent at its due time, takes the shorter call.
    const bool one = used_trains_ - sent == 1 && trains_[sent].datagrams == 1;
    const iovec& v = vectors_[trains_[sent].first_vector];
    const int n = one ? (send(socket_.get(), v.iov_base, v.iov_len, 0) >= 0 ? 1 : -1)
                      : sendmmsg(socket_.get(), &messages_[sent], used_trains_ - sent, 0);
    if (n > 0) {
      for (int i = 0; i < n; ++i) count(trains_[sent++]);
      attempt = 0;
      continue;
    }
    const int error = errno;
    const bool no_trains = error == EIO || error == EINVAL || error == EOPNOTSUPP;
    if (no_trains &&
        trains_[sent].datagrams > 1) {  // the device cannot checksum, or the path MTU is too small
      segmentation_ = false;
      continue;
    }
    if (!retry(error, trains_[sent].datagrams, attempt++)) {
      ++sent;
      attempt = 0;
    }
  }
  if (errors(SendError::refused) > refusals) ++refused_flushes_;
  used_trains_ = used_vectors_ = gathered_ = 0;
}

}  // namespace nanet::readout
