// SPDX-License-Identifier: Apache-2.0
// Packet sender of one board: gathers datagrams and sends them in few system calls. Neighbours of equal size
// leave as one train (UDP_SEGMENT) if the kernel supports it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::readout {

// refused: an earlier datagram had no listener; the current one is still sent. The others count datagrams
// rejected by the kernel.
enum class SendError : std::uint8_t { refused, would_block, no_buffers, too_long, unreachable, other, none };
inline constexpr std::size_t send_error_count = static_cast<std::size_t>(SendError::none);
std::string_view name(SendError error);

class alignas(64) PacketSender {  // aligned: each thread has its own, in adjacent memory
 public:
  static constexpr unsigned max_packets = 1024;     // maximum gathered before a flush
  static constexpr unsigned max_segments = 64;      // per train: UDP_MAX_SEGMENTS of older kernels
  static constexpr std::size_t max_train = 65'000;  // bytes per train: limit of an IPv4 datagram

  // Throws std::system_error (see os::open_udp_sender). `segmentation`: use trains if the kernel supports
  // them.
  PacketSender(const wire::Endpoint& destination, bool segmentation);

  // Gathers one datagram; `data` must not change until flush(). Flushes automatically when full.
  void push(const std::byte* data, std::uint32_t size) noexcept;
  void flush() noexcept;

  bool segmenting() const noexcept { return segmentation_; }
  std::uint64_t packets() const noexcept { return packets_; }  // passed to the kernel
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t messages() const noexcept { return messages_sent_; }  // trains and single datagrams
  std::uint64_t errors(SendError error) const noexcept { return errors_[static_cast<std::size_t>(error)]; }
  // Flushes that followed another one, and those among them that found the previous one refused. Both are
  // equal while no program listens. (Within a flush the kernel clears some refusals unseen.)
  std::uint64_t later_flushes() const noexcept { return later_flushes_; }
  std::uint64_t refused_flushes() const noexcept { return refused_flushes_; }

 private:
  struct Train {
    std::uint32_t first_vector = 0, vectors = 0;
    std::uint32_t segment = 0;  // size of each datagram except a shorter last one
    std::uint32_t bytes = 0, datagrams = 0;
    bool closed = false;  // closed by a shorter datagram
  };
  struct alignas(cmsghdr) Control {
    std::byte room[CMSG_SPACE(sizeof(std::uint16_t))];
  };

  bool append(const std::byte* data, std::uint32_t size) noexcept;
  void prepare(unsigned i) noexcept;
  void send_one_by_one(const Train& train) noexcept;
  // Handles the errno of a failed send of `datagrams` datagrams. Returns true to retry, false to drop them.
  bool retry(int error, unsigned datagrams, unsigned attempt) noexcept;
  void count(const Train& train) noexcept;

  os::Fd socket_;
  bool segmentation_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> vectors_;
  std::vector<Control> control_;
  std::vector<Train> trains_;
  unsigned used_trains_ = 0, used_vectors_ = 0, gathered_ = 0;
  stats::Counter packets_, bytes_, messages_sent_, later_flushes_, refused_flushes_;
  std::array<stats::Counter, send_error_count> errors_;
};

}  // namespace nanet::readout
