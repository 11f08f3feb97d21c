// SPDX-License-Identifier: Apache-2.0
// Frame source: one receive queue of Ethernet frames below the kernel's sockets, and the ports that a card
// opens on such queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
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
  virtual ~FrameSource() = default;
  // Takes the next frames, at most out.size(); returns their number. They are valid until give_back().
  virtual std::size_t take(std::span<Arrival> out) noexcept = 0;
  // Returns the memory of all frames taken to the queue.
  virtual void give_back() noexcept = 0;
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
};
// Opens a port. `counters` is read at each error and may be set later.
using OpenRawPort = std::function<RawPort(const ClopOptions& options, Counters* const& counters)>;

}  // namespace nanet::card
