// SPDX-License-Identifier: Apache-2.0
// The CPU executors: run to completion in the card's thread, and N worker threads that claim events.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "nanet/card/card.hpp"
#include "nanet/contract/queue.hpp"
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

// What both executors do with a receive event: answer first, then give the buffer back.
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
    for (auto& view : views) queues_.push_back({view, 0, options.reference});
  }
  std::string_view name() const noexcept override { return "cpu"; }
  void start() override {}
  bool in_card_thread() const noexcept override { return true; }
  bool poll() noexcept override {
    bool any = false;
    for (Queue& q : queues_) {
      Event event;
      contract::Poll found;
      while (!overrun_ && (found = contract::poll_event(q.view, q.next, event)) != contract::Poll::nothing) {
        if (found == contract::Poll::overrun) {
          overrun_ = true;
          break;
        }
        q.reference = contract::unwrap_counter(event.n, q.reference);
        if (event.type == static_cast<std::uint8_t>(EventType::receive_done))
          answer(process_, q.view, event, q.reference, traces_);
        contract::release(*q.view.finished, ++q.next);
        any = true;
      }
    }
    return any;
  }
  void stop() noexcept override { poll(); }
  std::vector<const Physics*> physics() const override { return {&process_.physics()}; }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  struct Queue {
    View view;
    std::uint64_t next, reference;
  };
  TraceTable& traces_;
  FrameProcessor process_;
  std::vector<Queue> queues_;
  std::atomic<bool> overrun_{false};
};

// Workers claim entries of their device's queue by a shared counter, as thread blocks do on a GPU; buffers
// are answered and returned in any order, the card sends by n.
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
    for (auto& q : queues_)
      q->claimed = contract::acquire(*q->view.finished);  // what a stop left claimed and not there
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
    Queue(const View& v, std::uint64_t n) : view(v), reference(n), done(v.shape.events) {}
    View view;
    std::atomic<std::uint64_t> claimed{0};
    std::atomic<std::uint64_t> reference;
    // done[k % entries] = lap of k once entry k is finished; `finished` follows the unbroken run.
    std::vector<std::atomic<std::uint32_t>> done;
  };

  void run(FrameProcessor& process, Queue& q) noexcept {
    for (;;) {
      const std::uint64_t k = q.claimed.fetch_add(1, std::memory_order_relaxed);
      Event event;
      unsigned spins = 0;
      for (;;) {
        const auto found = contract::poll_event(q.view, k, event);
        if (found == contract::Poll::event) break;
        if (found == contract::Poll::overrun) {
          overrun_ = true;
          return;
        }
        if (ending_.load(std::memory_order_acquire) &&
            contract::poll_event(q.view, k, event) == contract::Poll::nothing)
          return;
        pause();
        if (!options_.busy && ++spins > 4000) std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      // Entries within reach of each other span far less than 2^31 numbers, so any recent one widens them
      // all.
      const std::uint64_t n = contract::unwrap_counter(event.n, q.reference.load(std::memory_order_relaxed));
      q.reference.store(n, std::memory_order_relaxed);
      if (event.type == static_cast<std::uint8_t>(EventType::receive_done))
        answer(process, q.view, event, n, traces_);
      finish(q, k);
    }
  }
  static void finish(Queue& q, std::uint64_t k) noexcept {
    const std::uint64_t entries = q.view.shape.events;
    q.done[k & (entries - 1)].store(static_cast<std::uint32_t>(k / entries) + 1, std::memory_order_seq_cst);
    std::atomic_ref<std::uint64_t> finished(*q.view.finished);
    for (std::uint64_t f = finished.load(std::memory_order_seq_cst);
         q.done[f & (entries - 1)].load(std::memory_order_seq_cst) ==
         static_cast<std::uint32_t>(f / entries) + 1;)
      if (finished.compare_exchange_weak(f, f + 1, std::memory_order_seq_cst)) ++f;
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
