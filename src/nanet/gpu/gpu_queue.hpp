// SPDX-License-Identifier: Apache-2.0
// Event queue on its GPU: registered memory, device memory, kernel and kernel arguments. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "nanet/gpu/cuda_error.hpp"
#include "nanet/gpu/mailbox_pages.hpp"
#include "nanet/gpu/pinned_pages.hpp"
#include "nanet/gpu/pipeline.hpp"
#include "nanet/gpu/resident/resident.hpp"
#include "nanet/trigger/account/physics.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::gpu {

class GpuQueue {
 public:
  // areas: blocks or launches that process frames at the same time; 0: default of the kernel. Throws
  // std::runtime_error.
  GpuQueue(int device, const contract::View& view, const trigger::ExecutorOptions& execute,
           const rich::Reconstructor& algorithm, trigger::TraceTable& traces, unsigned areas,
           std::size_t area_bytes);
  ~GpuQueue();
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  int device() const noexcept { return device_; }
  void use() const;  // selects this GPU in the calling thread
  Control& control() const noexcept { return *reinterpret_cast<Control*>(pages_->host()); }
  // Updates the monitor's counts. One thread at a time.
  void refresh(trigger::Physics& physics);
  // Reads masks and time offsets from a board that another process writes.
  void read_conditions(const ConditionsBoard& board);
  // Opens the mailbox in this memory; without it, mailbox.input stays null. Before the kernel's first start.
  void open_mailbox(MailboxMemory memory);
  void close_mailbox() noexcept;
  // State of the kernels: cudaErrorNotReady while one of them runs.
  cudaError_t query() const noexcept;
  // After a loss: does not free memory that a kernel or a failed context may still use.
  void abandon() noexcept { lost_ = true; }

  contract::View view;
  contract::Mailbox mailbox;  // addresses of the CPU
  std::string mailbox_memory = "off";
  Resident resident;
  const FrameKernel* kernel = nullptr;
  const void* value = nullptr;  // parameters of the algorithm
  std::size_t shared_bytes = 0;
  std::size_t resident_bytes = 0;  // shared memory of the resident kernel; shared_bytes: of `once`
  unsigned threads = 0;            // per block
  unsigned areas = 0;
  unsigned resident_blocks = 0;  // supervisor and frame blocks
  struct Serving {
    unsigned blocks = 0, threads = 0;
    std::size_t bytes = 0;  // shared memory
    cudaStream_t stream = nullptr;
  } serving, teams;  // kernels beside the resident one
  cudaStream_t stream = nullptr;
  std::byte* area = nullptr;  // area_bytes for each area, in device memory

 private:
  template <class T>
  T* device_memory(std::size_t entries, const char* what);
  std::byte* registered(void* at, std::size_t bytes, const char* what);
  bool at_rest() const noexcept;

  int device_;
  bool lost_ = false;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  std::unique_ptr<PinnedPages> pages_;
  std::unique_ptr<MailboxPages> mailbox_pages_;
  std::vector<void*> allocated_, registered_;
  std::uint32_t version_[samples] = {};
  std::unique_ptr<Sample> sample_ = std::make_unique<Sample>();  // copy for the reader
};

}  // namespace nanet::gpu
