// SPDX-License-Identifier: Apache-2.0
#include "nanet/loop/comeback.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "nanet/card/udp.hpp"
#include "nanet/contract/queue.hpp"

namespace nanet::loop {
namespace {

using card::monotonic_now;

constexpr Nanoseconds second = 1'000'000'000;
constexpr Nanoseconds longest_preparation = 120 * second;  // a driver that compiles kernels takes its time
constexpr Nanoseconds longest_start = 2 * second, longest_pause = 60 * second;
constexpr Nanoseconds long_enough = 30 * second;  // a return that lasts

void sleep_ns(Nanoseconds time) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(time));
}

}  // namespace

Comeback::Comeback(const HelperOptions& options, const trigger::ExecutorOptions& execute,
                   const std::vector<contract::View>& views, trigger::TraceTable& traces,
                   Successor& successor)
    : options_(options), view_(views[0]), successor_(successor) {
  if (!options.command.empty() && Helper::can_share(views, traces))
    helper_ = std::make_unique<Helper>(options, execute, views, traces);
}

Comeback::~Comeback() {
  end();
}

void Comeback::begin(std::function<bool()> at_rest) {
  if (!helper_ || thread_.joinable()) return;
  at_rest_ = std::move(at_rest);
  near_ = successor_.near();
  thread_ = std::jthread([this](const std::stop_token& token) { run(token); });
}

void Comeback::end() noexcept {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  thread_ = {};
}

void Comeback::append_physics(std::vector<const trigger::Physics*>& all) const {
  if (served_) all.push_back(&helper_->physics());
}

void Comeback::append_figures(std::map<std::string, double>& figures) const {
  if (working_) helper_->append_figures(figures);
}

void Comeback::run(const std::stop_token& token) noexcept {
  Nanoseconds pause = options_.pause;
  while (!token.stop_requested()) {
    for (const Nanoseconds until = monotonic_now() + pause; monotonic_now() < until;) {
      if (token.stop_requested()) return;
      sleep_ns(std::min<Nanoseconds>(pause, 5'000'000));
    }
    pause = std::min(2 * pause, longest_pause);
    std::string why;
    if (at_rest_ && !at_rest_()) {
      successor_.note("it is not brought back: its kernel has not ended");
      continue;
    }
    try {
      helper_->start(recent());
    } catch (const std::exception& error) {
      successor_.note(std::string("it cannot come back: ") + error.what());
      continue;
    }
    if (!await(HelperState::ready, longest_preparation, &token, why)) {
      helper_->end();
      if (!why.empty()) successor_.note("it did not come back: " + why);
      continue;
    }
    // The clean point: the CPU finishes what is in the queues and leaves; the device begins at the first
    // entry that is not finished. What comes in between waits in the queue.
    successor_.stop();
    helper_->order(HelperOrder::work);
    if (!await(HelperState::working, longest_start, nullptr, why)) {
      hand_back(why);
      continue;
    }
    served_ = working_ = true;
    successor_.returned();
    const Nanoseconds began = monotonic_now();
    why = watch(token);
    if (why.empty()) {
      helper_->order(HelperOrder::leave);
      if (!await(HelperState::ready, longest_start + options_.stall, nullptr, why)) {
        hand_back(why);
        return;
      }
      working_ = false;
      await(HelperState::failed, second, nullptr, why);  // so that it may leave by itself
      helper_->end();
      return;
    }
    hand_back(why);
    if (monotonic_now() - began > long_enough) pause = options_.pause;
  }
}

bool Comeback::await(HelperState wanted, Nanoseconds longest, const std::stop_token* token,
                     std::string& why) noexcept {
  const Nanoseconds until = monotonic_now() + longest;
  while (helper_->state() != wanted) {
    if (token && token->stop_requested()) return false;
    if (!helper_->alive(why)) return false;
    if (monotonic_now() > until) {
      why = "the helper process took too long";
      return false;
    }
    sleep_ns(20'000);
  }
  return true;
}

std::string Comeback::watch(const std::stop_token& token) noexcept {
  // The device's heart is the helper's to watch; here it is the helper's.
  const Nanoseconds longest = std::max<Nanoseconds>(10 * options_.stall, 200'000'000);
  std::uint64_t beat = helper_->beat();
  Nanoseconds moved = monotonic_now();
  std::string why;
  while (!token.stop_requested()) {
    sleep_ns(1'000'000);
    if (!helper_->alive(why)) return why.empty() ? "the helper process is gone" : why;
    const Nanoseconds now = monotonic_now();
    if (const std::uint64_t beats = helper_->beat(); beats != beat) {
      beat = beats;
      moved = now;
    } else if (now - moved > longest) {
      return "no heartbeat of the helper process";
    }
  }
  return {};
}

void Comeback::hand_back(const std::string& why) noexcept {
  working_ = false;
  helper_->end();  // nobody else is at the queues from here on
  successor_.lose(why);
  successor_.take_over();
  near_ = successor_.near();
}

std::uint64_t Comeback::recent() noexcept {
  const std::uint64_t finished = contract::acquire(*view_.finished);
  for (std::uint64_t back = 1; back <= finished && back <= 64; ++back) {
    contract::Event event;
    if (contract::poll_event(view_, finished - back, event) != contract::Poll::event) continue;
    near_ = contract::widen(event.n, near_);
    break;
  }
  return near_;
}

}  // namespace nanet::loop
