// SPDX-License-Identifier: Apache-2.0
// Persistent kernels as consumers of a CLOP (docs/writing-algorithms.md). Every block of threads runs
//
//     __shared__ nanet::gpu::Work work;
//     while (nanet::gpu::poll(clop, work)) {            // false: stopped, and the queue is empty
//       for (unsigned i = 0; i < nanet::gpu::payloads(clop); ++i)
//         look_at(nanet::gpu::payload(clop, work, i));
//       write_to(nanet::gpu::send_buffer(clop, work));
//       nanet::gpu::post(clop, work, bytes);            // the answer first,
//       nanet::gpu::release(clop, work);                // then the buffer
//     }
//
// with all its threads in each call. On the host, GpuClop provides `clop`. Without CUDA a block is one host
// thread, and the protocol is the same (contract/consumer.hpp): it is tested without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/contract/consumer.hpp"
#include "nanet/gpu/device_code.hpp"

#ifdef __CUDACC__
#include <stdexcept>
#include <string>
#endif

namespace nanet::gpu {

// Kernel argument. Pointers are device addresses.
struct Clop {
  contract::Shape shape;
  const std::byte* clop = nullptr;
  std::byte* send_buffers = nullptr;
  std::uint64_t send_address = 0;  // of send_buffers, for the card
  const contract::Event* queue = nullptr;
  contract::Descriptor* ring = nullptr;
  std::uint32_t* returned = nullptr;
  std::uint64_t* finished = nullptr;
  std::uint32_t* doorbell = nullptr;
  const std::uint32_t* stop = nullptr;  // not 0: finish the entries in the queue, then end
  contract::SharedReader* state = nullptr;
  std::uint32_t* done = nullptr;  // lap of each entry that is finished; shape.events of them
};

// Buffer of a block; in shared memory.
struct Work {
  std::uint64_t n = 0;  // number of the buffer
  std::uint64_t time_ns = 0;
  std::uint32_t buffer = 0, frame = 0, flags = 0;  // flags: contract::event_flag
  std::uint64_t k = 0;                             // entry of the event
  std::uint32_t going = 0;
};

struct Payload {
  const std::byte* at = nullptr;
  std::uint32_t bytes = 0;  // 0: empty
};

namespace detail {

// Takes entries until one is a buffer. One thread. False: the consumer must stop.
NANET_DEVICE_CODE bool take_buffer(const Clop& clop, Work& work) {
  for (;;) {
    contract::Event event;
    if (contract::take_entry<Access>(
            clop, *clop.state, clop.done, [&] { return Access::acquire(*clop.stop) != 0; }, [] { relax(); },
            work.k, event, work.n) != contract::Poll::event)
      return false;
    if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done) &&
        event.buffer < clop.shape.buffers) {
      work.buffer = event.buffer;
      work.frame = event.frame;
      work.time_ns = event.time_ns;
      work.flags = event.flags;
      return true;
    }
    contract::finish_entry<Access>(clop, *clop.state, clop.done, work.k);
  }
}

}  // namespace detail

// Waits for the next buffer. False: stopped and the queue is empty, or the card has lapped this reader
// (SharedReader::overrun). Every thread of the block then sees the card's writes to the buffer.
NANET_DEVICE_CODE bool poll(const Clop& clop, Work& work) {
  detail::barrier();  // all threads have finished with `work` of the previous buffer
  if (detail::leads()) work.going = detail::take_buffer(clop, work);
  detail::barrier();
  return work.going != 0;
}

// Of a buffer: payload slots (gather packets) or boards (gather frame).
NANET_DEVICE_CODE unsigned payloads(const Clop& clop) {
  return clop.shape.gather == contract::Gather::frame ? clop.shape.boards : clop.shape.packets;
}

// Payload i: a packet with its header (gather packets), or the packets of board i, each at a 16 B boundary
// (gather frame). Never exceeds the buffer, for any content.
NANET_DEVICE_CODE Payload payload(const Clop& clop, const Work& work, unsigned i) {
  const contract::Shape& shape = clop.shape;
  const std::byte* const buffer = clop.clop + shape.buffer_bytes() * work.buffer;
  const bool frame = shape.gather == contract::Gather::frame;
  const std::uint32_t room = frame ? shape.segment_bytes : shape.slot_bytes;
  const std::byte* const at = buffer + (frame ? contract::frame_header_bytes : 0) + std::size_t{room} * i;
  // Frame: u16 bytes of the board's entry in the header. Packets: u16 length in the packet's own.
  const std::uint32_t said =
      *reinterpret_cast<const std::uint32_t*>(frame ? buffer + 8 + std::size_t{4} * i : at + 4) & 0xFFFF;
  return {at, said < room ? said : room};
}

// Of contract::send_buffer_bytes, for the answer.
NANET_DEVICE_CODE std::byte* send_buffer(const Clop& clop, const Work& work) {
  return clop.send_buffers + std::size_t{contract::send_buffer_bytes} * work.buffer;
}

// Posts the first `bytes` of the send buffer, written by any threads of the block. The card answers a number
// that is not posted before its release at the deadline.
NANET_DEVICE_CODE void post(const Clop& clop, const Work& work, std::uint32_t bytes,
                            std::uint32_t destination = 0) {
  detail::barrier();
  if (!detail::leads()) return;
  contract::post_descriptor<detail::Access>(
      clop, work.n, clop.send_address + std::uint64_t{contract::send_buffer_bytes} * work.buffer, bytes,
      destination, work.buffer);
}

// Returns the buffer to the card. The block no longer reads it or writes its send buffer.
NANET_DEVICE_CODE void release(const Clop& clop, const Work& work) {
  detail::barrier();
  if (!detail::leads()) return;
  contract::return_buffer<detail::Access>(clop, work.n, work.buffer);
  contract::finish_entry<detail::Access>(clop, *clop.state, clop.done, work.k);
}

#ifdef __CUDACC__

// Host side: registers the memory of a CLOP with the current GPU of the thread, and provides the kernel
// argument. Constructed before the card of the CLOP is started; destroyed before the CLOP. While a kernel
// runs, avoid CUDA calls that may wait for it (cudaMalloc, cudaFree, work on the legacy stream).
class GpuClop {
 public:
  // Throws std::runtime_error.
  explicit GpuClop(const contract::View& view) : host_(view.clop) {
    try {
      make(view);
    } catch (...) {
      free();
      throw;
    }
  }
  ~GpuClop() {
    stop();  // freeing waits for a kernel that still runs
    free();
  }
  GpuClop(const GpuClop&) = delete;
  GpuClop& operator=(const GpuClop&) = delete;

  // Kernel argument, before each launch. Entries claimed but not found by an earlier kernel are claimed
  // again.
  const Clop& begin() {
    *stop_ = 0;
    contract::SharedReader state;
    check(cudaMemcpy(&state, clop_.state, sizeof state, cudaMemcpyDeviceToHost), "reading the state");
    state.claimed = state.finished;
    check(cudaMemcpy(clop_.state, &state, sizeof state, cudaMemcpyHostToDevice), "writing the state");
    return clop_;
  }
  // The kernel finishes the entries written so far, and ends.
  void stop() noexcept { contract::HostAccess::release(*stop_, std::uint32_t{1}); }
  // After the kernel has ended: whether the card has lapped it.
  bool overrun() const {
    contract::SharedReader state;
    check(cudaMemcpy(&state, clop_.state, sizeof state, cudaMemcpyDeviceToHost), "reading the state");
    return state.overrun != 0;
  }

  static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
      throw std::runtime_error(std::string("cuda: ") + what + ": " + cudaGetErrorString(status));
  }

 private:
  void make(const contract::View& view) {
    check(cudaHostRegister(host_, view.bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
          "registering the CLOP");
    registered_ = true;
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, host_, 0), "the CLOP's device address");
    const auto there = [&](auto* at) {  // the same distance for all of the region
      return reinterpret_cast<decltype(at)>(static_cast<std::byte*>(seen) +
                                            (reinterpret_cast<const std::byte*>(at) - host_));
    };
    clop_.shape = view.shape;
    clop_.clop = there(view.clop);
    clop_.send_buffers = there(view.send_buffers);
    clop_.send_address = reinterpret_cast<std::uintptr_t>(view.send_buffers);
    clop_.queue = there(view.queue);
    clop_.ring = there(view.ring);
    clop_.returned = there(view.returned);
    clop_.finished = there(view.finished);
    clop_.doorbell = there(view.doorbell);
    check(cudaHostAlloc(reinterpret_cast<void**>(&stop_), sizeof *stop_, cudaHostAllocMapped),
          "the stop word");
    void* stop = nullptr;
    check(cudaHostGetDevicePointer(&stop, stop_, 0), "the stop word's device address");
    clop_.stop = static_cast<const std::uint32_t*>(stop);
    check(cudaMalloc(reinterpret_cast<void**>(&clop_.state), sizeof(contract::SharedReader)),
          "device memory");
    check(cudaMalloc(reinterpret_cast<void**>(&clop_.done), sizeof(std::uint32_t) * view.shape.events),
          "device memory");
    check(cudaMemset(clop_.done, 0, sizeof(std::uint32_t) * view.shape.events), "device memory");
    contract::SharedReader state;
    state.claimed = state.finished = contract::HostAccess::acquire(*view.finished);
    check(cudaMemcpy(clop_.state, &state, sizeof state, cudaMemcpyHostToDevice), "writing the state");
  }
  void free() noexcept {
    cudaFree(clop_.done);
    cudaFree(clop_.state);
    cudaFreeHost(stop_);
    if (registered_) cudaHostUnregister(host_);
  }

  std::byte* host_;
  bool registered_ = false;
  std::uint32_t* stop_ = nullptr;
  Clop clop_;
};

#endif

}  // namespace nanet::gpu
