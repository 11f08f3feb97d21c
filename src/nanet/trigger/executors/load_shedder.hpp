// SPDX-License-Identifier: Apache-2.0
// Load shedding: frames that an executor skips because their answers would be late. A skipped frame returns
// its buffer without a descriptor; the card answers it header-only.
//
// Overload keeps the oldest frames waiting until their deadline. The executor skips those that cannot be
// answered in time, so that all its work goes into frames that can. Plain functions for CPU and GPU; the time
// is an argument.
#pragma once

#include <cstdint>

#include "nanet/trigger/account/trace.hpp"
#include "nanet/units.hpp"

namespace nanet::trigger {

// A frame at the head of the event queue. Times of the host's clock, in ns.
struct WaitingFrame {
  std::uint64_t n;
  Nanoseconds closed, now;
};

struct LoadShedder {
  Nanoseconds deadline = 0;  // after the frame's first packet; <= 0: none, no frame is skipped

  // Margin between a post and the deadline, for the sender.
  NANET_HD static constexpr Nanoseconds margin(Nanoseconds deadline) { return deadline / 16; }
  // A frame that has waited less is never skipped: with a wrong estimate of the service time no frame would
  // be processed, and the estimate would stay wrong.
  NANET_HD static constexpr Nanoseconds fresh(Nanoseconds deadline) { return deadline / 8; }

  // Whether to skip the frame. service: expected time from reading the event to posting the answer.
  // keep_from: state of the queue, first number to process where the card's clock is not the host's.
  NANET_HD bool skips(const WaitingFrame& frame, const FrameProgress& progress, Nanoseconds service,
                      std::uint64_t& keep_from) const {
    if (deadline <= 0) return false;
    const bool answered = frame.n < progress.passed;
    if (progress.lag < 0) {  // no clock: after a late frame the newer half is kept
      if (answered && progress.newest > progress.passed)
        keep_from = progress.passed + (progress.newest - progress.passed) / 2;
      return answered || frame.n < keep_from;
    }
    if (answered) return true;
    const Nanoseconds waited = frame.now - frame.closed;
    return waited >= fresh(deadline) && progress.lag + waited + service + margin(deadline) > deadline;
  }
};

// Expected service time of one executor thread or block: twice the running mean over about eight frames.
class ServiceTime {
 public:
  NANET_HD void add(Nanoseconds took) { sum_ += took - sum_ / 8; }
  NANET_HD Nanoseconds expected() const { return sum_ / 4; }

 private:
  Nanoseconds sum_ = 0;
};

}  // namespace nanet::trigger
