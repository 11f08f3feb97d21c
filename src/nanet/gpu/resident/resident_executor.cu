// SPDX-License-Identifier: Apache-2.0
// Executor cuda-persistent: starts and supervises the resident kernel; after a failure the CPU takes over.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/gpu/device_executor.hpp"
#include "nanet/gpu/gpu_queue.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gpu {
namespace {

using os::monotonic_now;

class ResidentExecutor final : public DeviceExecutor {
 public:
  ResidentExecutor(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                   const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
                   trigger::TraceTable& traces, int gpus, Failover& failover)
      : options_(options), reference_(execute.reference), failover_(failover) {
    for (std::size_t d = 0; d < views.size(); ++d) {
      queues_.push_back(std::make_unique<Watched>());
      queues_[d]->gpu = std::make_unique<GpuQueue>((options.device + static_cast<int>(d)) % gpus, views[d],
                                                   execute, algorithm, traces, options.blocks, 0);
      queues_[d]->gpu->resident.silence = options.silence;
      queues_[d]->gpu->resident.injection = options.injection;
      if (options.conditions) queues_[d]->gpu->read_conditions(*options.conditions);
      if (execute.mailboxes) queues_[d]->gpu->open_mailbox(options.mailbox);
    }
    // The card writes to all mailboxes or none.
    if (std::any_of(queues_.begin(), queues_.end(), [](const auto& q) { return !q->gpu->mailbox.input; }))
      for (auto& q : queues_) q->gpu->close_mailbox();
  }
  ~ResidentExecutor() override {
    stop();
    if (failover_.lost())
      for (auto& q : queues_) q->gpu->abandon();
  }
  std::string_view name() const noexcept override { return "cuda-persistent"; }
  std::string_view memory() const noexcept override { return "pinned"; }

  void start() override {
    if (running_) return;
    for (auto& q : queues_) launch(*q);
    for (auto& q : queues_) {
      await(*q);
      calibrate(*q, 32);
    }
    running_ = true;
    watch_ = std::jthread([this](const std::stop_token& token) { watch(token); });
  }

  void stop() noexcept override {
    if (!running_) return;
    running_ = false;
    if (watch_.joinable()) {
      watch_.request_stop();
      watch_.join();
    }
    if (!failover_.lost()) {
      for (auto& q : queues_) contract::release(q->gpu->control().host.stop, 1u);
      const Nanoseconds until = monotonic_now() + options_.stall + 1'000'000'000;
      for (auto& q : queues_) {
        std::string why;
        while (!ended(*q, why) && monotonic_now() < until) {
          beat(*q);
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        if (!why.empty() || !ended(*q, why)) lose(why.empty() ? "the kernel does not stop" : why);
      }
    }
  }

  // The driver reports a faulted kernel some ms later. A kernel that cannot be ended would share the GPU and
  // the memory with the recovery process.
  bool at_rest() noexcept override {
    std::string ignored;
    return std::all_of(queues_.begin(), queues_.end(), [&](const auto& q) { return ended(*q, ignored); });
  }
  void append_physics(std::vector<const trigger::Physics*>& all) const override {
    for (const auto& q : queues_) {
      q->gpu->refresh(q->physics);
      all.push_back(&q->physics);
    }
  }
  bool event_overrun() const noexcept override {
    return std::any_of(queues_.begin(), queues_.end(), [](const auto& q) {
      return contract::acquire(q->gpu->control().device.overrun) != 0;
    });
  }
  std::vector<contract::Mailbox> mailboxes() const override {
    std::vector<contract::Mailbox> all;
    for (const auto& q : queues_)
      if (q->gpu->mailbox.input) all.push_back(q->gpu->mailbox);
    return all;
  }
  std::string mailbox() const override { return queues_[0]->gpu->mailbox_memory; }
  std::map<std::string, double> figures() const override {
    double residual = 0;
    for (const auto& q : queues_) residual = std::max(residual, static_cast<double>(q->residual.load()));
    return {{"clock_residual_ns", residual},
            {"blocks", static_cast<double>(queues_[0]->gpu->areas)},
            {"threads_of_a_block", static_cast<double>(queues_[0]->gpu->threads)}};
  }

 private:
  struct Watched {
    std::unique_ptr<GpuQueue> gpu;
    mutable trigger::Physics physics;
    std::uint64_t beat = 0;      // last GPU heartbeat
    Nanoseconds moved = 0;       // time of its last change
    std::uint64_t finished = 0;  // finished entries at the last check
    Nanoseconds progress = 0;    // time of the last progress or idle queue
    std::uint32_t ping = 0;
    std::atomic<Nanoseconds> residual{0};
  };

  void launch(Watched& q) {
    GpuQueue& gpu = *q.gpu;
    gpu.use();
    Control& control = gpu.control();
    contract::relax(control.host.stop, 0u);
    contract::relax(control.device.running, 0u);
    contract::release(control.host.beat, control.host.beat + 1);
    // Finished entries stay finished; entries claimed but unfinished in an earlier run are claimed again.
    gpu.resident.begin = contract::acquire(*gpu.view.finished);
    require(cudaMemcpy(&state_, gpu.resident.state, sizeof state_, cudaMemcpyDeviceToHost),
            "the queue's state");
    state_.claimed = state_.frontier = gpu.resident.begin;
    state_.tasks_claimed = state_.tasks_written;
    state_.team_tasks_claimed = state_.team_tasks_written;
    state_.lag = ~std::uint64_t{0};  // until the supervisor has read the card's progress
    state_.passed = 0;
    state_.ending = state_.exited = state_.owners_ended = 0;
    if (state_.reference == 0) state_.reference = reference_;
    require(cudaMemcpy(gpu.resident.state, &state_, sizeof state_, cudaMemcpyHostToDevice),
            "the queue's state");
    void* arguments[] = {&gpu.resident, const_cast<void*>(gpu.value)};
    const void* const kernel = options_.merged_buffers ? gpu.kernel->resident_merged : gpu.kernel->resident;
    require(cudaLaunchKernel(kernel, dim3(gpu.resident_blocks), dim3(gpu.threads), arguments,
                             gpu.resident_bytes, gpu.stream),
            "starting the resident kernel");
    for (const auto& [function, part] :
         {std::pair(gpu.kernel->serving, &gpu.serving), std::pair(gpu.kernel->serving_teams, &gpu.teams)})
      if (function && part->blocks)
        require(cudaLaunchKernel(function, dim3(part->blocks), dim3(part->threads), arguments, part->bytes,
                                 part->stream),
                "starting the serving kernel");
    q.beat = contract::relaxed(control.device.beat);
    q.moved = q.progress = monotonic_now();
  }
  void await(Watched& q) {
    Control& control = q.gpu->control();
    const Nanoseconds until = monotonic_now() + 10'000'000'000;
    while (!contract::acquire(control.device.running)) {
      beat(q);
      std::string why;
      if (ended(q, why) || monotonic_now() > until)
        throw std::runtime_error("cuda: the resident kernel did not start" +
                                 (why.empty() ? why : ": " + why));
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    q.beat = contract::relaxed(control.device.beat);
    q.moved = q.progress = monotonic_now();
  }
  static void beat(Watched& q) noexcept {
    contract::release(q.gpu->control().host.beat, q.gpu->control().host.beat + 1);
  }
  // Whether the kernel has ended; why: its error.
  static bool ended(Watched& q, std::string& why) noexcept {
    const cudaError_t status = q.gpu->query();
    if (status == cudaErrorNotReady) return false;
    if (status != cudaSuccess) why = cudaGetErrorString(status);
    return true;
  }

  // Offset of the host clock from the device clock, from the fastest exchange; half its duration bounds the
  // error.
  void calibrate(Watched& q, unsigned rounds) noexcept {
    Control& control = q.gpu->control();
    Nanoseconds best = 1'000'000;
    std::int64_t offset = 0;
    bool found = false;
    for (unsigned i = 0; i < rounds; ++i) {
      const Nanoseconds before = monotonic_now();
      contract::release(control.host.ping, ++q.ping);
      Nanoseconds after = before;
      while (contract::acquire(control.device.pong) != q.ping && after - before < 200'000)
        after = monotonic_now();
      if (contract::acquire(control.device.pong) != q.ping) continue;
      after = monotonic_now();
      if (after - before >= best) continue;
      best = after - before;
      offset = before + (after - before) / 2 -
               static_cast<std::int64_t>(contract::relaxed(control.device.pong_time));
      found = true;
    }
    if (!found) return;
    contract::release(control.host.offset, static_cast<std::uint64_t>(offset));
    q.residual = best / 2;
  }

  void watch(const std::stop_token& token) noexcept {
    Nanoseconds calibrated = monotonic_now(), now = calibrated;
    const auto period =
        std::chrono::nanoseconds(std::clamp<Nanoseconds>(options_.stall / 10, 50'000, 1'000'000));
    while (!token.stop_requested()) {
      std::this_thread::sleep_for(period);
      const Nanoseconds before = std::exchange(now, monotonic_now());
      // After a stop of this process nothing is known of the time before.
      const bool stopped = now - before > options_.stall / 2;
      for (auto& q : queues_) {
        beat(*q);
        if (stopped) q->moved = q->progress = now;
        std::string why;
        const std::uint64_t beats = contract::acquire(q->gpu->control().device.beat);
        if (beats != q->beat) {
          q->beat = beats;
          q->moved = now;
        }
        if (ended(*q, why)) {
          if (contract::acquire(q->gpu->control().device.overrun)) return;  // stopped as required
          if (why.empty()) why = "the resident kernel ended unexpectedly";
        } else if (now - q->moved > options_.stall) {
          why = "no heartbeat of the GPU";
        } else if (late(*q, now)) {
          why = "the GPU does not finish what it has taken";
        }
        if (why.empty()) continue;
        lose(why);
        return;
      }
      if (now - calibrated > 100'000'000) {
        calibrated = now;
        for (auto& q : queues_) calibrate(*q, 4);
      }
    }
  }

  // The oldest queue entry has stayed unfinished for longer than a stall or a long frame.
  bool late(Watched& q, Nanoseconds now) noexcept {
    const std::uint64_t finished = contract::acquire(*q.gpu->view.finished);
    contract::Event event;
    if (finished != q.finished ||
        contract::poll_event(q.gpu->view, finished, event) != contract::Poll::event) {
      q.finished = finished;
      q.progress = now;
    }
    return now - q.progress > std::max<Nanoseconds>(options_.stall, 5'000'000);
  }

  // Marks the GPU as lost and starts the failover.
  void lose(const std::string& why) noexcept {
    failover_.lose(why);
    // Stops a kernel that still runs: the CPU needs exclusive access to the queue.
    for (auto& q : queues_) contract::release(q->gpu->control().host.stop, 1u);
    const Nanoseconds until = monotonic_now() + options_.stall;
    std::string ignored;
    for (auto& q : queues_)
      while (!ended(*q, ignored) && monotonic_now() < until) std::this_thread::yield();
    failover_.take_over([this] { return at_rest(); });
  }

  PipelineOptions options_;
  std::uint64_t reference_;
  Failover& failover_;
  std::vector<std::unique_ptr<Watched>> queues_;
  QueueState state_{};
  bool running_ = false;
  std::jthread watch_;
};

}  // namespace

std::unique_ptr<DeviceExecutor> make_resident_executor(const PipelineOptions& options,
                                                       const trigger::ExecutorOptions& execute,
                                                       const std::vector<contract::View>& views,
                                                       const rich::Reconstructor& algorithm,
                                                       trigger::TraceTable& traces, int gpus,
                                                       Failover& failover) {
  return std::make_unique<ResidentExecutor>(options, execute, views, algorithm, traces, gpus, failover);
}

}  // namespace nanet::gpu
