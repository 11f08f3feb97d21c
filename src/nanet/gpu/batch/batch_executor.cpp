// SPDX-License-Identifier: Apache-2.0
// Executor cuda-batch: a host thread per queue builds the waiting frames on the CPU, and the GPU reconstructs
// their events in one call. For detectors that the frame kernels cannot decode.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "nanet/contract/consumer.hpp"
#include "nanet/gpu/device_executor.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/executors/frame_batch.hpp"

namespace nanet::gpu {
namespace {

class BatchExecutor final : public DeviceExecutor {
 public:
  BatchExecutor(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
                trigger::TraceTable& traces, int gpus, Failover& failover)
      : options_(options), execute_(execute), slice_(execute.deadline / 8), failover_(failover) {
    const rich::Geometry& detector = *execute.process.detector;
    for (std::size_t d = 0; d < views.size(); ++d) {
      const int device = (options.device + static_cast<int>(d)) % gpus;
      lines_.push_back(std::make_unique<Line>(
          execute, views[d], traces,
          options.reconstructor
              ? options.reconstructor(algorithm, detector, device)
              : make_reconstructor(algorithm, detector, device, options.stall + 1'000'000'000)));
    }
  }
  ~BatchExecutor() override { stop(); }
  std::string_view name() const noexcept override { return "cuda-batch"; }
  std::string_view memory() const noexcept override { return "host"; }
  void start() override {
    if (running_) return;
    running_ = true;
    ending_ = false;
    working_ = lines_.size();
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      Line& line = *lines_[d];
      line.queue.seek(contract::HostAccess::acquire(*line.queue.view().finished));
      line.thread = std::jthread([this, &line, d] { run(line, d); });
    }
  }
  void stop() noexcept override {
    if (!running_) return;
    running_ = false;
    ending_.store(true, std::memory_order_release);
    for (auto& line : lines_)
      if (line->thread.joinable()) line->thread.join();
  }
  bool at_rest() noexcept override { return false; }  // no other process continues on this GPU
  bool event_overrun() const noexcept override { return overrun_; }
  void append_physics(std::vector<const trigger::Physics*>& all) const override {
    for (const auto& line : lines_) all.push_back(&line->batch.physics());
  }
  std::map<std::string, double> figures() const override { return {}; }

 private:
  struct Line {
    Line(const trigger::ExecutorOptions& execute, const contract::View& view, trigger::TraceTable& traces,
         std::unique_ptr<GpuReconstructor> reconstructor)
        : gpu(std::move(reconstructor)), batch(execute, view, traces), queue(view, 0, execute.reference) {}
    std::unique_ptr<GpuReconstructor> gpu;
    trigger::FrameBatch batch;
    contract::OrderedReader queue;
    std::jthread thread;
  };
  enum class Found { frames, nothing, stop };

  void run(Line& line, std::size_t number) noexcept {
    if (!execute_.pin.empty()) {
      try {
        os::pin_this_thread(execute_.pin[number % execute_.pin.size()]);
      } catch (const std::exception&) {  // continues unpinned
      }
    }
    serve(line);
    line.batch.clear();
    // One lost GPU ends all threads; the last one starts the failover.
    if (--working_ == 0 && failover_.lost()) failover_.take_over();
  }

  void serve(Line& line) noexcept {
    unsigned spins = 0;
    while (!failover_.lost()) {
      const bool ending = ending_.load(std::memory_order_acquire);
      switch (collect(line)) {
        case Found::stop:
          return;
        case Found::nothing:
          if (ending) return;
          if (!execute_.busy && ++spins > 4000) std::this_thread::sleep_for(std::chrono::microseconds(50));
          continue;
        case Found::frames:
          spins = 0;
      }
      line.batch.answer(*line.gpu);  // with the CPU's rings after a device error
      line.queue.finish();
      if (const char* why = line.gpu->failed()) failover_.lose(why);
    }
  }

  // Builds the waiting frames, for a limited time, so that the first of them is not late.
  Found collect(Line& line) noexcept {
    const std::uint32_t buffers = line.queue.view().shape.buffers;
    Found result = Found::nothing;
    Nanoseconds until = 0;
    contract::Event event;
    while (!line.batch.full()) {
      const contract::Poll found = line.queue.poll(event);
      if (found == contract::Poll::overrun) {
        overrun_ = true;
        return Found::stop;
      }
      if (found == contract::Poll::nothing) break;
      result = Found::frames;
      if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done) ||
          event.buffer >= buffers)
        continue;
      const std::uint64_t n = line.queue.n();
      if (options_.injection.kind != Injection::Kind::none && n >= options_.injection.at) {
        failover_.lose("a fault on purpose");
        return Found::stop;
      }
      const Nanoseconds built = line.batch.add(event, n);
      if (slice_ <= 0 || built == 0) continue;
      if (until == 0) until = built + slice_;
      if (built >= until) break;
    }
    return result;
  }

  PipelineOptions options_;
  trigger::ExecutorOptions execute_;
  Nanoseconds slice_;
  Failover& failover_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::atomic<std::size_t> working_{0};  // threads at their queues
  std::atomic<bool> ending_{false}, overrun_{false};
  bool running_ = false;
};

}  // namespace

std::unique_ptr<DeviceExecutor> make_batch_executor(const PipelineOptions& options,
                                                    const trigger::ExecutorOptions& execute,
                                                    const std::vector<contract::View>& views,
                                                    const rich::Reconstructor& algorithm,
                                                    trigger::TraceTable& traces, int gpus,
                                                    Failover& failover) {
  return std::make_unique<BatchExecutor>(options, execute, views, algorithm, traces, gpus, failover);
}

}  // namespace nanet::gpu
