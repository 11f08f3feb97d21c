// SPDX-License-Identifier: Apache-2.0
// Reads a card's sockets, in the card's thread or in threads of their own, which then never sleep, validate
// what one recvmmsg has brought, and hand it over.
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

#include "nanet/card/udp.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// What one call brought from one socket.
class alignas(64) SocketBatch {
 public:
  static constexpr std::size_t most = 32;  // messages
  // room: messages, at most `most`.
  explicit SocketBatch(std::size_t room = most);
  // asked: at most the room there is. False: nothing came.
  bool read(int fd, std::size_t socket, std::size_t asked) noexcept;

  std::size_t socket() const noexcept { return socket_; }
  std::size_t messages() const noexcept { return got_; }
  // Everything that arrived before this has been read, provided the call brought less than was asked for.
  Nanoseconds before() const noexcept { return before_; }
  bool emptied() const noexcept { return got_ < asked_; }
  bool trains() const noexcept { return trains_; }
  // Asks for what the thread that read has written, all at once: one look after the other is a miss each.
  void fetch() const noexcept {
    __builtin_prefetch(&got_);
    __builtin_prefetch(received_.data());
    __builtin_prefetch(checked_.get());
    for (std::size_t i = 0; i < fetched_bytes; i += 64) __builtin_prefetch(bytes_.get() + i);
  }
  // Takes the lines of the first message back from whoever has read them last: once per use, before read().
  void fetch_to_write() noexcept {
    for (std::size_t i = 0; i < fetched_bytes; i += 64) __builtin_prefetch(bytes_.get() + i, 1);
  }
  std::span<const std::byte> bytes(std::size_t i) const noexcept {
    return {bytes_.get() + i * stride, received_[i].bytes};
  }
  const ReceiveInfo& info(std::size_t i) const noexcept { return received_[i].info; }
  // f(bytes) for each datagram of message i, in order. An empty one is a datagram too.
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
  // Validates the datagrams, as many as there is room for; room is made once, before.
  void make_room_to_validate() {
    room_checked_ = room_ * most_segments;
    checked_ = std::make_unique<wire::mgp::Checked[]>(room_checked_);
  }
  void validate(const wire::mgp::Rules& rules) noexcept;
  // What was found of the k-th datagram of the call; nullptr: it was not looked at.
  const wire::mgp::Checked* checked(std::size_t k) const noexcept {
    return k < validated_ ? &checked_[k] : nullptr;
  }

 private:
  // The largest train that UDP_GRO hands over; apart by no power of two, or the first lines of all messages
  // would share a few sets of the cache.
  static constexpr std::size_t message_bytes = 65536, stride = message_bytes + 33 * 64;

  static constexpr std::size_t most_segments = 64;  // of a train

  // What a message is to whoever takes it; the kernel's own words stay in the cache of the thread that reads.
  struct Received {
    std::uint32_t bytes = 0;
    ReceiveInfo info;
  };

  static constexpr std::size_t fetched_bytes = 1024;  // the processor goes on by itself

  // Never changed, what the taker reads of each call, and what only the reader does: apart.
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<wire::mgp::Checked[]> checked_;
  std::size_t room_, room_checked_ = 0;
  alignas(64) std::size_t socket_ = 0, asked_ = 0, got_ = 0, validated_ = 0;
  Nanoseconds before_ = 0;
  bool trains_ = false;
  alignas(64) std::array<Received, most> received_{};
  alignas(64) std::size_t prepared_ = 0;
  std::array<mmsghdr, most> message_{};
  std::array<iovec, most> vector_{};
  std::array<std::array<std::byte, receive_control_bytes>, most> control_{};
};

class SocketReader {
 public:
  // fds outlive it. threads: of its own, among which the sockets are dealt; they validate by `rules`. 0: the
  // caller's thread reads. cpus: their cores, in order; what is missing is not pinned. Throws
  // std::system_error (no such core).
  explicit SocketReader(std::vector<int> fds, std::size_t threads = 0, std::span<const int> cpus = {},
                        const wire::mgp::Rules& rules = {});
  ~SocketReader();

  // One round: what has been read from each socket since the last, f(batch) for each call's worth; true if
  // there was anything. Afterwards everything that arrived before read_up_to(socket) has been handed over.
  template <class F>
  bool round(const F& f) noexcept {
    return threaded() ? hand_over(f) : read_all(f);
  }
  Nanoseconds read_up_to(std::size_t socket) const noexcept { return read_up_to_[socket]; }
  bool threaded() const noexcept { return !lanes_.empty(); }

 private:
  static constexpr std::size_t trains_at_once = 4;  // what is read is worked on while it is in the cache
  // Of a lane: little at a time, so that one thread places while the other reads on.
  static constexpr std::size_t ring_entries = 16, handed_at_once = 8, trains_handed_at_once = 1;
  static constexpr Nanoseconds tell_every =
      2'000;  // that a socket is empty: each word told costs both a miss

  // A thread, and the ring through which it hands over.
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
      if (own_.read(fds_[s], s, asked_[s])) {
        any = true;
        deliver(own_, f);
        asked_[s] = own_.trains() ? trains_at_once : SocketBatch::most;
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
      // Stamps first: what was read before them is in the ring by then.
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
    // Not emptied: what came before the last stamp has been read.
    read_up_to_[batch.socket()] = batch.emptied() || batch.before() < last ? batch.before() : last;
  }
  void run(Lane& lane) noexcept;

  std::vector<int> fds_;
  wire::mgp::Rules rules_;
  std::vector<std::size_t> asked_;  // per socket: messages to ask for, by the caller's thread
  std::vector<Nanoseconds> read_up_to_, stamp_;
  struct alignas(64) Empty {
    std::atomic<Nanoseconds> at{0};
  };
  std::vector<Empty> empty_;  // per socket: found empty then, by its thread
  SocketBatch own_;
  std::atomic<bool> ending_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace nanet::card
