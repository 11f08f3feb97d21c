// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/failover/cpu_fallback.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "nanet/contract/consumer.hpp"
#include "nanet/contract/producer.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gpu {
namespace {

using contract::View;

// A recent n: the newest in the trace table. No other thread writes traces.
std::uint64_t newest(trigger::TraceTable& traces) noexcept {
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i <= traces.mask(); ++i)
    if (traces[i].n != ~std::uint64_t{0}) n = std::max(n, traces[i].n);
  return n;
}

// Frames that have been answered header-only are skipped.
void catch_up(const trigger::ExecutorOptions& options, const View& view, trigger::FrameProcessor& process,
              trigger::TraceTable& traces, std::uint64_t reference) {
  contract::OrderedReader queue(view, contract::HostAccess::acquire(*view.finished), reference);
  contract::Event event;
  while (queue.poll(event) == contract::Poll::event) {
    const std::uint64_t n = queue.n();
    if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done)) {
      contract::Descriptor posted;
      const bool late = options.deadline > 0 && n < contract::relaxed(traces.progress().passed);
      if (!late && !contract::posted(view, n, posted)) {
        trigger::Trace& trace = traces[n];
        const std::uint32_t bytes = process(view, event, n, trace);
        trace.posted = os::monotonic_now();
        contract::post(view, n, view.send_buffer(event.buffer), bytes, 0, event.buffer);
      }
      contract::return_buffer(view, n);
    }
    queue.finish();
  }
}

constexpr std::size_t kept = 8;  // earlier executors kept whole, as a reader may hold their counts

}  // namespace

std::unique_ptr<trigger::Executor> start_cpu_fallback(const trigger::ExecutorOptions& options,
                                                      const std::vector<View>& views,
                                                      const rich::Reconstructor& algorithm,
                                                      trigger::TraceTable& traces,
                                                      trigger::Physics& physics) {
  const std::uint64_t reference = newest(traces);
  trigger::FrameProcessor process(views[0].shape, algorithm.clone(), options.process);
  for (const View& view : views) catch_up(options, view, process, traces, reference);
  physics.add(process.physics());
  trigger::ExecutorOptions workers = options;
  workers.threads = std::max(2u, options.threads);  // besides the card's thread
  workers.reference = reference;
  auto executor = trigger::make_cpu_executor(workers, views, algorithm, traces);
  executor->start();
  return executor;
}

CpuFallback::CpuFallback(bool wanted, const trigger::ExecutorOptions& options, std::vector<View> views,
                         const rich::Reconstructor& algorithm, trigger::TraceTable& traces)
    : wanted_(wanted),
      options_(options),
      views_(std::move(views)),
      algorithm_(algorithm.clone()),
      traces_(traces),
      beyond_(options.process.detector->wide() ? options.process.detector->channels() - pm_count : 0) {
  earlier_.count_beyond(beyond_);
}

bool CpuFallback::lose(const std::string& why) noexcept {
  ++faults_;
  const std::lock_guard lock(mutex_);
  const bool first = !away_.exchange(true);
  if (first) {
    trouble_ = why;
    since_ = os::monotonic_now();
  }
  lost_ = true;
  return first;
}

void CpuFallback::returned() noexcept {
  ++returns_;
  before_ += os::monotonic_now() - since_;
  away_ = false;
  note({});
}

void CpuFallback::note(const std::string& what) noexcept {
  const std::lock_guard lock(mutex_);
  note_ = what;
}

void CpuFallback::activate() noexcept {
  const std::lock_guard lock(mutex_);
  if (!wanted_ || cpu_) return;
  try {
    reference_ = newest(traces_);
    cpu_ = gpu::start_cpu_fallback(options_, views_, *algorithm_, traces_, earlier_);
  } catch (const std::exception& error) {
    trouble_ += std::string("; the CPU could not take over: ") + error.what();
  }
}

void CpuFallback::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (!cpu_) return;
  cpu_->stop();
  past_.push_back(std::move(cpu_));
  // Of executors older than these only the counts are kept: repeated losses need bounded memory.
  if (past_.size() <= kept) return;
  for (const trigger::Physics* p : past_.front()->physics()) earlier_.add(*p);
  past_.erase(past_.begin());
}

void CpuFallback::append_physics(std::vector<const trigger::Physics*>& all) const {
  const std::lock_guard lock(mutex_);
  all.push_back(&earlier_);
  for (const auto& e : past_)
    for (const auto* p : e->physics()) all.push_back(p);
  if (cpu_)
    for (const auto* p : cpu_->physics()) all.push_back(p);
}

void CpuFallback::append_figures(std::map<std::string, double>& figures) const {
  figures["gpu_faults"] = static_cast<double>(faults_.load());
  figures["gpu_recoveries"] = static_cast<double>(returns_.load());
  figures["gpu_lost"] = away_ ? 1.0 : 0.0;
  const Nanoseconds away = before_ + (away_ ? os::monotonic_now() - since_ : 0);
  figures["gpu_fallback_s"] = static_cast<double>(away) * 1e-9;
}

std::string CpuFallback::trouble() const {
  const std::lock_guard lock(mutex_);
  return note_.empty() ? trouble_ : trouble_ + "; " + note_;
}

}  // namespace nanet::gpu
