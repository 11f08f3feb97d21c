// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/failover/gpu_recovery.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gpu {
namespace {

using os::monotonic_now;

constexpr Nanoseconds second = 1'000'000'000;
constexpr Nanoseconds longest_preparation = 120 * second;  // includes kernel compilation by the driver
constexpr Nanoseconds longest_start = 2 * second, longest_pause = 60 * second;
constexpr Nanoseconds long_enough = 30 * second;  // work without a loss that resets the pause

void sleep_ns(Nanoseconds time) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(time));
}

}  // namespace

GpuRecovery::GpuRecovery(const RecoveryOptions& options, const trigger::ExecutorOptions& execute,
                         const std::vector<contract::View>& views, trigger::TraceTable& traces,
                         CpuFallback& fallback)
    : options_(options), view_(views[0]), fallback_(fallback) {
  if (!options.command.empty() && RecoveryProcess::can_share(views, traces))
    process_ = std::make_unique<RecoveryProcess>(options, execute, views, traces);
}

GpuRecovery::~GpuRecovery() {
  end();
}

void GpuRecovery::begin(std::function<bool()> at_rest) {
  if (!process_ || thread_.joinable()) return;
  at_rest_ = std::move(at_rest);
  reference_ = fallback_.reference();
  thread_ = std::jthread([this](const std::stop_token& token) { run(token); });
}

void GpuRecovery::end() noexcept {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  thread_ = {};
}

void GpuRecovery::append_physics(std::vector<const trigger::Physics*>& all) const {
  if (served_) all.push_back(&process_->physics());
}

void GpuRecovery::append_figures(std::map<std::string, double>& figures) const {
  if (working_) process_->append_figures(figures);
}

void GpuRecovery::run(const std::stop_token& token) noexcept {
  Nanoseconds pause = options_.pause;
  while (!token.stop_requested()) {
    for (const Nanoseconds until = monotonic_now() + pause; monotonic_now() < until;) {
      if (token.stop_requested()) return;
      sleep_ns(std::min<Nanoseconds>(pause, 5'000'000));
    }
    pause = std::min(2 * pause, longest_pause);
    std::string why;
    if (at_rest_ && !at_rest_()) {
      fallback_.note("it is not brought back: its kernel has not ended");
      continue;
    }
    try {
      process_->start(recent());
    } catch (const std::exception& error) {
      fallback_.note(std::string("it cannot come back: ") + error.what());
      continue;
    }
    if (!await(RecoveryState::ready, longest_preparation, &token, why)) {
      process_->end();
      if (!why.empty()) fallback_.note("it did not come back: " + why);
      continue;
    }
    // Handover: the CPU finishes the entries in the queues and stops; the device starts at the first
    // unfinished entry. New entries wait in the queue.
    fallback_.stop();
    process_->order(RecoveryOrder::work);
    if (!await(RecoveryState::working, longest_start, nullptr, why)) {
      hand_back(why);
      continue;
    }
    served_ = working_ = true;
    fallback_.returned();
    const Nanoseconds began = monotonic_now();
    why = watch(token);
    if (why.empty()) {
      process_->order(RecoveryOrder::leave);
      if (!await(RecoveryState::ready, longest_start + options_.stall, nullptr, why)) {
        hand_back(why);
        return;
      }
      working_ = false;
      await(RecoveryState::failed, second, nullptr, why);  // time for an orderly exit
      process_->end();
      return;
    }
    hand_back(why);
    if (monotonic_now() - began > long_enough) pause = options_.pause;
  }
}

bool GpuRecovery::await(RecoveryState wanted, Nanoseconds longest, const std::stop_token* token,
                        std::string& why) noexcept {
  const Nanoseconds until = monotonic_now() + longest;
  while (process_->state() != wanted) {
    if (token && token->stop_requested()) return false;
    if (!process_->alive(why)) return false;
    if (monotonic_now() > until) {
      why = "the recovery process took too long";
      return false;
    }
    sleep_ns(20'000);
  }
  return true;
}

std::string GpuRecovery::watch(const std::stop_token& token) noexcept {
  // The recovery process supervises the device's heartbeat; this loop supervises the process's heartbeat.
  const Nanoseconds longest = std::max<Nanoseconds>(10 * options_.stall, 200'000'000);
  std::uint64_t beat = process_->beat();
  Nanoseconds now = monotonic_now(), moved = now;
  std::string why;
  while (!token.stop_requested()) {
    sleep_ns(1'000'000);
    if (!process_->alive(why)) return why.empty() ? "the recovery process is gone" : why;
    const Nanoseconds before = std::exchange(now, monotonic_now());
    if (now - before > longest / 2) moved = now;  // after a stop of this process
    if (const std::uint64_t beats = process_->beat(); beats != beat) {
      beat = beats;
      moved = now;
    } else if (now - moved > longest) {
      return "no heartbeat of the recovery process";
    }
  }
  return {};
}

void GpuRecovery::hand_back(const std::string& why) noexcept {
  working_ = false;
  process_->end();  // exclusive access to the queues from here on
  fallback_.lose(why);
  fallback_.activate();
  reference_ = fallback_.reference();
}

std::uint64_t GpuRecovery::recent() noexcept {
  const std::uint64_t finished = contract::acquire(*view_.finished);
  for (std::uint64_t back = 1; back <= finished && back <= 64; ++back) {
    contract::Event event;
    if (contract::poll_event(view_, finished - back, event) != contract::Poll::event) continue;
    reference_ = contract::unwrap_counter(event.n, reference_);
    break;
  }
  return reference_;
}

}  // namespace nanet::gpu
