// SPDX-License-Identifier: Apache-2.0
// Memory of one device's mailbox (contract/mailbox.hpp): GPU memory or pinned host memory for what the card
// writes, pinned host memory for answers. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/bar_memory.hpp"
#include "nanet/gpu/cuda_error.hpp"
#include "nanet/gpu/mailbox_kind.hpp"
#include "nanet/gpu/pinned_pages.hpp"

namespace nanet::gpu {

class MailboxPages {
 public:
  // device: CUDA number; shape: of the CLOP. None with kind `off`, in gather mode packets, on other hosts
  // than x86-64, and above 1 GiB; memory() then gives the reason. Throws std::runtime_error, also for GPU
  // memory that is wanted and not there. The card, and kernels, must have ended before the pages are
  // destroyed.
  MailboxPages(int device, const contract::Shape& shape, MailboxMemory kind) {
    constexpr std::size_t most_bytes = 1024u << 20;
    if (kind == MailboxMemory::off || shape.gather != contract::Gather::frame || !contract::has_mailbox)
      return;
    require(cudaSetDevice(device), "GPU " + std::to_string(device));
    const auto sizes = contract::MailboxShape::of(shape);
    if (sizes.input_bytes() > most_bytes) {
      memory_ = "off: it would take " + std::to_string(sizes.input_bytes() >> 20) + " MiB";
      return;
    }
    std::string why;
    if (kind != MailboxMemory::pinned) bar_ = BarMemory::open(device, sizes.input_bytes(), why, kind);
    if (!bar_ && kind != MailboxMemory::pinned && kind != MailboxMemory::automatic)
      throw std::runtime_error("mailbox in GPU memory: no GPU memory for CPU stores: " + why +
                               "; take mailbox = pinned");
    if (!bar_) input_ = std::make_unique<PinnedPages>(sizes.input_bytes());
    answers_ = std::make_unique<PinnedPages>(sizes.answer_bytes());
    host_ = {sizes, bar_ ? bar_->host() : input_->host(), answers_->host()};
    device_ = {sizes, bar_ ? bar_->device() : input_->device(), answers_->device()};
    memory_ = bar_ ? std::string("gpu (") + bar_->way() + ")" : why.empty() ? "pinned" : "pinned: " + why;
  }

  // Addresses of the CPU, for card::Stream::use_mailboxes(), and of the GPU, for GpuClop. input null: none.
  const contract::Mailbox& host() const noexcept { return host_; }
  const contract::Mailbox& device() const noexcept { return device_; }
  bool in_gpu_memory() const noexcept { return bar_ != nullptr; }
  // gpu (vulkan), gpu (gdrdrv), pinned or off, with the reason.
  const std::string& memory() const noexcept { return memory_; }

 private:
  std::unique_ptr<BarMemory> bar_;
  std::unique_ptr<PinnedPages> input_, answers_;
  contract::Mailbox host_, device_;
  std::string memory_ = "off";
};

}  // namespace nanet::gpu
