// SPDX-License-Identifier: Apache-2.0
// Time of a TTC receiver: periods since SOB, bunch number, loss of time. Reference of
// gateware/rtl/ttc/ttc_time.sv.
#pragma once

#include <cstdint>

#include "nanet/ttc/code.hpp"
#include "nanet/units.hpp"

namespace nanet::ttc {

struct Now {
  bool locked = false;
  bool in_burst = false;
  bool lost = true;  // no SOB yet, or lock, a period or the bunch number was lost since
  std::uint8_t burst = 0;
  std::uint16_t bunch = 0;
  Timestamp timestamp = 0;
  bool operator==(const Now&) const = default;
};

class BurstTime {
 public:
  // offset: timestamp of the period in which an SOB is decoded. orbit: periods between bunch resets, up to
  // 4096; 0 disables the bunch check.
  BurstTime(Timestamp offset, std::uint16_t orbit) noexcept : offset_(offset), orbit_(orbit) {}

  struct Counts {
    std::uint64_t starts = 0, ends = 0, start_in_burst = 0, bunch_errors = 0;
    bool operator==(const Counts&) const = default;
  };

  // One period; command: frame of this period, or nullptr.
  void tick(const Command* command = nullptr) noexcept {
    const bool brief = command && !command->addressed;
    const bool reset = brief && (command->data & bunch_reset);
    const bool event = brief && (command->data & event_reset);
    const bool wraps = orbit_ != 0 && now_.bunch + 1 == orbit_;
    const auto next = static_cast<std::uint16_t>(wraps ? 0 : (now_.bunch + 1) & 0xFFF);
    ++now_.timestamp;
    now_.bunch = reset ? 0 : next;
    if (reset && event) {
      ++counts_.starts;
      if (now_.in_burst) ++counts_.start_in_burst;
      now_.in_burst = true;
      now_.lost = false;
      now_.timestamp = offset_;
      ++now_.burst;
    } else if (reset && orbit_ != 0 && next != 0 && !now_.lost) {
      ++counts_.bunch_errors;
      now_.lost = true;
    } else if (event) {
      ++counts_.ends;
      now_.in_burst = false;
    }
  }
  // A period was lost or gained.
  void slip() noexcept { now_.lost = true; }
  void lock(bool locked) noexcept {
    now_.locked = locked;
    if (!locked) now_.lost = true;
  }
  const Now& now() const noexcept { return now_; }
  const Counts& counts() const noexcept { return counts_; }

 private:
  Timestamp offset_;
  std::uint16_t orbit_;
  Now now_;
  Counts counts_;
};

}  // namespace nanet::ttc
