// SPDX-License-Identifier: Apache-2.0
// CPU executors: run to completion in the card's thread, or N worker threads that claim events.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "nanet/card/card.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/executors/executor.hpp"

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

// Processes a receive event for both executors: answers first, then returns the buffer.
void answer(FrameProcessor& process, const View& view, const Event& event, std::uint64_t n,
            TraceTable& traces) noexcept {
  Trace& trace = traces[n];
  const std::uint32_t bytes = process(view, event, n, trace);
  trace.posted = os::monotonic_now();
  contract::post(view, n, view.send_buffer(event.buffer), bytes, 0, event.buffer);
  contract::return_buffer(view, n);
}

class InlineExecutor final : public Executor {
 public:
  InlineExecutor(const ExecutorOptions& options, std::vector<View> views,
                 const rich::Reconstructor& algorithm, TraceTable& traces)
      : traces_(traces), process_(views[0].shape, algorithm.clone(), options.process) {
    process_.sink(options.sink);
    for (auto& view : views) queues_.emplace_back(view, 0, options.reference);
  }
  std::string_view name() const noexcept override { return "cpu"; }
  void start() override {}
  bool in_card_thread() const noexcept override { return true; }
  bool poll() noexcept override {
    bool any = false;
    for (contract::OrderedReader& queue : queues_) {
      Event event;
      while (!overrun_) {
        const contract::Poll found = queue.poll(event);
        if (found == contract::Poll::overrun) overrun_ = true;
        if (found != contract::Poll::event) break;
        if (event.type == static_cast<std::uint8_t>(EventType::receive_done))
          answer(process_, queue.view(), event, queue.n(), traces_);
        queue.finish();
        any = true;
      }
    }
    return any;
  }
  void stop() noexcept override { poll(); }
  std::vector<const Physics*> physics() const override { return {&process_.physics()}; }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  TraceTable& traces_;
  FrameProcessor process_;
  std::vector<contract::OrderedReader> queues_;
  std::atomic<bool> overrun_{false};
};

// Workers claim queue entries of their device through a shared counter, as GPU thread blocks do. They answer
// and return buffers in any order; the card sends in order of n.
class WorkerExecutor final : public Executor {
 public:
  WorkerExecutor(const ExecutorOptions& options, std::vector<View> views,
                 const rich::Reconstructor& algorithm, TraceTable& traces)
      : options_(options), traces_(traces) {
    for (auto& view : views) queues_.push_back(std::make_unique<Queue>(view, options.reference));
    for (unsigned t = 0; t < std::max<std::size_t>(options.threads, queues_.size()); ++t) {
      workers_.push_back(
          std::make_unique<FrameProcessor>(views[0].shape, algorithm.clone(), options.process));
      workers_.back()->sink(options.sink);
    }
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
  };

  void run(FrameProcessor& process, Queue& q) noexcept {
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
        answer(process, q.view, event, n, traces_);
      contract::finish_entry<Access>(q.view, q.state, q.done.data(), k);
    }
  }

  ExecutorOptions options_;
  TraceTable& traces_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<FrameProcessor>> workers_;
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
