// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/gpu_queue.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "nanet/contract/atomic.hpp"
#include "nanet/generated/kernels.hpp"
#include "nanet/gpu/kernels/plugin_frame_kernel.hpp"
#include "nanet/gpu/kernels/registry.hpp"
#include "nanet/gpu/resident/sampled.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/rich/geometry.hpp"

namespace nanet::gpu {
namespace {

// Loads all kernels with the first context: loading one later would wait for the resident kernel.
[[maybe_unused]] const int eager = setenv("CUDA_MODULE_LOADING", "EAGER", 0);

// Registered regions with reference counts: queues share the trace table.
struct Registry {
  std::mutex mutex;
  std::vector<std::pair<void*, unsigned>> entries;
};
Registry& registry() {
  static Registry r;
  return r;
}

void forget(void* at) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (auto it = r.entries.begin(); it != r.entries.end(); ++it)
    if (it->first == at && --it->second == 0) {
      cudaHostUnregister(at);
      r.entries.erase(it);
      return;
    }
}

}  // namespace

const FrameKernel* find_frame_kernel(std::string_view algorithm) {
  static const std::vector<FrameKernel> all = [] {
    std::vector<FrameKernel> kernels;
    for (const auto& make : frame_kernels) kernels.push_back(make());
    return kernels;
  }();
  for (const FrameKernel& kernel : all)
    if (kernel.name == algorithm) return &kernel;
  if (const rich::Plugin* plugin = rich::find_plugin(algorithm)) return &plugin_frame_kernel(*plugin);
  return nullptr;
}

template <class T>
T* GpuQueue::device_memory(std::size_t entries, const char* what) {
  void* at = nullptr;
  require(cudaMalloc(&at, entries * sizeof(T)), std::string("device memory for ") + what);
  allocated_.push_back(at);
  require(cudaMemset(at, 0, entries * sizeof(T)), std::string("clearing ") + what);
  return static_cast<T*>(at);
}

std::byte* GpuQueue::registered(void* at, std::size_t bytes, const char* what) {
  Registry& r = registry();
  {
    const std::lock_guard lock(r.mutex);
    const auto it =
        std::find_if(r.entries.begin(), r.entries.end(), [&](const auto& e) { return e.first == at; });
    if (it != r.entries.end()) {
      ++it->second;
    } else {
      require(cudaHostRegister(at, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
              std::string("registering ") + what);
      r.entries.emplace_back(at, 1);
    }
  }
  registered_.push_back(at);
  void* seen = nullptr;
  require(cudaHostGetDevicePointer(&seen, at, 0), std::string("the device address of ") + what);
  return static_cast<std::byte*>(seen);
}

GpuQueue::GpuQueue(int device, const contract::View& v, const trigger::ExecutorOptions& execute,
                   const rich::Reconstructor& algorithm, trigger::TraceTable& traces, unsigned wanted,
                   std::size_t area_bytes)
    : view(v), device_(device), algorithm_(algorithm.clone()) {
  use();
  kernel = find_frame_kernel(algorithm.name());
  if (!kernel) throw std::invalid_argument(no_kernel_message(algorithm.name()));
  value = algorithm_->value();
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, device), "the GPU's properties");
  resident.shape = view.shape;
  resident.sizes = BufferSizes::of(view.shape);
  // As many warps as the shared memory allows.
  for (threads = kernel->threads;; threads -= 32) {
    shared_bytes = kernel->shared_bytes(resident.sizes, threads);
    if (shared_bytes <= properties.sharedMemPerBlockOptin || threads <= 128) break;
  }
  if (shared_bytes > properties.sharedMemPerBlockOptin)
    throw std::runtime_error("cuda: a block needs " + std::to_string(shared_bytes) +
                             " B of shared memory, this GPU has " +
                             std::to_string(properties.sharedMemPerBlockOptin));
  resident_bytes = kernel->resident_bytes(resident.sizes, threads);
  unsigned team_warps = 0;
  if (kernel->serving) {
    team_warps = kernel->team_warps(value);
    const auto fit = [&](Serving& part, unsigned wanted_threads, unsigned warps) {
      for (part.threads = wanted_threads;; part.threads -= 32) {
        part.bytes = kernel->serving_bytes(part.threads, warps);
        if (part.bytes <= properties.sharedMemPerBlockOptin || part.threads <= 32) break;
      }
    };
    fit(serving, kernel->serving_threads, 0);
    if (team_warps) fit(teams, kernel->team_threads, team_warps);
    if (teams.threads / 32 < team_warps) team_warps = 0;  // shared memory for less than a team
  }
  for (const auto& [function, bytes] :
       {std::pair(kernel->resident, resident_bytes), std::pair(kernel->resident_merged, resident_bytes),
        std::pair(kernel->once, shared_bytes), std::pair(kernel->serving, serving.bytes),
        std::pair(kernel->serving_teams, teams.bytes)})
    if (function)
      require(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)),
              "shared memory of the kernel");
  int gpus = 1;
  require(cudaGetDeviceCount(&gpus), "GPUs");
  const unsigned queues =
      (view.shape.devices + static_cast<unsigned>(gpus) - 1) / static_cast<unsigned>(gpus);
  const unsigned most =  // one block is the supervisor
      std::max(2u, static_cast<unsigned>(properties.multiProcessorCount) / queues - 1);
  areas = wanted ? wanted : kernel->serving ? std::min(kernel->blocks, most * 3 / 10) : kernel->blocks;
  areas = std::clamp(areas, 1u, kernel->serving ? most - 1 : most);
  resident_blocks = 1 + areas;
  if (kernel->serving) {
    serving.blocks = most - areas;
    // Beginning events takes about a tenth of the warps' time, the searches the rest.
    if (team_warps && serving.blocks > 1) {
      teams.blocks = serving.blocks - (serving.blocks + 9) / 10;
      serving.blocks -= teams.blocks;
      resident.team_blocks = teams.blocks;
      resident.team_hits = kernel->team_hits(value);
    }
  }

  const ptrdiff_t to_device =
      registered(view.clop, view.bytes, "the CLOP") - view.clop;  // one offset for the whole region
  const auto there = [&](auto* at) {
    return reinterpret_cast<decltype(at)>(reinterpret_cast<std::uintptr_t>(at) +
                                          static_cast<std::uintptr_t>(to_device));
  };
  resident.clop = there(view.clop);
  resident.returned = there(view.returned);
  resident.queue = there(view.queue);
  resident.finished = there(view.finished);
  resident.ring = there(view.ring);
  resident.send_buffers = there(view.send_buffers);
  resident.send_address = reinterpret_cast<std::uintptr_t>(view.send_buffers);
  resident.doorbell = there(view.doorbell);
  resident.traces =
      reinterpret_cast<trigger::Trace*>(registered(traces.data(), traces.bytes(), "the trace table"));
  resident.trace_mask = traces.mask();
  resident.progress = trigger::TraceTable::progress_at(resident.traces, traces.mask() + 1);
  resident.shedder.deadline = execute.deadline;
  resident.options.decision = execute.process.decision;
  resident.options.window = static_cast<std::uint32_t>(execute.process.window_lsb);
  resident.options.source = execute.process.source;
  resident.options.downscaling = execute.process.downscale.any();
  std::copy(execute.process.downscale.factor.begin(), execute.process.downscale.factor.end(),
            resident.options.factor);

  const std::size_t mirror_at = round_up(sizeof(Control)), samples_at = mirror_at + round_up(sizeof(Counts));
  const std::size_t conditions_at = (samples_at + sizeof(Sample) * samples + 63) / 64 * 64;
  pages_ = std::make_unique<PinnedPages>(conditions_at + sizeof(ConditionsBoard));
  resident.control = reinterpret_cast<Control*>(pages_->device());
  resident.mirror = reinterpret_cast<Counts*>(pages_->device() + mirror_at);
  resident.samples = reinterpret_cast<Sample*>(pages_->device() + samples_at);
  if (execute.process.conditions) {
    resident.conditions = reinterpret_cast<const ConditionsBoard*>(pages_->device() + conditions_at);
    execute.process.conditions->follow(
        [board = reinterpret_cast<ConditionsBoard*>(pages_->host() + conditions_at)](
            std::uint64_t from, const trigger::Conditions& conditions) {
          publish(*board, from, conditions);
        });
  }

  resident.state = device_memory<QueueState>(1, "the queue's state");
  resident.done = device_memory<std::uint32_t>(view.shape.events, "finished entries");
  resident.counts = device_memory<Counts>(1, "the monitor's counts");
  resident.large_bytes = (resident.sizes.large_bytes() + 127) / 128 * 128;
  resident.large = device_memory<std::byte>(resident.large_bytes * areas, "large frames");
  resident.rings = device_memory<rich::Rings>(std::size_t{resident.sizes.fragments} * areas, "rings");
  if (kernel->serving) {
    resident.owner_blocks = areas;
    resident.task_bits = contract::exponent(power_of_two(areas * tasks_at_once));
    resident.task_hits_capacity =
        (std::max(resident.sizes.large_hits(), shared_raw_bytes / 2) + 63) / 64 * 64;
    resident.tasks = device_memory<Task>(std::size_t{1} << resident.task_bits, "events handed out");
    resident.team_tasks = device_memory<Task>(std::size_t{1} << resident.task_bits, "events of teams");
    resident.task_hits = device_memory<PmId>(std::size_t{resident.task_hits_capacity} * areas, "their hits");
    resident.task_results = device_memory<TaskResult>(std::size_t{tasks_at_once} * areas, "their answers");
    resident.tasks_done = device_memory<std::uint32_t>(std::size_t{line_words} * areas, "their count");
  }
  if (area_bytes) area = device_memory<std::byte>(area_bytes * areas, "buffers");
  std::vector<rich::Point> plane(plane_entries);
  const auto& positions = execute.process.detector->common;
  if (positions.size() > pm_count)
    throw std::logic_error("detector: executor_kind() chooses no frame kernel for so many channels");
  std::copy(positions.begin(), positions.end(), plane.begin());
  auto* const on_device = device_memory<rich::Point>(plane_entries, "the positions of PMs");
  require(cudaMemcpy(on_device, plane.data(), plane.size() * sizeof(rich::Point), cudaMemcpyHostToDevice),
          "copying the positions of PMs");
  resident.plane = on_device;
  for (cudaStream_t* each : {&stream, &serving.stream, &teams.stream})
    require(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking), "a stream");
  require(cudaDeviceSynchronize(), "setting up");
}

cudaError_t GpuQueue::query() const noexcept {
  cudaError_t status = cudaSuccess;
  for (cudaStream_t each : {stream, serving.stream, teams.stream}) {
    const cudaError_t one = cudaStreamQuery(each);
    if (one != cudaSuccess && one != cudaErrorNotReady) return one;
    if (one != cudaSuccess) status = one;
  }
  return status;
}

// The kernel has ended and the context is valid: the GPU had only stalled.
bool GpuQueue::at_rest() const noexcept {
  if (cudaSetDevice(device_) != cudaSuccess) return false;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (;;) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady || std::chrono::steady_clock::now() > until) return status == cudaSuccess;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GpuQueue::~GpuQueue() {
  if (lost_ && !at_rest()) {
    // The driver keeps these addresses as mapped memory. New users of the addresses could not map them again,
    // or a kernel that still runs would write there.
    static_cast<void>(pages_.release());
    static_cast<void>(mailbox_pages_.release());
    for (const void* at : registered_) os::keep_addresses(static_cast<const std::byte*>(at));
    return;
  }
  cudaSetDevice(device_);
  for (cudaStream_t each : {stream, serving.stream, teams.stream}) cudaStreamDestroy(each);
  for (void* at : allocated_) cudaFree(at);
  for (void* at : registered_) forget(at);
}

void GpuQueue::read_conditions(const ConditionsBoard& board) {
  use();
  resident.conditions = reinterpret_cast<const ConditionsBoard*>(
      registered(const_cast<ConditionsBoard*>(&board), sizeof board, "the conditions"));
}

void GpuQueue::open_mailbox(MailboxMemory memory) {
  use();
  mailbox_pages_ = std::make_unique<MailboxPages>(device_, view.shape, memory);
  mailbox = mailbox_pages_->host();
  resident.mailbox = mailbox_pages_->device();
  mailbox_memory = mailbox_pages_->memory();
  if (!mailbox.input) return;
  const bool in_gpu_memory = mailbox_pages_->in_gpu_memory();
  resident.mailbox_in_gpu_memory = in_gpu_memory;
  resident.early_distance = in_gpu_memory ? 4 : 2;
  resident.early_pause = in_gpu_memory ? 0 : 400;
}

void GpuQueue::close_mailbox() noexcept {
  mailbox = {};
  resident.mailbox = {};
  mailbox_pages_.reset();
}

void GpuQueue::use() const {
  require(cudaSetDevice(device_), "GPU " + std::to_string(device_));
}

void GpuQueue::refresh(trigger::Physics& physics) {
  const std::size_t mirror_at = round_up(sizeof(Control)), samples_at = mirror_at + round_up(sizeof(Counts));
  const auto& counts = *reinterpret_cast<const Counts*>(pages_->host() + mirror_at);
  stats::for_each_histogram(
      [](const stats::HistogramDescription&, auto& to, const auto& from) {
        for (std::size_t i = 0; i < std::size(from); ++i) to[i].set(contract::relaxed(from[i]));
      },
      physics, counts);
  physics.sampled_events.set(contract::relaxed(counts.sampled_events));
  const auto* const ring = reinterpret_cast<const Sample*>(pages_->host() + samples_at);
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint32_t version = contract::acquire(ring[i].version);
    if (version == version_[i] || version & 1) continue;
    std::memcpy(static_cast<void*>(sample_.get()), &ring[i], sizeof *sample_);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (contract::relaxed(ring[i].version) != version) continue;
    version_[i] = version;
    physics.keep(sampled_event(*sample_, resident.options.window));
  }
}

}  // namespace nanet::gpu
