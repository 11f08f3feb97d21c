// SPDX-License-Identifier: Apache-2.0
// Events for whoever watches: a small ring in memory shared with another process, filled by the workers only
// as far as that process has asked. Nobody waits for anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/rich/ring.hpp"
#include "nanet/trigger/build.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

// One event with the times of its hits. Plain bytes: it crosses processes of one build.
struct ShownEvent {
  static constexpr std::int16_t unknown = INT16_MIN;
  std::uint64_t serial = 0;  // 1, 2, ... in order of giving; set by the tap
  std::uint64_t n = 0;       // running number of its frame
  Lsb time = 0;              // since SOB
  Frame frame = 0;
  std::uint16_t primitive = 0;  // 0: none
  std::uint16_t hits = 0;
  std::uint32_t rings = 0;
  std::array<rich::Ring, rich::max_rings> ring{};
  std::array<PmId, max_event_hits> pm{};            // ascending
  std::array<std::int16_t, max_event_hits> late{};  // LSB after the event's time, or unknown

  // Fills in `late` from the payloads the event was built of. opened: time of the event's first fragment, in
  // LSB of the frame; of two fragments in the window that name the same PM the first one counts. Safe on any
  // bytes.
  void set_times(std::span<const Segment> payloads, std::uint16_t opened, std::int32_t window_lsb) noexcept;
};
static_assert(sizeof(ShownEvent) % 8 == 0 && std::is_trivially_copyable_v<ShownEvent>);

// The writers' end and the reader's end alike: each maps the same memory.
class EventTap {
 public:
  static constexpr std::uint32_t slots = 64;
  // fd: of a file or memfd of bytes() zero bytes at first; it is mapped, and may be closed afterwards. Throws
  // std::system_error.
  explicit EventTap(int fd);
  ~EventTap();
  EventTap(const EventTap&) = delete;
  EventTap& operator=(const EventTap&) = delete;
  static std::size_t bytes() noexcept;

  // Workers, any number: whether an event is asked for, and giving one. Wait-free; whatever the reader writes
  // into the memory costs at most the giving.
  bool wanted() const noexcept;
  void give(const ShownEvent& event) noexcept;

  // The one reader: asks for that many events from now on, at most half of the slots.
  void ask(std::uint32_t events) noexcept;
  // The events given since the last take, oldest first; those that were overwritten meanwhile are left out.
  std::vector<ShownEvent> take();

 private:
  struct Memory;
  Memory* memory_;
  std::uint64_t taken_ = 0;
};

}  // namespace nanet::trigger
