// SPDX-License-Identifier: Apache-2.0
// Socket reader: batch reader of UDP sockets.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nanet/card/software/batch_reader.hpp"
#include "nanet/card/software/segments_ahead.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// Messages of one recvmmsg call on one socket.
class alignas(64) SocketBatch {
 public:
  using Source = int;                      // file descriptor
  static constexpr std::size_t most = 32;  // messages
  static constexpr std::size_t handed_at_once = 8;
  // The first packet does not wait until the kernel has checked for a second.
  static constexpr std::size_t first_request = 1;
  // room: messages, at most `most`.
  explicit SocketBatch(std::size_t room = most);
  // requested: messages to read, at most the room. Returns false if no message was available.
  bool read(int fd, std::size_t socket, std::size_t requested) noexcept;
  void release() noexcept {}

  std::size_t source() const noexcept { return socket_; }
  std::size_t messages() const noexcept { return got_; }
  // Datagrams of all messages.
  std::size_t packets() const noexcept;
  // Everything that arrived before this time has been read, provided the call returned fewer messages than
  // requested.
  Nanoseconds before() const noexcept { return before_; }
  bool emptied() const noexcept { return got_ < requested_; }
  // Trains are processed while still in the cache.
  std::size_t next_request(bool handed) const noexcept {
    if (trains_) return handed ? 1 : 4;
    return handed ? handed_at_once : most;
  }
  // Prefetches all cache lines written by the reading thread; without it each access would miss. payloads:
  // those of the first message, too.
  void fetch(bool payloads) const noexcept {
    __builtin_prefetch(&got_);
    __builtin_prefetch(received_.data());
    __builtin_prefetch(validated_.get());
    if (!payloads) return;
    for (std::size_t i = 0; i < fetched_bytes; i += 64) __builtin_prefetch(bytes_.get() + i);
  }
  // validate() has copied all packets to their segments.
  bool copied() const noexcept { return copied_; }
  // Prefetches the lines of the first message for writing; called once per use, before read().
  void fetch_to_write() noexcept {
    for (std::size_t i = 0; i < fetched_bytes; i += 64) __builtin_prefetch(bytes_.get() + i, 1);
  }
  std::span<const std::byte> bytes(std::size_t i) const noexcept {
    return {bytes_.get() + i * stride, received_[i].bytes};
  }
  const os::ReceiveInfo& info(std::size_t i) const noexcept { return received_[i].info; }
  // Calls f(bytes) for each datagram of message i, in order. An empty datagram counts.
  template <class F>
  void datagrams(std::size_t i, const F& f) const noexcept {
    const std::span<const std::byte> all = bytes(i);
    const std::size_t segment = info(i).segment_bytes;
    const std::size_t step = segment ? segment : std::max<std::size_t>(all.size(), 1);
    std::size_t from = 0;
    do {
      f(all.subspan(from, std::min(step, all.size() - from)));
      from += step;
    } while (from < all.size());
  }
  // Validates as many datagrams as fit. Call make_room_to_validate() once before.
  void make_room_to_validate() {
    room_checked_ = room_ * most_segments;
    validated_ = std::make_unique<Validated[]>(room_checked_);
    listed_.resize(room_ * most_listed);
  }
  // ahead: writes their segments to mailboxes as `lane`; nullptr: not.
  void validate(const wire::mgp::Rules& rules, SegmentsAhead* ahead, SegmentsAhead::Lane& lane) noexcept;
  struct Validated {
    wire::mgp::Checked checked;
    WrittenSegment written;
  };
  // Result for the k-th datagram of the call; nullptr: not validated.
  const Validated* validated(std::size_t k) const noexcept { return k < checked_ ? &validated_[k] : nullptr; }

 private:
  // Largest train of UDP_GRO. The stride is no power of two: the first lines of all messages would share a
  // few cache sets.
  static constexpr std::size_t message_bytes = 65536, stride = message_bytes + 33 * 64;

  static constexpr std::size_t most_segments = 128;  // of a train (Linux: UDP_MAX_SEGMENTS)
  // Fragments that validation lists, per message; the card's thread follows those of further datagrams.
  static constexpr std::size_t most_listed = 2 * wire::mgp::max_fragments;

  // Result of a message for the card's thread. The kernel's structures stay in the cache of the reading
  // thread.
  struct Received {
    std::uint32_t bytes = 0;
    os::ReceiveInfo info;
  };

  static constexpr std::size_t fetched_bytes = 1024;  // the hardware prefetcher continues from there

  // Separate cache lines: constants, results that the card's thread reads, and state of the reading thread.
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<Validated[]> validated_;
  std::vector<std::uint32_t> listed_;  // fragments, of validated_
  std::size_t room_, room_checked_ = 0;
  alignas(64) std::size_t socket_ = 0, requested_ = 0, got_ = 0, checked_ = 0;
  Nanoseconds before_ = 0;
  bool trains_ = false, copied_ = false;
  alignas(64) std::array<Received, most> received_{};
  alignas(64) std::size_t prepared_ = 0;
  std::array<mmsghdr, most> message_{};
  std::array<iovec, most> vector_{};
  std::array<std::array<std::byte, os::receive_control_bytes>, most> control_{};
};

using SocketReader = BatchReader<SocketBatch>;

}  // namespace nanet::card
