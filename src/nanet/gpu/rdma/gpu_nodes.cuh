// SPDX-License-Identifier: Apache-2.0
// RDMA nodes on GPUs: put ring and event queues in GPU memory, and for each node a resident block of threads
// that stands for the card's DMA engines (rdma/emulated_card.hpp); no card was available behind a GPU. Nodes
// on one GPU exchange through its memory, others through NVLink or PCIe. A host thread runs the copy engines.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/contract/atomic.hpp"
#include "nanet/gpu/cuda_error.hpp"
#include "nanet/gpu/rdma/node_memory.hpp"

namespace nanet::gpu {

namespace detail {

// Loads all kernels with the first context: loading one later would wait for the resident blocks.
[[maybe_unused]] inline const int eager_kernels = setenv("CUDA_MODULE_LOADING", "EAGER", 0);

inline constexpr unsigned card_threads = 512;  // more spill registers

struct CardBlock {
  EmulatedCard card;
  CardState state;
};
static __global__ void __launch_bounds__(card_threads, 1) emulated_card(const EmulatedCard card) {
  extern __shared__ __align__(128) unsigned char shared[];
  CardBlock& block = *reinterpret_cast<CardBlock*>(shared);
  if (leads()) block.card = card;
  barrier();
  run_card(block.card, block.state);
}

}  // namespace detail

// While cards run, avoid CUDA calls that may wait for them: cudaFree, cudaHostRegister,
// cudaDeviceSynchronize, work on the legacy stream.
class GpuRdma {
 public:
  // Throws std::invalid_argument; std::runtime_error if a GPU is missing or cannot write another one's
  // memory.
  explicit GpuRdma(RdmaOptions options)
      : options_(std::move(options)), layout_(options_), table_(options_.gpus.size(), options_.buffers) {
    try {
      for (unsigned n = 0; n < options_.gpus.size(); ++n) make(n);
      for (Node& a : nodes_)
        for (const Node& b : nodes_) reach(a, b);
    } catch (...) {
      free();
      throw;
    }
  }
  ~GpuRdma() {
    stop();
    free();
  }
  GpuRdma(const GpuRdma&) = delete;
  GpuRdma& operator=(const GpuRdma&) = delete;

  unsigned nodes() const noexcept { return static_cast<unsigned>(nodes_.size()); }
  int gpu(unsigned node) const { return options_.gpus[node]; }
  static std::uint16_t domain(unsigned node) noexcept { return static_cast<std::uint16_t>(node + 1); }

  // Registers memory of a node for its own operations and for those of other nodes: memory of a GPU
  // (cudaMalloc), or pinned, mapped host memory. Returns the key for the other nodes. Cards that run have the
  // buffer when this returns. Throws std::invalid_argument or std::length_error.
  RdmaKey register_memory(unsigned node, const void* at, std::size_t bytes,
                          std::uint8_t rights = read_and_write) {
    const int where = bytes != 0 ? memory_of(at) : -1;
    if (bytes != 0 && memory_of(static_cast<const std::byte*>(at) + (bytes - 1)) != where)
      throw std::invalid_argument("register_memory: " + std::to_string(bytes) +
                                  " B reach beyond an allocation");
    const RdmaKey key = table_.add(node, at, bytes, where, rights, domain(node));
    publish_table();
    return key;
  }
  // The same; the memory must be that of GPU `gpu`, -1: of the host.
  RdmaKey register_memory(unsigned node, const void* at, std::size_t bytes, int gpu, std::uint8_t rights) {
    if (bytes != 0 && memory_of(at) != gpu)
      throw std::invalid_argument("register_memory: gpu = " + std::to_string(gpu) +
                                  ", but the memory is of " +
                                  (memory_of(at) < 0 ? "the host" : "GPU " + std::to_string(memory_of(at))));
    return register_memory(node, at, bytes, rights);
  }
  // No card uses the buffer when this returns. Throws std::invalid_argument.
  void unregister_memory(unsigned node, RdmaKey key) {
    table_.remove(node, key);
    publish_table();
  }

  // Starts the cards, with empty rings and queues.
  void start() {
    stop();
    command_ = 2;
    for (Node& node : nodes_) {
      require(cudaSetDevice(node.gpu), "GPU");
      const std::unique_ptr<CardControl> control = std::make_unique<CardControl>();
      control->command = command_;
      require(cudaMemsetAsync(node.base, 0, layout_.bytes, node.control), "clearing a node's memory");
      require(cudaMemcpyAsync(node.base, control.get(), sizeof(CardControl), cudaMemcpyHostToDevice,
                              node.control),
              "a node's control words");
      std::memcpy(node.staging->table, table_.data(), table_.bytes());
      require(cudaMemcpyAsync(node.base + layout_.table, node.staging->table, table_.bytes(),
                              cudaMemcpyHostToDevice, node.control),
              "the table of registered buffers");
      require(cudaStreamSynchronize(node.control), "setting up a node");
      std::memset(static_cast<void*>(node.staging->copies), 0, sizeof node.staging->copies);
      node.staging->copied = 0;
      node.requested = 0;
    }
    running_ = true;
    copier_ = std::jthread([this](const std::stop_token& stop) { run_copies(stop); });
    std::vector<std::byte*> bases;
    for (const Node& node : nodes_) bases.push_back(node.base);
    for (unsigned n = 0; n < nodes(); ++n) {
      const Node& node = nodes_[n];
      EmulatedCard card = card_argument(options_, layout_, bases, n);
      card.memory = static_cast<std::uint8_t>(node.gpu + 1);
      card.copies = node.staging_device->copies;
      card.copied = &node.staging_device->copied;
      require(cudaSetDevice(node.gpu), "GPU");
      detail::emulated_card<<<1, detail::card_threads, sizeof(detail::CardBlock), node.resident>>>(card);
      require(cudaGetLastError(), "starting an emulated card");
    }
    await_answers();
  }
  // Kernel argument for the blocks of a node, which run on its GPU while the cards run.
  Rdma argument(unsigned node) const {
    return rdma_argument(options_, layout_, nodes_[node].base, node, domain(node));
  }
  // The cards finish the operations posted so far and end.
  void stop() noexcept {
    if (!running_) return;
    running_ = false;
    for (Node& node : nodes_) {
      cudaSetDevice(node.gpu);
      node.staging->command = 1;
      cudaMemcpyAsync(&control(node)->command, &node.staging->command, sizeof(std::uint32_t),
                      cudaMemcpyHostToDevice, node.control);
    }
    for (Node& node : nodes_) cudaStreamSynchronize(node.resident);
    copier_ = {};  // requests stop and joins
  }
  // Throws std::runtime_error.
  RdmaCounters counters(unsigned node) {
    Node& from = nodes_[node];
    read(from, &from.staging->words, control(from), sizeof(CardControl));
    return counters_of(from.staging->words);
  }
  // GPUs of nodes a and b are different and exchange directly.
  bool far(unsigned a, unsigned b) const { return nodes_[a].gpu != nodes_[b].gpu; }

 private:
  // Pinned host memory of a node.
  struct Staging {
    CopyRequest copies[copy_requests];
    alignas(64) std::uint64_t copied;
    alignas(64) std::uint32_t command;
    CardControl words;
    torus::RegisteredBuffer table[max_registered];
  };
  struct Node {
    int gpu = 0;
    std::byte* base = nullptr;
    Staging* staging = nullptr;
    Staging* staging_device = nullptr;
    cudaStream_t resident = nullptr, control = nullptr, copies = nullptr;
    std::uint64_t requested = 0;  // copies taken from the card
    struct Batch {
      cudaEvent_t event;
      std::uint64_t requests;
    };
    std::deque<Batch> batches;
    std::vector<cudaEvent_t> events;
  };

  static CardControl* control(const Node& node) { return reinterpret_cast<CardControl*>(node.base); }

  void make(unsigned n) {
    Node& node = nodes_.emplace_back();
    node.gpu = options_.gpus[n];
    require(cudaSetDevice(node.gpu), "gpus: GPU " + std::to_string(node.gpu));
    void* at = nullptr;
    require(cudaMalloc(&at, layout_.bytes), "memory of a node");
    node.base = static_cast<std::byte*>(at);
    require(cudaHostAlloc(&at, sizeof(Staging), cudaHostAllocPortable | cudaHostAllocMapped),
            "pinned memory");
    node.staging = static_cast<Staging*>(at);
    std::memset(at, 0, sizeof(Staging));
    require(cudaHostGetDevicePointer(&at, node.staging, 0), "device address of pinned memory");
    node.staging_device = static_cast<Staging*>(at);
    for (cudaStream_t* each : {&node.resident, &node.control, &node.copies})
      require(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking), "a stream");
    for (unsigned i = 0; i < copy_requests; ++i) {
      cudaEvent_t event = nullptr;
      require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
      node.events.push_back(event);
    }
    require(cudaFuncSetAttribute(detail::emulated_card, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sizeof(detail::CardBlock))),
            "shared memory of an emulated card");
  }
  static void reach(const Node& a, const Node& b) {
    if (a.gpu == b.gpu) return;
    int can = 0;
    require(cudaDeviceCanAccessPeer(&can, a.gpu, b.gpu), "access between GPUs");
    if (can == 0)
      throw std::runtime_error("gpus: GPU " + std::to_string(a.gpu) + " cannot access memory of GPU " +
                               std::to_string(b.gpu) +
                               " (NVLink or PCIe peer-to-peer); put both nodes on one");
    require(cudaSetDevice(a.gpu), "GPU");
    const cudaError_t status = cudaDeviceEnablePeerAccess(b.gpu, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      static_cast<void>(cudaGetLastError());
    else
      require(status, "access between GPUs");
  }
  // Number of the GPU, -1: pinned host memory with the same address on the GPU. Throws std::invalid_argument.
  static int memory_of(const void* at) {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, at) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      found.type = cudaMemoryTypeUnregistered;
    }
    if (found.type == cudaMemoryTypeDevice) return found.device;
    if (found.type == cudaMemoryTypeHost && found.devicePointer == at) return -1;
    throw std::invalid_argument(
        "register_memory: the memory is neither of a GPU (cudaMalloc) nor pinned (cudaHostAlloc, "
        "cudaHostRegister)");
  }
  void publish_table() {
    if (!running_) return;
    command_ += 2;
    for (Node& node : nodes_) {
      std::memcpy(node.staging->table, table_.data(), table_.bytes());
      node.staging->command = command_;
      require(cudaSetDevice(node.gpu), "GPU");
      require(cudaMemcpyAsync(node.base + layout_.table, node.staging->table, table_.bytes(),
                              cudaMemcpyHostToDevice, node.control),
              "the table of registered buffers");
      require(cudaMemcpyAsync(&control(node)->command, &node.staging->command, sizeof(std::uint32_t),
                              cudaMemcpyHostToDevice, node.control),
              "a command");
    }
    await_answers();
  }
  void await_answers() {
    for (Node& node : nodes_) do
        read(node, &node.staging->words.answered, &control(node)->answered, sizeof(std::uint32_t));
      while (node.staging->words.answered != command_);
  }
  static void read(Node& node, void* to, const void* from, std::size_t bytes) {
    require(cudaSetDevice(node.gpu), "GPU");
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, node.control), "a node's control words");
    require(cudaStreamSynchronize(node.control), "a node's control words");
  }

  // Starts the copies requested by a card as one batch; publishes finished ones. Returns false if idle.
  static bool serve(Node& node) {
    const std::uint64_t before = node.requested;
    for (;;) {
      const CopyRequest& request = node.staging->copies[node.requested % copy_requests];
      const auto lap = static_cast<std::uint32_t>(node.requested / copy_requests) + 1;
      if (contract::acquire(request.lap) != lap) break;
      cudaMemcpyAsync(request.to, request.from, request.bytes, cudaMemcpyDefault, node.copies);
      ++node.requested;
    }
    if (node.requested != before) {
      const cudaEvent_t event = node.events[before % copy_requests];
      cudaEventRecord(event, node.copies);
      node.batches.push_back({event, node.requested});
    }
    if (node.batches.empty()) return false;
    if (cudaEventQuery(node.batches.front().event) == cudaSuccess) {
      contract::release(node.staging->copied, node.batches.front().requests);
      node.batches.pop_front();
    }
    return true;
  }
  void run_copies(const std::stop_token& stop) {
    using std::chrono::microseconds;
    constexpr unsigned polls_awake = 100'000;
    unsigned idle = 0;
    while (!stop.stop_requested()) {
      bool busy = false;
      for (Node& node : nodes_) {
        cudaSetDevice(node.gpu);
        busy |= serve(node);
      }
      idle = busy ? 0 : idle + 1;
      if (idle > polls_awake) std::this_thread::sleep_for(microseconds(20));
    }
  }

  void free() noexcept {
    for (Node& node : nodes_) {
      cudaSetDevice(node.gpu);
      for (const cudaEvent_t event : node.events) cudaEventDestroy(event);
      for (const cudaStream_t stream : {node.resident, node.control, node.copies})
        if (stream != nullptr) cudaStreamDestroy(stream);
      cudaFreeHost(node.staging);
      cudaFree(node.base);
    }
  }

  RdmaOptions options_;
  NodeLayout layout_;
  BufferTable table_;
  std::vector<Node> nodes_;
  std::jthread copier_;
  std::uint32_t command_ = 0;
  bool running_ = false;
};

}  // namespace nanet::gpu
