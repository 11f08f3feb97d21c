// SPDX-License-Identifier: Apache-2.0
#include "nanet/trigger/live/final_threads.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <cstring>

#include "nanet/os/affinity.hpp"

namespace nanet::trigger {
namespace {

// With an empty queue. Some frames of a nap leave in one call; the nap is a part of L.
constexpr auto nap = std::chrono::microseconds(100);

}  // namespace

FinalThreads::FinalThreads(const FinalTriggerOptions& options, const std::vector<int>& keep_off) {
  FinalTriggerOptions one = options;
  one.boards.clear();
  if (one.farm.port != 0) lines_.push_back(std::make_unique<Line>(one));
  one.farm.port = 0;
  for (const wire::Endpoint& board : options.boards) {
    one.boards = {board};
    lines_.push_back(std::make_unique<Line>(one));
  }
  for (auto& line : lines_)
    line->thread = std::jthread([this, &line = *line, keep_off] { run(line, keep_off); });
}

FinalThreads::~FinalThreads() {
  stop();
}

void FinalThreads::stop() noexcept {
  ending_.store(true, std::memory_order_release);
  for (auto& line : lines_)
    if (line->thread.joinable()) line->thread.join();
}

template <class Fill>
void FinalThreads::push(const Fill& fill) noexcept {
  for (auto& line : lines_) {
    const std::uint64_t at = line->written.load(std::memory_order_relaxed);
    if (at - line->read.load(std::memory_order_acquire) >= room) {
      ++line->full;
      continue;
    }
    fill(line->entries[at % room]);
    line->written.store(at + 1, std::memory_order_release);
  }
}

void FinalThreads::burst_began(std::uint32_t number, std::uint64_t base) noexcept {
  push([&](Entry& entry) {
    entry.n = base;
    entry.number = number;
    entry.kind = Kind::burst;
  });
}

void FinalThreads::passed_late(std::uint64_t n, Frame frame, const card::FramePeriods& periods) noexcept {
  push([&](Entry& entry) {
    entry.n = n;
    entry.number = frame;
    entry.kind = Kind::late;
    entry.periods = periods;
  });
}

void FinalThreads::sent(std::uint64_t n, std::span<const std::byte> packet) noexcept {
  if (packet.size() > wire::mtp::max_bytes) return;  // not an answer of this trigger
  push([&](Entry& entry) {
    entry.n = n;
    entry.bytes = static_cast<std::uint32_t>(packet.size());
    entry.kind = Kind::answer;
    std::memcpy(entry.packet.data(), packet.data(), packet.size());
  });
}

void FinalThreads::run(Line& line, const std::vector<int>& keep_off) noexcept {
  os::keep_this_thread_off(keep_off);
  prctl(PR_SET_TIMERSLACK, 1UL);
  std::uint64_t read = 0;
  for (;;) {
    const bool ending = ending_.load(std::memory_order_acquire);  // before the last look at the queue
    const std::uint64_t written = line.written.load(std::memory_order_acquire);
    for (; read < written; ++read) {
      const Entry& entry = line.entries[read % room];
      if (entry.kind == Kind::burst)
        line.trigger.burst_began(entry.number, entry.n);
      else if (entry.kind == Kind::late)
        line.trigger.passed_late(entry.n, entry.number, entry.periods);
      else
        line.trigger.sent(entry.n, std::span(entry.packet).first(entry.bytes));
      line.read.store(read + 1, std::memory_order_release);
    }
    line.trigger.flush();
    if (line.written.load(std::memory_order_relaxed) != read) continue;
    if (ending) return;
    std::this_thread::sleep_for(nap);
  }
}

std::uint64_t FinalThreads::datagrams() const noexcept {
  std::uint64_t n = 0;
  for (const auto& line : lines_) n += line->trigger.counters().datagrams;
  return n;
}

std::uint64_t FinalThreads::send_errors() const noexcept {
  std::uint64_t n = 0;
  for (const auto& line : lines_) n += line->trigger.counters().send_errors + line->full;
  return n;
}

}  // namespace nanet::trigger
