// SPDX-License-Identifier: Apache-2.0
// Level 1: builds the selected events from the boards' MEPs and reconstructs them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/build/frame_builder.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mep.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {

struct Level1Options {
  wire::Endpoint listen{0x7F000001, 58916};
  std::string algorithm{rich::default_algorithm};
  rich::Parameters parameters;
  std::shared_ptr<const rich::Geometry> detector = rich::na62();
  wire::mgp::Rules rules;      // of the boards' data; an event is complete with an answer of each board
  std::size_t open = 1 << 14;  // events that wait for answers, a power of two
  std::int32_t window_lsb = default_window_lsb;
  int buffer_bytes = 32 << 20;
};

// Event builder and reconstruction, independent of the socket.
class Level1Builder {
 public:
  // Throws std::invalid_argument (options).
  explicit Level1Builder(const Level1Options& options);

  // One packet of a board; any bytes are safe.
  void packet(std::span<const std::byte> packet) noexcept;
  // Gives up the events that are open.
  void finish() noexcept;

  struct Counts {
    std::uint64_t packets = 0, bytes = 0;
    std::uint64_t complete = 0;    // answered by every board once
    std::uint64_t incomplete = 0;  // given up with boards missing
    std::uint64_t twice = 0;       // answers of a board that had answered
    std::uint64_t wrong_time = 0;  // answers with another timestamp than the event's first one
    std::uint64_t stale = 0;       // answers of an event that was given up
    std::uint64_t bad_data = 0;    // answers whose data are no MGP events
    std::uint64_t empty = 0;       // complete events without a fragment in the trigger's period
    std::uint64_t events = 0;      // reconstructed; two of one period count twice
    std::uint64_t rings = 0;
    std::array<std::uint64_t, rich::max_rings + 1> by_rings{};
    std::array<std::uint64_t, wire::mep::refusal_count> refused{};
  };
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Slot {
    std::uint32_t number = 0;
    Timestamp timestamp = 0;
    std::uint8_t answered = 0;
    bool open = false;
    std::array<std::uint16_t, max_boards> bytes{};
    std::vector<std::byte> data;  // one board behind the other, in order of arrival
    std::array<std::uint32_t, max_boards> from{};
  };
  void close(Slot& slot) noexcept;
  void reconstruct(const Slot& slot) noexcept;
  std::size_t copy(const Slot& slot, BoardId board, std::byte* out) noexcept;

  Level1Options options_;
  unsigned boards_;
  wire::mgp::Rules rules_;
  std::vector<Slot> slots_;
  std::vector<wire::mep::Event> events_;
  std::vector<std::byte> payloads_;  // an MGP packet per board
  FrameBuilder builder_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  Counts counts_;
};

class Level1 {
 public:
  // Opens the socket. Throws std::system_error or std::invalid_argument with a full sentence.
  explicit Level1(const Level1Options& options);
  ~Level1();

  void start();
  // Ends once the socket is empty.
  void stop();
  Level1Builder::Counts counts() const;
  wire::Endpoint endpoint() const noexcept { return endpoint_; }

 private:
  void run();
  bool round();

  os::Fd socket_;
  wire::Endpoint endpoint_;
  mutable std::mutex mutex_;  // guards builder_
  Level1Builder builder_;
  std::vector<std::byte> bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace nanet::trigger
