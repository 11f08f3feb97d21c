// SPDX-License-Identifier: Apache-2.0
#include "nanet/trigger/live/experiment_time.hpp"

#include <limits>

#include "nanet/os/socket.hpp"

namespace nanet::trigger {
namespace {

constexpr unsigned batch_datagrams = 16;
constexpr Nanoseconds read_tai_every = 100'000'000;

}  // namespace

ExperimentTime::ExperimentTime(const ExperimentTimeOptions& options, Timestamp latency)
    : due_(ttc::answer_deadline(latency)),
      period_ns_(period_ns / options.speed),
      source_(options.source),
      socket_(os::open_udp_receiver(options.listen, {.buffer_bytes = 1 << 20})),
      batch_(batch_datagrams, 2 * ttc::sync_bytes),
      time_(period_ns_),
      before_(period_ns_),
      by_tai_(time_, period_ns_) {}

wire::Endpoint ExperimentTime::listening() const {
  return os::local_endpoint(socket_.get());
}

void ExperimentTime::burst_began(std::uint32_t number, std::uint64_t base) noexcept {
  bursts_[1] = bursts_[0];
  bursts_[0] = {base, static_cast<std::uint8_t>(number)};
}

void ExperimentTime::poll(Nanoseconds now) noexcept {
  do {
    const unsigned n = batch_.read(socket_.get());
    for (unsigned i = 0; i < n; ++i) {
      const os::ReceiveInfo info = batch_.info(i);
      receive(batch_.bytes(i), info.realtime_ns != 0 ? clock_.arrival(info.realtime_ns, now) : now);
    }
  } while (batch_.full());
}

void ExperimentTime::receive(std::span<const std::byte> datagram, Nanoseconds arrived) noexcept {
  ttc::Sync sync;
  if (ttc::decode(datagram, sync) != ttc::SyncRefusal::none) {
    ++counts_.refused;
    return;
  }
  if (!sync.in_burst) return;
  ++counts_.syncs;
  if (known_ && sync.burst != time_.burst()) {
    before_ = time_;
    before_known_ = true;
  }
  known_ = true;
  if (source_ == TimeSource::udp) {
    by_delay_.receive(datagram, arrived);
    return;
  }
  if (tai_read_ == 0 || arrived - tai_read_ > read_tai_every) {
    tai_offset_ = ttc::tai_offset();
    tai_read_ = arrived;
  }
  by_tai_.receive(sync, tai_offset_);
}

Nanoseconds ExperimentTime::latest(std::uint64_t n) const noexcept {
  constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();
  for (const Burst& burst : bursts_) {
    if (n < burst.base) continue;
    const bool newest = known_ && time_.burst() == burst.number;
    const bool older = before_known_ && before_.burst() == burst.number;
    if (!newest && !older) return never;
    const ttc::TimeBase& time = newest ? time_ : before_;
    const std::uint64_t period = (n - burst.base) * periods_per_frame + due_;
    if (!time.timed() || period > std::numeric_limits<Timestamp>::max()) return never;
    return time.local(static_cast<Timestamp>(period));
  }
  return never;
}

}  // namespace nanet::trigger
