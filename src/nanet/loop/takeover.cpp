// SPDX-License-Identifier: Apache-2.0
#include "nanet/loop/takeover.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "nanet/card/udp.hpp"
#include "nanet/contract/queue.hpp"

namespace nanet::loop {
namespace {

using contract::View;

// Any n that was worked on not long ago: the newest that left a trace. While nobody writes any.
std::uint64_t newest(trigger::TraceTable& traces) noexcept {
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i <= traces.mask(); ++i)
    if (traces[i].n != ~std::uint64_t{0}) n = std::max(n, traces[i].n);
  return n;
}

void catch_up(const View& view, trigger::FrameProcessor& process, trigger::TraceTable& traces,
              std::uint64_t near) {
  std::uint64_t k = contract::acquire(*view.finished);
  contract::Event event;
  while (contract::poll_event(view, k, event) == contract::Poll::event) {
    const std::uint64_t n = near = contract::widen(event.n, near);
    if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done)) {
      contract::Descriptor posted;
      if (!contract::posted(view, n, posted)) {
        trigger::Trace& trace = traces[n];
        const std::uint32_t bytes = process(view, event, n, trace);
        trace.posted = card::monotonic_now();
        contract::post(view, n, view.send_buffer(event.buffer), bytes, 0, event.buffer);
      }
      contract::return_buffer(view, n);
    }
    contract::release(*view.finished, ++k);
  }
}

constexpr std::size_t kept = 8;  // executors that were at work before, whose counts somebody may be reading

void add_counts(trigger::Physics& to, const trigger::Physics& from) noexcept {
  const auto add = [&](auto member) {
    auto& counters = to.*member;
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i] += (from.*member)[i];
  };
  add(&trigger::Physics::hits_per_event);
  add(&trigger::Physics::rings_per_event);
  add(&trigger::Physics::radius);
  add(&trigger::Physics::centre);
  add(&trigger::Physics::occupancy);
  to.sampled_events += from.sampled_events;
}

}  // namespace

std::unique_ptr<trigger::Executor> take_over(const trigger::ExecutorOptions& options,
                                             const std::vector<View>& views,
                                             const rich::Reconstructor& algorithm,
                                             trigger::TraceTable& traces) {
  const std::uint64_t near = newest(traces);
  trigger::FrameProcessor process(views[0].shape, algorithm.clone(), options.process);
  for (const View& view : views) catch_up(view, process, traces, near);
  trigger::ExecutorOptions workers = options;
  workers.threads = std::max(2u, options.threads);  // beside the card's thread, which goes on as it was
  workers.reference = near;
  auto executor = trigger::make_cpu_executor(workers, views, algorithm, traces);
  executor->start();
  return executor;
}

Successor::Successor(bool wanted, const trigger::ExecutorOptions& options, std::vector<View> views,
                     const rich::Reconstructor& algorithm, trigger::TraceTable& traces)
    : wanted_(wanted),
      options_(options),
      views_(std::move(views)),
      algorithm_(algorithm.clone()),
      traces_(traces) {}

bool Successor::lose(const std::string& why) noexcept {
  ++faults_;
  const std::lock_guard lock(mutex_);
  const bool first = !away_.exchange(true);
  if (first) {
    trouble_ = why;
    since_ = card::monotonic_now();
  }
  lost_ = true;
  return first;
}

void Successor::returned() noexcept {
  ++returns_;
  before_ += card::monotonic_now() - since_;
  away_ = false;
  note({});
}

void Successor::note(const std::string& what) noexcept {
  const std::lock_guard lock(mutex_);
  note_ = what;
}

void Successor::take_over() noexcept {
  const std::lock_guard lock(mutex_);
  if (!wanted_ || cpu_) return;
  try {
    near_ = newest(traces_);
    cpu_ = loop::take_over(options_, views_, *algorithm_, traces_);
  } catch (const std::exception& error) {
    trouble_ += std::string("; the CPU could not take over: ") + error.what();
  }
}

void Successor::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (!cpu_) return;
  cpu_->stop();
  past_.push_back(std::move(cpu_));
  // A GPU that is lost again and again: of long ago the counts are enough.
  if (past_.size() <= kept) return;
  for (const trigger::Physics* p : past_.front()->physics()) add_counts(earlier_, *p);
  past_.erase(past_.begin());
}

void Successor::append_physics(std::vector<const trigger::Physics*>& all) const {
  const std::lock_guard lock(mutex_);
  if (past_.size() == kept) all.push_back(&earlier_);
  for (const auto& e : past_)
    for (const auto* p : e->physics()) all.push_back(p);
  if (cpu_)
    for (const auto* p : cpu_->physics()) all.push_back(p);
}

void Successor::append_figures(std::map<std::string, double>& figures) const {
  figures["gpu_faults"] = static_cast<double>(faults_.load());
  figures["gpu_returns"] = static_cast<double>(returns_.load());
  figures["gpu_lost"] = away_ ? 1.0 : 0.0;
  const Nanoseconds away = before_ + (away_ ? card::monotonic_now() - since_ : 0);
  figures["gpu_away_s"] = static_cast<double>(away) * 1e-9;
}

std::string Successor::trouble() const {
  const std::lock_guard lock(mutex_);
  return note_.empty() ? trouble_ : trouble_ + "; " + note_;
}

}  // namespace nanet::loop
