// SPDX-License-Identifier: Apache-2.0
// A persistent kernel of one's own as the consumer of a CLOP (docs/writing-algorithms.md): every block of
// threads
//
//     __shared__ nanet::gpu::Work work;
//     while (nanet::gpu::poll(clop, work)) {            // false: told to stop, and nothing is left
//       for (unsigned i = 0; i < nanet::gpu::payloads(clop); ++i)
//         look_at(nanet::gpu::payload(clop, work, i));
//       write_to(nanet::gpu::send_buffer(clop, work));
//       nanet::gpu::post(clop, work, bytes);            // the answer first,
//       nanet::gpu::release(clop, work);                // then the buffer
//     }
//
// with all its threads in each call. On the host GpuClop gives the kernel its `clop`. Compiled without CUDA a
// block is one host thread, and all the rest is the same: so it is tested where there is no GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/contract/queue.hpp"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "nanet/gpu/device_access.cuh"
#define NANET_DEVICE_CODE __device__ inline
#else
#include <atomic>
#include <thread>
#define NANET_DEVICE_CODE inline
#endif

namespace nanet::gpu {

// The consumer's own state, in device memory.
struct State {
  std::uint64_t claimed = 0;    // entries of the event queue taken by blocks
  std::uint64_t finished = 0;   // entries before which all are finished
  std::uint64_t reference = 0;  // an n of a little while ago
  std::uint32_t lock = 0;       // of `finished`
  std::uint32_t overrun = 0;    // the card has lapped this reader, which has stopped
};

// What a kernel is told, by value. Pointers are the device's.
struct Clop {
  contract::Shape shape;
  const std::byte* buffers = nullptr;
  std::byte* send_buffers = nullptr;
  std::uint64_t send_address = 0;  // of send_buffers, as the card knows it
  const contract::Event* queue = nullptr;
  contract::Descriptor* ring = nullptr;
  std::uint32_t* returned = nullptr;
  std::uint64_t* finished = nullptr;
  std::uint32_t* doorbell = nullptr;
  const std::uint32_t* stop = nullptr;  // not 0: finish what has been written to the queue, and end
  State* state = nullptr;
  std::uint32_t* done = nullptr;  // lap of each entry that is finished; shape.events of them
};

// The buffer that a block has; in shared memory.
struct Work {
  std::uint64_t n = 0;  // number of the buffer
  std::uint64_t time_ns = 0;
  std::uint32_t buffer = 0, frame = 0, flags = 0;  // flags: contract::event_flag
  std::uint32_t entry = 0, lap = 0;                // of the event
  std::uint32_t going = 0;
};

struct Payload {
  const std::byte* at = nullptr;
  std::uint32_t bytes = 0;  // 0: nothing there
};

namespace detail {

#ifdef __CUDACC__

NANET_DEVICE_CODE bool leads() {
  return threadIdx.x == 0;
}
NANET_DEVICE_CODE void barrier() {
  __syncthreads();
}
NANET_DEVICE_CODE void relax() {
  __nanosleep(100);
}
NANET_DEVICE_CODE std::uint32_t acquire(const std::uint32_t* at) {
  return load_acquire_system(at);
}
template <class T>
NANET_DEVICE_CODE void release(T* at, T value) {
  store_release_system(at, value);
}
template <class T>
NANET_DEVICE_CODE T peek(const T* at) {
  return load_relaxed_system(at);
}
template <class T>
NANET_DEVICE_CODE void put(T* at, T value) {
  store_relaxed_system(at, value);
}
// Type and flags of an event, in bits 7:0 and 31:16.
NANET_DEVICE_CODE std::uint32_t head(const contract::Event& e) {
  return peek(reinterpret_cast<const std::uint32_t*>(&e));
}
NANET_DEVICE_CODE std::uint64_t take(std::uint64_t* counter) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull);
}
NANET_DEVICE_CODE std::uint32_t exchange(std::uint32_t* at, std::uint32_t value) {
  return atomicExch(at, value);
}
NANET_DEVICE_CODE void fence() {
  __threadfence();  // sequentially consistent among the blocks of the device
}

#else

inline bool leads() {
  return true;
}
inline void barrier() {}
inline void relax() {
  std::this_thread::yield();
}
inline std::uint32_t acquire(const std::uint32_t* at) {
  return contract::acquire(*at);
}
template <class T>
inline void release(T* at, T value) {
  contract::release(*at, value);
}
template <class T>
inline T peek(const T* at) {
  return contract::relaxed(*at);
}
template <class T>
inline void put(T* at, T value) {
  contract::relax(*at, value);
}
inline std::uint32_t head(const contract::Event& e) {
  return peek(&e.type) | static_cast<std::uint32_t>(peek(&e.flags)) << 16;
}
inline std::uint64_t take(std::uint64_t* counter) {
  return std::atomic_ref(*counter).fetch_add(1);
}
inline std::uint32_t exchange(std::uint32_t* at, std::uint32_t value) {
  return std::atomic_ref(*at).exchange(value);
}
inline void fence() {  // one that the thread sanitizer knows too
  static std::atomic<int> order{0};
  order.fetch_add(0, std::memory_order_seq_cst);
}

#endif

NANET_DEVICE_CODE std::uint32_t entry_of(const Clop& clop, std::uint64_t k) {
  return static_cast<std::uint32_t>(k) & (clop.shape.events - 1);
}
NANET_DEVICE_CODE std::uint32_t lap_of(const Clop& clop, std::uint64_t k) {
  return static_cast<std::uint32_t>(k >> contract::exponent(clop.shape.events)) + 1;
}

// Entry `entry` is finished. Entries are so in any order, and the card is told how far all are: by whoever
// has the lock. One who does not get it need not wait, because its holder looks again once it is given up:
// the fences on both sides see to it that one of the two finds the other's store.
NANET_DEVICE_CODE void finish(const Clop& clop, std::uint32_t entry, std::uint32_t lap) {
  State& state = *clop.state;
  release(clop.done + entry, lap);
  for (;;) {
    fence();
    if (exchange(&state.lock, 1)) return;
    fence();
    std::uint64_t k = peek(&state.finished);
    const std::uint64_t before = k;
    while (acquire(clop.done + entry_of(clop, k)) == lap_of(clop, k)) ++k;
    if (k != before) {
      put(&state.finished, k);
      release(clop.finished, k);
    }
    fence();
    exchange(&state.lock, 0);
    fence();
    const std::uint64_t next = peek(&state.finished);
    if (acquire(clop.done + entry_of(clop, next)) != lap_of(clop, next)) return;
  }
}

// Claims entries until one is a buffer. One thread. False: there will be none.
NANET_DEVICE_CODE bool take_buffer(const Clop& clop, Work& work) {
  State& state = *clop.state;
  for (;;) {
    const std::uint64_t k = take(&state.claimed);
    const std::uint32_t entry = entry_of(clop, k), lap = lap_of(clop, k);
    const contract::Event& e = clop.queue[entry];
    if (peek(clop.done + entry) == lap) continue;  // finished before the kernel was started again
    for (;;) {
      const bool ending = acquire(clop.stop) != 0;
      const auto ahead = static_cast<std::int32_t>(acquire(&e.lap) - lap);
      if (ahead == 0) break;
      if (ahead > 0) {
        put(&state.overrun, std::uint32_t{1});
        return false;
      }
      // Asked after `stop` was seen: what was written before the stop is there.
      if (ending || peek(&state.overrun)) return false;
      relax();
    }
    const std::uint32_t first = head(e);
    work.buffer = peek(&e.buffer);
    work.frame = peek(&e.frame);
    work.time_ns = peek(&e.time_ns);
    work.n = contract::unwrap_counter(peek(&e.n), peek(&state.reference));
    work.flags = first >> 16;
    work.entry = entry;
    work.lap = lap;
    if (acquire(&e.lap) != lap) {  // written over while it was read
      put(&state.overrun, std::uint32_t{1});
      return false;
    }
    put(&state.reference, work.n);
    if ((first & 0xFF) == static_cast<std::uint32_t>(contract::EventType::receive_done) &&
        work.buffer < clop.shape.buffers)
      return true;
    finish(clop, entry, lap);
  }
}

}  // namespace detail

// Waits for the next buffer; false: told to stop and none is left, or the card has lapped this reader
// (State::overrun). What the card wrote to the buffer is then seen by every thread of the block.
NANET_DEVICE_CODE bool poll(const Clop& clop, Work& work) {
  detail::barrier();  // of the buffer before this one, nobody reads `work` any more
  if (detail::leads()) work.going = detail::take_buffer(clop, work);
  detail::barrier();
  return work.going != 0;
}

// Of a buffer: payload slots (gather packets) or boards (gather frame).
NANET_DEVICE_CODE unsigned payloads(const Clop& clop) {
  return clop.shape.gather == contract::Gather::frame ? clop.shape.boards : clop.shape.packets;
}

// Payload i: a packet with its header (gather packets), or all of board i's, each at a 16 B boundary (gather
// frame). Never reaches beyond the buffer, whatever bytes lie there.
NANET_DEVICE_CODE Payload payload(const Clop& clop, const Work& work, unsigned i) {
  const contract::Shape& shape = clop.shape;
  const std::byte* const buffer = clop.buffers + shape.buffer_bytes() * work.buffer;
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

// Posts the first `bytes` of the send buffer, which any threads of the block have written. A number that is
// not posted before its buffer is released is answered by the card at its deadline.
NANET_DEVICE_CODE void post(const Clop& clop, const Work& work, std::uint32_t bytes,
                            std::uint32_t destination = 0) {
  detail::barrier();
  if (!detail::leads()) return;
  const unsigned devices = contract::exponent(clop.shape.devices),
                 entries = contract::exponent(clop.shape.descriptors);
  contract::Descriptor& d =
      clop.ring[static_cast<std::uint32_t>(work.n >> devices) & (clop.shape.descriptors - 1)];
  detail::put(&d.address, clop.send_address + std::uint64_t{contract::send_buffer_bytes} * work.buffer);
  detail::put(&d.bytes, bytes);
  detail::put(&d.destination, destination);
  detail::put(&d.token, work.buffer);
  detail::put(&d.flags, std::uint32_t{0});
  detail::release(&d.lap, static_cast<std::uint32_t>(work.n >> (devices + entries)) + 1);
  detail::put(clop.doorbell, static_cast<std::uint32_t>(work.n));
}

// Hands the buffer back to the card: nobody of the block reads it, or writes its send buffer, afterwards.
NANET_DEVICE_CODE void release(const Clop& clop, const Work& work) {
  detail::barrier();
  if (!detail::leads()) return;
  detail::release(clop.returned + work.buffer, static_cast<std::uint32_t>(work.n + 1));
  detail::finish(clop, work.entry, work.lap);
}

#ifdef __CUDACC__

// On the host: the memory of a CLOP made known to a GPU, the current one of the thread, and what a kernel is
// told of it. Made before the CLOP's card is started; the CLOP outlives it. While a kernel runs nothing else
// of CUDA that may wait for it (cudaMalloc, cudaFree, work on the legacy stream).
class GpuClop {
 public:
  // Throws std::runtime_error that says what failed.
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

  // For the kernel. Before each launch; what an earlier one claimed and did not find is claimed again.
  const Clop& begin() {
    *stop_ = 0;
    State state;
    check(cudaMemcpy(&state, clop_.state, sizeof state, cudaMemcpyDeviceToHost), "reading the state");
    state.claimed = state.finished;
    check(cudaMemcpy(clop_.state, &state, sizeof state, cudaMemcpyHostToDevice), "writing the state");
    return clop_;
  }
  // The kernel finishes what the card has written so far, and ends.
  void stop() noexcept { contract::release(*stop_, std::uint32_t{1}); }
  // After the kernel has ended: whether the card has lapped it.
  bool overrun() const {
    State state;
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
    clop_.buffers = there(view.clop);
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
    check(cudaMalloc(reinterpret_cast<void**>(&clop_.state), sizeof(State)), "device memory");
    check(cudaMalloc(reinterpret_cast<void**>(&clop_.done), sizeof(std::uint32_t) * view.shape.events),
          "device memory");
    check(cudaMemset(clop_.done, 0, sizeof(std::uint32_t) * view.shape.events), "device memory");
    State state;
    state.claimed = state.finished = contract::acquire(*view.finished);
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
