// SPDX-License-Identifier: Apache-2.0
// AF_XDP socket of one queue of an interface: packet memory (UMEM), its four rings, and both directions.
// Linux system calls only. Zero copy where the driver has it, else copy mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nanet/card/raw/frame_source.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::card::xdp {

struct SocketOptions {
  unsigned interface = 0;
  std::string name;  // of the interface, for messages
  unsigned queue = 0;
  std::uint32_t receive_slots = 4096;  // a power of two
  std::uint32_t send_slots = 256;      // a power of two
  int busy_poll_us = 0;                // os::set_busy_poll()
};

class XdpSocket final : public FrameSource {
 public:
  // Throws std::system_error with the remedy (no permission, queue in use, limit of locked memory).
  explicit XdpSocket(const SocketOptions& options);
  ~XdpSocket() override;
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  std::size_t take(std::span<Arrival> out, std::vector<std::byte>& joined) noexcept override;
  void give_back(std::size_t frames) noexcept override;
  int wait_fd() const noexcept override { return fd_.get(); }
  std::uint64_t drops() noexcept override;
  double backlog() const noexcept override;
  bool zero_copy() const noexcept { return zero_copy_; }

  // Size of a slot of the packet memory; the kernel keeps 256 bytes of headroom in those for reception.
  static constexpr std::size_t slot_bytes = 2048;
  // Memory for the next frame to send, slot_bytes long; nullptr: all are under way. Used by one thread, which
  // may differ from that of take().
  std::byte* send_slot() noexcept;
  // Queues the frame in the slot; kick() passes all queued frames to the driver, and again those that it has
  // not taken before. Returns 0 or an error number.
  void queue_frame(std::size_t bytes) noexcept;
  int kick() noexcept;

 private:
  // One ring shared with the kernel. The kernel's index is read with acquire, ours is published with release.
  struct Ring {
    std::uint32_t *producer = nullptr, *consumer = nullptr, *flags = nullptr;
    void* entries = nullptr;
    std::uint32_t mask = 0, own = 0;  // own: our index
    void* mapped = nullptr;
    std::size_t bytes = 0;
  };
  void map_ring(Ring& ring, std::uint64_t offset, const void* layout, std::uint32_t entries,
                std::size_t entry_bytes);
  void open(bool zero_copy);
  void close() noexcept;

  SocketOptions options_;
  os::Fd fd_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  Ring fill_, completion_, receive_, send_;
  bool zero_copy_ = false, fragments_ = false;
  std::vector<std::uint64_t> taken_;  // ring: slots of the frames taken
  std::uint64_t taken_from_ = 0, taken_to_ = 0;
  std::vector<std::uint64_t> free_;  // send slots
  bool queued_ = false;              // frames wait for kick()
};

}  // namespace nanet::card::xdp
