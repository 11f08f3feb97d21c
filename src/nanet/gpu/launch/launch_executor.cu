// SPDX-License-Identifier: Apache-2.0
// Executor cuda-launch: a host thread copies each buffer to the GPU, launches a kernel and copies the answer
// back. Several buffers are in flight, each on its own stream.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <thread>

#include "nanet/card/card.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/gpu/device_executor.hpp"
#include "nanet/gpu/gpu_queue.hpp"
#include "nanet/gpu/pinned_pages.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/executors/load_shedder.hpp"

namespace nanet::gpu {
namespace {

using os::monotonic_now;

constexpr unsigned slots = 4;  // buffers in flight
constexpr std::size_t table_bytes = sizeof(ConditionsTable);

class LaunchExecutor final : public DeviceExecutor {
 public:
  LaunchExecutor(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                 const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
                 trigger::TraceTable& traces, int gpus, Failover& failover)
      : options_(options), execute_(execute), traces_(traces), failover_(failover) {
    for (std::size_t d = 0; d < views.size(); ++d) {
      lines_.push_back(std::make_unique<Line>(execute.process.conditions, views[d]));
      Line& line = *lines_.back();
      const std::size_t bytes = (views[d].shape.buffer_bytes() + 255) / 256 * 256;
      const std::size_t answer = (sizeof(Answer) + 255) / 256 * 256, area = bytes + answer + table_bytes;
      line.gpu = std::make_unique<GpuQueue>((options.device + static_cast<int>(d)) % gpus, views[d], execute,
                                            algorithm, traces, slots, area);
      line.answers = std::make_unique<PinnedPages>((sizeof(Answer) + table_bytes) * slots);
      auto* const tables = reinterpret_cast<ConditionsTable*>(line.answers->host() + sizeof(Answer) * slots);
      for (unsigned s = 0; s < slots; ++s) {
        Slot& slot = line.slot[s];
        require(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking), "a stream");
        slot.in = line.gpu->area + area * s;
        slot.buffer.bytes = slot.in;
        slot.buffer.answer = reinterpret_cast<Answer*>(slot.in + bytes);
        slot.buffer.slot = s;
        slot.answer = reinterpret_cast<Answer*>(line.answers->host()) + s;
        slot.table = tables + s;
        if (execute.process.conditions)
          slot.buffer.conditions = reinterpret_cast<std::int16_t*>(slot.in + bytes + answer);
      }
    }
  }
  ~LaunchExecutor() override {
    stop();
    for (auto& line : lines_) {
      if (failover_.lost() && !at_rest(*line)) {
        line->gpu->abandon();
        static_cast<void>(line->answers.release());
        continue;
      }
      for (Slot& slot : line->slot) {
        cudaStreamDestroy(slot.stream);
      }
    }
  }
  std::string_view name() const noexcept override { return "cuda-launch"; }
  std::string_view memory() const noexcept override { return "device"; }
  void start() override {
    if (running_) return;
    running_ = true;
    ending_ = false;
    working_ = lines_.size();
    for (auto& line : lines_) {
      line->queue.seek(contract::HostAccess::acquire(*line->gpu->view.finished));
      line->thread = std::jthread([this, &line = *line] { run(line); });
    }
  }
  void stop() noexcept override {
    if (!running_) return;
    running_ = false;
    ending_.store(true, std::memory_order_release);
    for (auto& line : lines_)
      if (line->thread.joinable()) line->thread.join();
  }
  bool at_rest() noexcept override {
    return std::all_of(lines_.begin(), lines_.end(), [](const auto& line) { return at_rest(*line); });
  }
  void append_physics(std::vector<const trigger::Physics*>& all) const override {
    for (const auto& line : lines_) {
      line->gpu->refresh(line->physics);
      all.push_back(&line->physics);
    }
  }
  bool event_overrun() const noexcept override { return overrun_; }
  std::map<std::string, double> figures() const override {
    return {{"in_flight", static_cast<double>(slots)},
            {"threads_of_a_block", static_cast<double>(lines_[0]->gpu->threads)}};
  }

 private:
  struct Slot {
    cudaStream_t stream = nullptr;
    std::byte* in = nullptr;  // on the device
    Buffer buffer;
    Answer* answer = nullptr;          // in pinned memory
    ConditionsTable* table = nullptr;  // likewise
    std::uint64_t k = 0;
    std::uint32_t index = 0;
    Nanoseconds seen = 0;
  };
  struct Line {
    Line(const trigger::ConditionsStore* store, const contract::View& view)
        : queue(view), conditions(store) {}
    std::unique_ptr<GpuQueue> gpu;
    std::unique_ptr<PinnedPages> answers;
    Slot slot[slots];
    std::deque<Slot*> flying;
    contract::OrderedReader queue;
    Nanoseconds mirrored = 0;
    trigger::ServiceTime service;
    std::uint64_t keep_from = 0;
    trigger::ConditionsReader conditions;
    mutable trigger::Physics physics;
    std::jthread thread;
  };

  // No operation of a lost GPU is in flight, and its context is valid.
  static bool at_rest(Line& line) noexcept {
    if (cudaSetDevice(line.gpu->device()) != cudaSuccess) return false;
    const Nanoseconds until = monotonic_now() + 2'000'000'000;
    for (Slot& slot : line.slot)
      for (;;) {
        const cudaError_t status = cudaStreamQuery(slot.stream);
        if (status == cudaSuccess) break;
        if (status != cudaErrorNotReady || monotonic_now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    return true;
  }

  // Bytes of a buffer up to the end of the last board's data.
  static std::size_t used(const contract::View& view, std::uint32_t index) noexcept {
    const contract::Shape& shape = view.shape;
    if (shape.gather == contract::Gather::packets) return std::size_t{shape.packets} * shape.slot_bytes;
    contract::FrameHeader header;
    std::memcpy(&header, view.buffer(index), sizeof header);
    std::size_t end = contract::frame_header_bytes;
    for (unsigned b = 0; b < shape.boards; ++b)
      if (header.board[b].bytes)
        end = contract::frame_header_bytes + std::size_t{b} * shape.segment_bytes +
              std::min<std::size_t>(header.board[b].bytes, shape.segment_bytes);
    return end;
  }

  cudaError_t send_off(Line& line, Slot& slot) noexcept {
    GpuQueue& gpu = *line.gpu;
    const std::byte* const from = gpu.view.buffer(slot.index);
    const std::size_t bytes = used(gpu.view, slot.index);
    void* arguments[] = {&gpu.resident, const_cast<void*>(gpu.value), &slot.buffer};
    if (const trigger::Conditions* conditions = line.conditions.at(slot.buffer.n)) {
      fill(*slot.table, *conditions);
      if (const auto e = cudaMemcpyAsync(const_cast<std::int16_t*>(slot.buffer.conditions), slot.table,
                                         table_bytes, cudaMemcpyHostToDevice, slot.stream))
        return e;
    }
    if (const auto e = cudaMemcpyAsync(slot.in, from, bytes, cudaMemcpyHostToDevice, slot.stream)) return e;
    if (const auto e = cudaLaunchKernel(gpu.kernel->once, dim3(1), dim3(gpu.threads), arguments,
                                        gpu.shared_bytes, slot.stream))
      return e;
    return cudaMemcpyAsync(slot.answer, slot.buffer.answer, sizeof(Answer), cudaMemcpyDeviceToHost,
                           slot.stream);
  }

  // Posts the answer of the oldest buffer in flight.
  void complete(Line& line) noexcept {
    Slot& slot = *line.flying.front();
    line.flying.pop_front();
    const contract::View& view = line.gpu->view;
    const Nanoseconds now = monotonic_now();
    trigger::Trace trace = slot.answer->trace;
    const Nanoseconds work = trace.reconstructed - trace.built;
    trace.seen = slot.seen;  // includes copies and launch, before the device's `built`
    trace.reconstructed = now;
    trace.built = std::max(now - work, slot.seen);
    const std::uint32_t bytes = slot.answer->packet[1] & 0xFFFF;
    std::memcpy(view.send_buffer(slot.index), slot.answer->packet, bytes);
    trace.posted = monotonic_now();
    line.service.add(trace.posted - trace.seen);
    const std::uint64_t n = slot.buffer.n;
    traces_[n] = trace;
    contract::post(view, n, view.send_buffer(slot.index), bytes, 0, slot.index);
    contract::return_buffer(view, n);
    line.queue.finish_before(line.flying.empty() ? line.queue.next() : line.flying.front()->k);
  }

  bool skips(Line& line, const contract::Event& event, std::uint64_t n, Nanoseconds now) noexcept {
    const trigger::LoadShedder shedder{execute_.deadline};
    const trigger::WaitingFrame frame{n, static_cast<Nanoseconds>(event.time_ns), now};
    return shedder.skips(frame, trigger::read_progress(traces_), line.service.expected(), line.keep_from);
  }

  void run(Line& line) noexcept {
    serve(line);
    // One lost GPU ends all threads; the last one starts the failover.
    if (--working_ == 0 && failover_.lost()) failover_.take_over();
  }
  void serve(Line& line) noexcept {
    GpuQueue& gpu = *line.gpu;
    const contract::View& view = gpu.view;
    if (!execute_.pin.empty()) {
      try {
        os::pin_this_thread(execute_.pin[0]);
      } catch (const std::exception&) {  // continues unpinned
      }
    }
    cudaError_t status = cudaSetDevice(gpu.device());
    bool free[slots];
    std::fill(std::begin(free), std::end(free), true);
    unsigned spins = 0;
    Nanoseconds moved = monotonic_now();
    std::string why;
    while (status == cudaSuccess) {
      if (failover_.lost()) return line.flying.clear();
      if (!line.flying.empty()) {
        Slot& oldest = *line.flying.front();
        status = cudaStreamQuery(oldest.stream);
        if (status == cudaSuccess) {
          free[oldest.buffer.slot] = true;
          complete(line);
          moved = monotonic_now();
          continue;
        }
        if (status != cudaErrorNotReady) break;
        status = cudaSuccess;
        if (monotonic_now() - moved > options_.stall + 1'000'000'000) {
          why = "a launch does not end";
          break;
        }
      }
      Slot* slot = nullptr;
      for (unsigned s = 0; s < slots && !slot; ++s)
        if (free[s]) slot = &line.slot[s];
      if (!slot) continue;
      const bool ending = ending_.load(std::memory_order_acquire);
      contract::Event event;
      const contract::Poll found = line.queue.poll(event);
      if (found == contract::Poll::overrun) {
        overrun_ = true;
        return;
      }
      if (found == contract::Poll::nothing) {
        if (!line.flying.empty()) continue;
        if (ending) {
          mirror(line);
          return;
        }
        if (!execute_.busy && ++spins > 4000) std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (const Nanoseconds now = monotonic_now(); now - line.mirrored > 100'000'000) {
          line.mirrored = now;
          mirror(line);
        }
        continue;
      }
      spins = 0;
      const std::uint64_t k = line.queue.next() - 1;
      if (event.type != static_cast<std::uint8_t>(contract::EventType::receive_done) ||
          event.buffer >= view.shape.buffers) {
        if (line.flying.empty()) line.queue.finish();
        continue;
      }
      slot->seen = monotonic_now();
      if (skips(line, event, line.queue.n(), slot->seen)) {
        contract::return_buffer(view, line.queue.n());
        if (line.flying.empty()) line.queue.finish();
        continue;
      }
      slot->k = k;
      slot->index = event.buffer;
      slot->buffer.n = line.queue.n();
      slot->buffer.frame = event.frame;
      slot->buffer.flags = event.flags;
      if (line.flying.empty()) {
        moved = slot->seen;
        line.queue.finish_before(k);
      }
      if (options_.injection.kind != Injection::Kind::none && line.queue.n() >= options_.injection.at) {
        why = "a fault on purpose";
        break;
      }
      status = send_off(line, *slot);
      free[slot->buffer.slot] = false;
      line.flying.push_back(slot);
    }
    line.flying.clear();
    failover_.lose(why.empty() ? cudaGetErrorString(status) : why);
  }
  // Copies the monitor's counts to pinned host memory.
  static void mirror(Line& line) noexcept {
    cudaMemcpyAsync(line.gpu->resident.mirror, line.gpu->resident.counts, sizeof(Counts),
                    cudaMemcpyDeviceToHost, line.gpu->stream);
    cudaStreamSynchronize(line.gpu->stream);
  }

  PipelineOptions options_;
  trigger::ExecutorOptions execute_;
  trigger::TraceTable& traces_;
  Failover& failover_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::atomic<std::size_t> working_{0};  // threads at their queues
  std::atomic<bool> ending_{false}, overrun_{false};
  bool running_ = false;
};

}  // namespace

std::unique_ptr<DeviceExecutor> make_launch_executor(const PipelineOptions& options,
                                                     const trigger::ExecutorOptions& execute,
                                                     const std::vector<contract::View>& views,
                                                     const rich::Reconstructor& algorithm,
                                                     trigger::TraceTable& traces, int gpus,
                                                     Failover& failover) {
  return std::make_unique<LaunchExecutor>(options, execute, views, algorithm, traces, gpus, failover);
}

}  // namespace nanet::gpu
