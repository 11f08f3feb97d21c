// SPDX-License-Identifier: Apache-2.0
// CPU executors: run to completion in the card's thread, or N worker threads that claim events.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "nanet/card/card.hpp"
#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/executors/executor.hpp"
#include "nanet/trigger/executors/load_shedder.hpp"

namespace nanet::trigger {
namespace {

using contract::Event;
using contract::EventType;
using contract::View;

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// One thread's work on receive events: skips a frame or answers it, then returns the buffer.
class FrameWorker {
 public:
  FrameWorker(const ExecutorOptions& options, const View& view, const rich::Reconstructor& algorithm,
              TraceTable& traces)
      : shedder_{options.deadline},
        traces_(traces),
        process_(view.shape, algorithm.clone(), options.process) {
    process_.sink(options.sink);
  }
  // keep_from: of the queue, shared by its workers. Returns the time of the post; 0: the frame was skipped.
  Nanoseconds operator()(const View& view, const Event& event, std::uint64_t n,
                         std::uint64_t& keep_from) noexcept {
    if (shedder_.deadline > 0 && skips(event, n, keep_from)) {
      contract::return_buffer(view, n);
      return 0;
    }
    Trace& trace = traces_[n];
    const std::uint32_t bytes = process_(view, event, n, trace);
    trace.posted = os::monotonic_now();
    const Nanoseconds posted = trace.posted;
    service_.add(posted - trace.seen);
    contract::post(view, n, view.send_buffer(event.buffer), bytes, 0, event.buffer);
    contract::return_buffer(view, n);
    return posted;
  }
  const Physics& physics() const noexcept { return process_.physics(); }

 private:
  bool skips(const Event& event, std::uint64_t n, std::uint64_t& keep_from) const noexcept {
    std::uint64_t keep = contract::relaxed(keep_from);
    const WaitingFrame frame{n, static_cast<Nanoseconds>(event.time_ns), os::monotonic_now()};
    const bool skipped = shedder_.skips(frame, read_progress(traces_), service_.expected(), keep);
    if (skipped) contract::relax(keep_from, keep);
    return skipped;
  }

  LoadShedder shedder_;
  TraceTable& traces_;
  FrameProcessor process_;
  ServiceTime service_;
};

class InlineExecutor final : public Executor {
 public:
  InlineExecutor(const ExecutorOptions& options, std::vector<View> views,
                 const rich::Reconstructor& algorithm, TraceTable& traces)
      : worker_(options, views[0], algorithm, traces),
        slice_(options.slices ? std::min(options.deadline / 32, longest_slice) : 0) {
    for (auto& view : views) queues_.push_back({contract::OrderedReader(view, 0, options.reference)});
  }
  std::string_view name() const noexcept override { return "cpu"; }
  void start() override {}
  bool in_card_thread() const noexcept override { return true; }
  bool poll() noexcept override {
    bool any = false;
    for (Queue& queue : queues_) any |= slice(queue);
    return any;
  }
  void stop() noexcept override {
    while (poll()) {
    }
  }
  std::vector<const Physics*> physics() const override { return {&worker_.physics()}; }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  struct Queue {
    contract::OrderedReader reader;
    std::uint64_t keep_from = 0;
  };
  // Longest time between two turns of the sender, beyond one frame's.
  static constexpr Nanoseconds longest_slice = 100'000;
  static constexpr unsigned entries_at_once = 1024;  // skipped frames are not timed

  bool slice(Queue& queue) noexcept {
    bool any = false;
    Event event;
    Nanoseconds until = 0;  // without slices: no limit
    for (unsigned i = 0; i < entries_at_once && !overrun_; ++i) {
      const contract::Poll found = queue.reader.poll(event);
      if (found == contract::Poll::overrun) overrun_ = true;
      if (found != contract::Poll::event) break;
      if (slice_ > 0 && until == 0) until = os::monotonic_now() + slice_;
      Nanoseconds posted = 0;
      if (event.type == static_cast<std::uint8_t>(EventType::receive_done))
        posted = worker_(queue.reader.view(), event, queue.reader.n(), queue.keep_from);
      queue.reader.finish();
      any = true;
      if (until != 0 && posted >= until) break;
    }
    return any;
  }

  FrameWorker worker_;
  Nanoseconds slice_;
  std::vector<Queue> queues_;
  std::atomic<bool> overrun_{false};
};

// Workers claim queue entries of their device through a shared counter, as GPU thread blocks do. They answer
// and return buffers in any order; the card sends in order of n.
class WorkerExecutor final : public Executor {
 public:
  WorkerExecutor(const ExecutorOptions& options, std::vector<View> views,
                 const rich::Reconstructor& algorithm, TraceTable& traces)
      : options_(options) {
    for (auto& view : views) queues_.push_back(std::make_unique<Queue>(view, options.reference));
    for (unsigned t = 0; t < std::max<std::size_t>(options.threads, queues_.size()); ++t)
      workers_.push_back(std::make_unique<FrameWorker>(options, views[0], algorithm, traces));
  }
  ~WorkerExecutor() override { stop(); }
  std::string_view name() const noexcept override { return "cpu"; }
  void start() override {
    ending_ = false;
    for (auto& q : queues_)  // entries claimed before the last stop but never found are claimed again
      q->state.claimed = q->state.finished = contract::HostAccess::acquire(*q->view.finished);
    for (unsigned t = 0; t < workers_.size(); ++t)
      threads_.emplace_back([this, t] {
        if (!options_.pin.empty()) os::pin_this_thread(options_.pin[t % options_.pin.size()]);
        run(*workers_[t], *queues_[t % queues_.size()]);
      });
  }
  void stop() noexcept override {
    ending_.store(true, std::memory_order_release);
    threads_.clear();  // joins
  }
  std::vector<const Physics*> physics() const override {
    std::vector<const Physics*> all;
    for (const auto& w : workers_) all.push_back(&w->physics());
    return all;
  }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  struct Queue {
    Queue(const View& v, std::uint64_t reference) : view(v), done(v.shape.events) {
      state.reference = reference;
    }
    View view;
    contract::SharedReader state;
    std::vector<std::uint32_t> done;
    std::uint64_t keep_from = 0;
  };

  void run(FrameWorker& worker, Queue& q) noexcept {
    using Access = contract::HostAccess;
    for (;;) {
      Event event;
      std::uint64_t k = 0, n = 0;
      unsigned spins = 0;
      const contract::Poll found = contract::take_entry<Access>(
          q.view, q.state, q.done.data(), [&] { return ending_.load(std::memory_order_acquire); },
          [&] {
            pause();
            if (!options_.busy && ++spins > 4000) std::this_thread::sleep_for(std::chrono::microseconds(50));
          },
          k, event, n);
      if (found == contract::Poll::overrun) overrun_ = true;
      if (found != contract::Poll::event) return;
      if (event.type == static_cast<std::uint8_t>(EventType::receive_done))
        worker(q.view, event, n, q.keep_from);
      contract::finish_entry<Access>(q.view, q.state, q.done.data(), k);
    }
  }

  ExecutorOptions options_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<FrameWorker>> workers_;
  std::atomic<bool> ending_{false}, overrun_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const ExecutorOptions& options, std::vector<View> views,
                                            const rich::Reconstructor& algorithm, TraceTable& traces) {
  if (options.threads <= 1)
    return std::make_unique<InlineExecutor>(options, std::move(views), algorithm, traces);
  return std::make_unique<WorkerExecutor>(options, std::move(views), algorithm, traces);
}

}  // namespace nanet::trigger
