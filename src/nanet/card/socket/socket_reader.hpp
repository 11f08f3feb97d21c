// SPDX-License-Identifier: Apache-2.0
// Socket reader: reads a card's sockets in the card's thread or in separate threads, which never sleep.
// Reading threads validate each batch and pass it to the card's thread through a ring.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "nanet/os/socket.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// Messages of one recvmmsg call on one socket.
class alignas(64) SocketBatch {
 public:
  static constexpr std::size_t most = 32;  // messages
  // room: messages, at most `most`.
  explicit SocketBatch(std::size_t room = most);
  // requested: messages to read, at most the room. Returns false if no message was available.
  bool read(int fd, std::size_t socket, std::size_t requested) noexcept;

  std::size_t socket() const noexcept { return socket_; }
  std::size_t messages() const noexcept { return got_; }
  // Everything that arrived before this time has been read, provided the call returned fewer messages than
  // requested.
  Nanoseconds before() const noexcept { return before_; }
  bool emptied() const noexcept { return got_ < requested_; }
  bool trains() const noexcept { return trains_; }
  // Prefetches all cache lines written by the reading thread; without it each access would miss.
  void fetch() const noexcept {
    __builtin_prefetch(&got_);
    __builtin_prefetch(received_.data());
    __builtin_prefetch(checked_.get());
    for (std::size_t i = 0; i < fetched_bytes; i += 64) __builtin_prefetch(bytes_.get() + i);
  }
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
    checked_ = std::make_unique<wire::mgp::Checked[]>(room_checked_);
  }
  void validate(const wire::mgp::Rules& rules) noexcept;
  // Result for the k-th datagram of the call; nullptr: not validated.
  const wire::mgp::Checked* checked(std::size_t k) const noexcept {
    return k < validated_ ? &checked_[k] : nullptr;
  }

 private:
  // Largest train of UDP_GRO. The stride is no power of two: the first lines of all messages would share a
  // few cache sets.
  static constexpr std::size_t message_bytes = 65536, stride = message_bytes + 33 * 64;

  static constexpr std::size_t most_segments = 64;  // of a train

  // Result of a message for the card's thread. The kernel's structures stay in the cache of the reading
  // thread.
  struct Received {
    std::uint32_t bytes = 0;
    os::ReceiveInfo info;
  };

  static constexpr std::size_t fetched_bytes = 1024;  // the hardware prefetcher continues from there

  // Separate cache lines: constants, results that the card's thread reads, and state of the reading thread.
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<wire::mgp::Checked[]> checked_;
  std::size_t room_, room_checked_ = 0;
  alignas(64) std::size_t socket_ = 0, requested_ = 0, got_ = 0, validated_ = 0;
  Nanoseconds before_ = 0;
  bool trains_ = false;
  alignas(64) std::array<Received, most> received_{};
  alignas(64) std::size_t prepared_ = 0;
  std::array<mmsghdr, most> message_{};
  std::array<iovec, most> vector_{};
  std::array<std::array<std::byte, os::receive_control_bytes>, most> control_{};
};

class SocketReader {
 public:
  // fds outlive the reader. threads: number of reading threads, which share the sockets and validate by
  // `rules`. 0: the caller's thread reads. cpus: their cores, in order; threads beyond the list are not
  // pinned. Throws std::system_error (no such core).
  explicit SocketReader(std::vector<int> fds, std::size_t threads = 0, std::span<const int> cpus = {},
                        const wire::mgp::Rules& rules = {});
  ~SocketReader();

  // One round: calls f(batch) for each batch read since the last round; true if there was any. Everything
  // that arrived before read_up_to(socket) has then been delivered.
  template <class F>
  bool round(const F& f) noexcept {
    return threaded() ? hand_over(f) : read_all(f);
  }
  Nanoseconds read_up_to(std::size_t socket) const noexcept { return read_up_to_[socket]; }
  bool threaded() const noexcept { return !lanes_.empty(); }

 private:
  static constexpr std::size_t trains_at_once = 4;  // processed while still in the cache
  // Small batches of a lane: one thread places packets while the other reads.
  static constexpr std::size_t ring_entries = 16, handed_at_once = 8, trains_handed_at_once = 1;
  // Interval of reports that a socket is empty: each report costs both threads a cache miss.
  static constexpr Nanoseconds report_every = 2'000;

  // A reading thread and its ring of batches.
  struct Lane {
    Lane();
    std::vector<SocketBatch> ring;
    std::vector<std::size_t> sockets;
    alignas(64) std::atomic<std::uint64_t> filled{0};
    alignas(64) std::atomic<std::uint64_t> emptied{0};
    std::jthread thread;
  };

  template <class F>
  bool read_all(const F& f) noexcept {
    bool any = false;
    for (std::size_t s = 0; s < fds_.size(); ++s) {
      if (own_.read(fds_[s], s, requested_[s])) {
        any = true;
        deliver(own_, f);
        requested_[s] = own_.trains() ? trains_at_once : SocketBatch::most;
      } else {
        read_up_to_[s] = own_.before();
      }
    }
    return any;
  }
  template <class F>
  bool hand_over(const F& f) noexcept {
    bool any = false;
    for (const auto& lane : lanes_) {
      // Time stamps first: batches read before them are then in the ring.
      for (const std::size_t s : lane->sockets) stamp_[s] = empty_[s].at.load(std::memory_order_acquire);
      const std::uint64_t there = lane->filled.load(std::memory_order_acquire);
      const std::uint64_t from = lane->emptied.load(std::memory_order_relaxed);
      if (from < there) lane->ring[from % ring_entries].fetch();
      for (std::uint64_t i = from; i < there; ++i) {
        if (i + 1 < there) lane->ring[(i + 1) % ring_entries].fetch();
        deliver(lane->ring[i % ring_entries], f);
        lane->emptied.store(i + 1, std::memory_order_release);
      }
      for (const std::size_t s : lane->sockets)
        if (stamp_[s] > read_up_to_[s]) read_up_to_[s] = stamp_[s];
      any |= there != from;
    }
    return any;
  }
  template <class F>
  void deliver(const SocketBatch& batch, const F& f) noexcept {
    const Nanoseconds last = f(batch);
    // Not emptied: everything before the last time stamp has been read.
    read_up_to_[batch.socket()] = batch.emptied() || batch.before() < last ? batch.before() : last;
  }
  void run(Lane& lane) noexcept;

  std::vector<int> fds_;
  wire::mgp::Rules rules_;
  std::vector<std::size_t> requested_;  // per socket: messages to request in the caller's thread
  std::vector<Nanoseconds> read_up_to_, stamp_;
  struct alignas(64) Empty {
    std::atomic<Nanoseconds> at{0};
  };
  std::vector<Empty> empty_;  // per socket: time at which its thread found it empty
  SocketBatch own_;
  std::atomic<bool> ending_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace nanet::card
