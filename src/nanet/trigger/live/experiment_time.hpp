// SPDX-License-Identifier: Apache-2.0
// Experiment's time in the trigger: a time base from sync datagrams, and the deadline that it sets to an
// answer, a margin before the final triggers of its frame are due.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nanet/card/answer_deadline.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/datagram_batch.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/stats/counter.hpp"
#include "nanet/ttc/deadline.hpp"
#include "nanet/ttc/time_base.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::trigger {

// Source of the time base: least delay of the datagrams, or their TAI.
enum class TimeSource : std::uint8_t { udp, ptp };

struct ExperimentTimeOptions {
  wire::Endpoint listen;  // takes sync datagrams; port 0: none
  TimeSource source = TimeSource::udp;
  double speed = 1;  // of the experiment's clock
};

// All calls in the card's thread, but counts().
class ExperimentTime final : public card::AnswerLimit {
 public:
  // latency: L in periods. Throws std::system_error (socket).
  ExperimentTime(const ExperimentTimeOptions& options, Timestamp latency);

  // Frames n >= base belong to burst `number`.
  void burst_began(std::uint32_t number, std::uint64_t base) noexcept;
  // Takes the datagrams that wait in the socket.
  void poll(Nanoseconds now) noexcept;
  void receive(std::span<const std::byte> datagram, Nanoseconds arrived) noexcept;
  Nanoseconds latest(std::uint64_t n) const noexcept override;

  wire::Endpoint listening() const;
  struct Counters {
    stats::Counter syncs;    // of a burst, well-formed
    stats::Counter refused;  // datagrams that are none
  };
  const Counters& counts() const noexcept { return counts_; }

 private:
  struct Burst {
    std::uint64_t base = ~std::uint64_t{0};
    std::uint8_t number = 0;
  };

  Timestamp due_;  // after a frame's first period
  double period_ns_;
  TimeSource source_;
  os::Fd socket_;
  os::DatagramBatch batch_;
  os::ClockOffset clock_;
  ttc::TimeBase time_, before_;  // of the newest burst, of the one before
  bool known_ = false, before_known_ = false;
  ttc::DatagramSource by_delay_{time_};
  ttc::TaiSource by_tai_;
  Nanoseconds tai_offset_ = 0, tai_read_ = 0;
  std::array<Burst, 2> bursts_{};  // the newest first
  Counters counts_;
};

}  // namespace nanet::trigger
