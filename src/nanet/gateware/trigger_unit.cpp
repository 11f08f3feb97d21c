// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/trigger_unit.hpp"

#include <stdexcept>
#include <string>

#include "nanet/ttc/deadline.hpp"

namespace nanet::gateware {
namespace {

namespace at {
constexpr std::size_t base = 0x1000;
constexpr std::size_t control = base, status = base + 0x004, latency = base + 0x008, min_ticks = base + 0x00C,
                      offset = base + 0x010, orbit = base + 0x014, log2_places = base + 0x01C,
                      close_ticks = base + 0x020, answer_ticks = base + 0x024, counters = base + 0x040,
                      masks = base + 0x100, slack = base + 0x800;
}  // namespace at
constexpr unsigned log2_places = 15;
constexpr std::uint32_t enabled = 1, choked = 2;
constexpr Timestamp most_ticks = 15, most_close_ticks = 65'535;

}  // namespace

void TriggerUnit::check(const card::CardTriggerOptions& o) {
  constexpr Timestamp least = ahead + 2, most = (1u << log2_places) - 2;
  if (o.latency < least || o.latency > most)
    throw std::invalid_argument("final.latency_us = " + std::to_string(o.latency * period_ns * 1e-3) +
                                ": the gateware card keeps decisions for " + std::to_string(most) +
                                " periods; give " + std::to_string(least * period_ns * 1e-3) + " to " +
                                std::to_string(most * period_ns * 1e-3) + " us");
  if (o.min_ticks > most_ticks)
    throw std::invalid_argument("final.min_ticks = " + std::to_string(o.min_ticks) +
                                ": the gateware card takes at most " + std::to_string(most_ticks));
  if (o.close_ticks > most_close_ticks)
    throw std::invalid_argument("final.close_ticks = " + std::to_string(o.close_ticks) +
                                ": the gateware card takes at most " + std::to_string(most_close_ticks));
  for (const ttc::TriggerMask& mask : o.masks)
    if (mask.kind >= first_special)
      throw std::invalid_argument(
          "final.masks: type " + std::to_string(mask.kind) +
          ": the gateware card uses types from 32 for SOB, EOB and choke; give 0 to 31");
}

void TriggerUnit::open(const card::CardTriggerOptions& o) {
  if (driver_.read(at::log2_places) != log2_places)
    throw std::runtime_error("this card was built without final trigger");
  driver_.write(at::control, 0);
  driver_.write(at::latency, o.latency);
  driver_.write(at::min_ticks, o.min_ticks);
  driver_.write(at::offset, sob_offset);
  driver_.write(at::orbit, 0);
  driver_.write(at::close_ticks, o.close_ticks);
  driver_.write(at::answer_ticks, ttc::answer_deadline(o.latency));
  for (std::size_t i = 0; i < o.masks.size(); ++i) {
    const ttc::TriggerMask& mask = o.masks[i];
    driver_.write(at::masks + 16 * i, std::uint32_t{mask.value} << 16 | mask.care);
    driver_.write(at::masks + 16 * i + 4, mask.kind);
    driver_.write(at::masks + 16 * i + 8, mask.downscale);
  }
  driver_.write(at::control, enabled);
}

void TriggerUnit::choke(bool on) {
  driver_.write(at::control, on ? enabled | choked : enabled);
}

bool TriggerUnit::ready() {
  constexpr std::uint32_t locked = 1, ready = 8;
  return (driver_.read(at::status) & (locked | ready)) == (locked | ready);
}

void TriggerUnit::read(card::CardTriggerCounts& c) {
  std::size_t at = at::counters;
  const auto next = [&] {
    const std::uint32_t value = driver_.read(at);
    at += 4;
    return value;
  };
  for (stats::Counter* counter :
       {&c.decisions, &c.sent, &c.joined, &c.late, &c.early, &c.dead, &c.choked, &c.untimed, &c.flushed})
    counter->set(next());
  next();  // SOB, EOB, choke
  for (stats::Counter* counter : {&c.primitives, &c.overflow, &c.missed}) counter->set(next());
  next();  // SOBs
  next();  // EOBs
  std::uint64_t lost = 0;
  for (unsigned i = 0; i < 4; ++i) lost += next();  // SOB in a burst, bunch errors, slips, losses of lock
  c.time_lost.set(lost);
  for (unsigned i = 0; i < 3; ++i) next();  // frames corrected, refused, with a bad stop bit
  c.out_of_time.set(next());
  c.burst_mismatch.set(next());
  for (unsigned bin = 0; bin < c.slack.size(); ++bin) c.slack[bin].set(driver_.read(at::slack + 4 * bin));
}

}  // namespace nanet::gateware
