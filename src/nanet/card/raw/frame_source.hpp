// SPDX-License-Identifier: Apache-2.0
// Frame source: one receive queue of Ethernet frames below the kernel's sockets, and the ports that a card
// opens on such queues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nanet/card/stream.hpp"
#include "nanet/card/transmit.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card {

// A received Ethernet frame.
struct Arrival {
  std::span<const std::byte> frame;
  Nanoseconds stamp = 0;  // CLOCK_MONOTONIC; 0: not stamped
};

class FrameSource {
 public:
  static constexpr std::size_t longest_frame = 65536 + 64;

  virtual ~FrameSource() = default;
  // Takes the next frames, at most out.size(); returns their number. They are valid until give_back() and
  // while `joined` is unchanged, which receives contiguous copies of frames in several slots within its
  // capacity (at least longest_frame).
  virtual std::size_t take(std::span<Arrival> out, std::vector<std::byte>& joined) noexcept = 0;
  // Returns the memory of the oldest `frames` frames taken to the queue. Called by the thread of take().
  virtual void give_back(std::size_t frames) noexcept = 0;
  // File descriptor that poll() can wait on; -1: none.
  virtual int wait_fd() const noexcept = 0;
  // Frames dropped since the queue was opened, for lack of room.
  virtual std::uint64_t drops() noexcept = 0;
  // Fill level (0 - 1) of the queue.
  virtual double backlog() const noexcept = 0;
};

// Network side of one CLOP of a raw card.
struct RawPort {
  std::vector<std::unique_ptr<FrameSource>> sources;
  std::unique_ptr<Transmit> transmit;  // destroyed before the sources
  // UDP sockets on the listening addresses: they reserve the ports and receive what bypasses the sources
  // (reassembled fragments).
  std::vector<os::Fd> sockets;
  std::vector<wire::Endpoint> local;
  // Figures of the interfaces, by name (Card::figures); may be empty.
  std::function<std::vector<std::pair<std::string, double>>()> figures;
};
// Opens a port. `counters` is read at each error and may be set later.
using OpenRawPort = std::function<RawPort(const ClopOptions& options, Counters* const& counters)>;

}  // namespace nanet::card
