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
// with all its threads in each call. With a mailbox (contract/mailbox.hpp), receive() before payload() and
// answer() instead of post() use its lines in both directions; the same kernel runs without one. On the host,
// GpuClop provides `clop`. Without CUDA a block is one host thread, and the protocol is the same
// (contract/consumer.hpp): it is tested without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/contract/consumer.hpp"
#include "nanet/contract/mailbox.hpp"
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
  contract::Mailbox mailbox;      // input null: none
};

// Buffer of a block; in shared memory.
struct Work {
  std::uint64_t n = 0;  // number of the buffer
  std::uint64_t time_ns = 0;
  std::uint32_t buffer = 0, frame = 0, flags = 0;  // flags: contract::event_flag
  std::uint64_t k = 0;                             // entry of the event
  std::uint32_t going = 0;
  // Of receive(): bytes of each board, memory of the copies (null: not copied) and their distance. segments:
  // the mailbox has them; missing: a unit of them has not arrived; fits: those of the CLOP fit.
  std::uint32_t bytes[max_boards] = {};
  const std::byte* copy = nullptr;
  std::uint32_t stride = 0, segments = 0, missing = 0, fits = 0;
};

struct Payload {
  const std::byte* at = nullptr;
  std::uint32_t bytes = 0;  // 0: empty
};

namespace detail {

inline constexpr std::uint32_t unit_words = contract::unit_data_bytes / 4;

#ifdef __CUDACC__

NANET_DEVICE_CODE unsigned thread() {
  return threadIdx.x;
}
NANET_DEVICE_CODE unsigned threads() {
  return blockDim.x;
}
// Loads the data of a unit, 3 words; returns its mark.
NANET_DEVICE_CODE std::uint32_t load_unit(const std::byte* at, std::uint32_t* word) {
  const contract::Sixteen unit =
      contract::load_relaxed_system(reinterpret_cast<const contract::Sixteen*>(at));
  word[0] = static_cast<std::uint32_t>(unit.low);
  word[1] = static_cast<std::uint32_t>(unit.low >> 32);
  word[2] = static_cast<std::uint32_t>(unit.high);
  return static_cast<std::uint32_t>(unit.high >> 32);
}
// word: 4, the last of which is not used.
NANET_DEVICE_CODE void store_unit(std::byte* at, const std::uint32_t* word, std::uint32_t mark) {
  contract::store_relaxed_system(
      reinterpret_cast<contract::Sixteen*>(at),
      {word[0] | std::uint64_t{word[1]} << 32, word[2] | std::uint64_t{mark} << 32});
}

#else

inline unsigned thread() {
  return 0;
}
inline unsigned threads() {
  return 1;
}
inline std::uint32_t load_unit(const std::byte* at, std::uint32_t* word) {
  return contract::load_unit(at, reinterpret_cast<std::byte*>(word));
}
inline void store_unit(std::byte* at, const std::uint32_t* word, std::uint32_t mark) {
  contract::store_unit(at, reinterpret_cast<const std::byte*>(word), mark);
}

#endif

// Reads the event line of entry k if it is valid: all units have the lap of the entry. overrun: one has a
// later lap.
NANET_DEVICE_CODE contract::Poll poll_line(const Clop& clop, std::uint64_t k, contract::LineWords& line,
                                           contract::Event& event) {
  const std::byte* const at =
      clop.mailbox.input + contract::line_bytes * contract::entry_index(clop.shape, k);
  const std::uint32_t lap = contract::entry_lap(clop.shape, k);
  std::uint32_t mark[contract::units_per_line];
  for (unsigned u = 0; u < contract::units_per_line; ++u)  // all loads before the first comparison
    mark[u] = load_unit(at + contract::unit_bytes * u, line.word + unit_words * u);
  bool all = true;
  for (unsigned u = 0; u < contract::units_per_line; ++u) {
    const contract::Poll found = contract::compare_lap(mark[u], lap);
    if (found == contract::Poll::overrun) return found;
    all = all && found == contract::Poll::event;
  }
  if (!all) return contract::Poll::nothing;
  event.type = static_cast<std::uint8_t>(line.word[0]);
  event.stream = static_cast<std::uint8_t>(line.word[0] >> 8);
  event.flags = static_cast<std::uint16_t>(line.word[0] >> 16);
  event.buffer = line.word[1];
  event.bytes = line.word[2];
  event.frame = line.word[3];
  event.time_ns = line.word[4] | std::uint64_t{line.word[5]} << 32;
  event.n = line.word[6];
  event.lap = lap;
  return contract::Poll::event;
}

// Takes entries until one is a buffer. One thread. False: the consumer must stop.
NANET_DEVICE_CODE bool take_buffer(const Clop& clop, Work& work) {
  for (;;) {
    contract::Event event;
    contract::LineWords line;
    const bool lines = clop.mailbox.input != nullptr;
    const auto read = [&](std::uint64_t k, contract::Event& out) {
      return lines ? poll_line(clop, k, line, out) : contract::poll_event<Access>(clop, k, out);
    };
    if (contract::take_entry_by<Access>(
            clop, *clop.state, clop.done, read, [&] { return Access::acquire(*clop.stop) != 0; },
            [] { relax(); }, work.k, event, work.n) != contract::Poll::event)
      return false;
    if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done) &&
        event.buffer < clop.shape.buffers) {
      work.buffer = event.buffer;
      work.frame = event.frame;
      work.time_ns = event.time_ns;
      work.flags = event.flags;
      work.copy = nullptr;
      work.missing = 0;
      work.segments =
          lines && (line.flags() & contract::EventLine::segments) != 0 && contract::mailbox_mark(work.n) != 0;
      for (unsigned b = 0; b < max_boards; ++b) work.bytes[b] = work.segments ? line.bytes(b) : 0;
      return true;
    }
    contract::finish_entry<Access>(clop, *clop.state, clop.done, work.k);
  }
}

// Waits until the queue entry is valid: the CLOP is then readable by this thread. The card writes the entry
// right after the event line.
NANET_DEVICE_CODE void await_entry(const Clop& clop, const Work& work) {
  const contract::Event& entry = clop.queue[contract::entry_index(clop.shape, work.k)];
  const std::uint32_t lap = contract::entry_lap(clop.shape, work.k);
  while (contract::compare_lap(Access::acquire(entry.lap), lap) == contract::Poll::nothing) relax();
}

// Copies unit u of a segment; its last words only as far as `bytes`. False: it does not arrive. The card
// writes the units before the event line, so that they are at most a few accesses away.
NANET_DEVICE_CODE bool take_unit(const std::byte* segment, std::uint32_t u, std::uint32_t mark, std::byte* to,
                                 std::uint32_t bytes) {
  for (unsigned look = 0; look < contract::most_unit_reads; ++look) {
    std::uint32_t word[unit_words];
    if (load_unit(segment + contract::unit_bytes * u, word) != mark) continue;
    for (std::uint32_t i = 0; i < unit_words; ++i)
      if (const std::uint32_t at = 4 * (unit_words * u + i); at < bytes)
        *reinterpret_cast<std::uint32_t*>(to + at) = word[i];
    return true;
  }
  return false;
}

// Copies the segments from the mailbox. False: it has not all of them, or they do not fit. All threads.
NANET_DEVICE_CODE bool take_segments(const Clop& clop, Work& work, std::byte* to, std::uint32_t stride) {
  if (!work.segments) return false;
  const std::uint32_t boards = clop.shape.boards;
  for (unsigned b = 0; b < boards; ++b)
    if (work.bytes[b] > stride || work.bytes[b] > clop.mailbox.shape.segment_bytes) return false;
  const std::uint32_t mark = contract::mailbox_mark(work.n);
  // One board after the other would leave threads idle: a thread takes every threads()-th unit of all.
  std::uint32_t u = thread();
  for (unsigned b = 0; b < boards; ++b) {
    const std::uint32_t units = contract::units_for(work.bytes[b]);
    const std::byte* const segment = clop.mailbox.input + clop.mailbox.shape.segment(work.buffer, b);
    for (; u < units; u += threads())
      if (!take_unit(segment, u, mark, to + std::size_t{stride} * b, work.bytes[b])) work.missing = 1;
    u -= units;
  }
  barrier();
  return work.missing == 0;
}

// Payload i in the CLOP, which must be readable by this thread. A merged buffer has none: its rows are no
// packets.
NANET_DEVICE_CODE Payload clop_payload(const Clop& clop, const Work& work, unsigned i) {
  const contract::Shape& shape = clop.shape;
  const std::byte* const buffer = clop.clop + shape.buffer_bytes() * work.buffer;
  const bool frame = shape.gather == contract::Gather::frame;
  const std::uint32_t room = frame ? shape.segment_bytes : shape.slot_bytes;
  const std::byte* const at = buffer + (frame ? contract::frame_header_bytes : 0) + std::size_t{room} * i;
  // Frame: u16 bytes of the board's entry in the header. Packets: u16 length in the packet's own.
  const std::uint32_t said =
      *reinterpret_cast<const std::uint32_t*>(frame ? buffer + 8 + std::size_t{4} * i : at + 4) & 0xFFFF;
  constexpr auto layout = offsetof(contract::FrameHeader, layout);
  static_assert(layout % 4 == 0);
  if (frame && (*reinterpret_cast<const std::uint32_t*>(buffer + layout) & 0xFF) != 0) {
    Access::put(clop.state->merged, std::uint32_t{1});
    return {at, 0};
  }
  return {at, said < room ? said : room};
}

// Copies the segments from the CLOP. False: one does not fit. All threads.
NANET_DEVICE_CODE bool copy_segments(const Clop& clop, Work& work, std::byte* to, std::uint32_t stride) {
  struct alignas(16) Sixteen {
    std::uint32_t word[4];
  };
  if (leads()) {  // one reading of the lengths for all threads
    if (clop.mailbox.input) await_entry(clop, work);
    work.fits = 1;
    for (unsigned b = 0; b < clop.shape.boards; ++b) {
      work.bytes[b] = clop_payload(clop, work, b).bytes;
      if (work.bytes[b] > stride) work.fits = 0;
    }
  }
  barrier();
  if (!work.fits) return false;
  for (unsigned b = 0; b < clop.shape.boards; ++b) {
    const std::byte* const from = clop_payload(clop, work, b).at;
    std::byte* const copy = to + std::size_t{stride} * b;
    for (std::uint32_t i = 16 * thread(); i < work.bytes[b]; i += 16 * threads())
      *reinterpret_cast<Sixteen*>(copy + i) = *reinterpret_cast<const Sixteen*>(from + i);
  }
  return true;
}

}  // namespace detail

// Waits for the next buffer. False: stopped and the queue is empty, or the card has lapped this reader
// (SharedReader::overrun). Every thread of the block then sees the card's writes to the buffer, by payload().
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
// (gather frame). Never exceeds the buffer, for any content. In the copy of receive(), if it made one. Empty
// where the card has merged the frame; SharedReader::merged is then set.
NANET_DEVICE_CODE Payload payload(const Clop& clop, const Work& work, unsigned i) {
  if (work.copy) return {work.copy + std::size_t{work.stride} * i, work.bytes[i]};
  if (clop.mailbox.input) detail::await_entry(clop, work);
  return detail::clop_payload(clop, work, i);
}

// Gather frame: copies the payloads to `to`, that of board i to `to` + stride i, from the mailbox if it has
// them, else from the CLOP; payload() then gives the copies. Without effect if one is longer than `stride`.
// to: on a 16 B boundary, stride x boards bytes, usually of shared memory; stride: a multiple of 16.
NANET_DEVICE_CODE void receive(const Clop& clop, Work& work, std::byte* to, std::uint32_t stride) {
  if (clop.shape.gather != contract::Gather::frame) return;
  if (!detail::take_segments(clop, work, to, stride) && !detail::copy_segments(clop, work, to, stride))
    return;
  if (detail::leads()) {
    work.copy = to;
    work.stride = stride;
  }
  detail::barrier();
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

// Answers with `bytes` of `data`, written by any threads of the block: by units of the mailbox, which the
// card sends as soon as it finds them, then as post(). data: on a 4 B boundary, readable to a multiple of
// 4 B. Units have no destination: only answers to the first endpoint use them.
NANET_DEVICE_CODE void answer(const Clop& clop, const Work& work, const void* data, std::uint32_t bytes,
                              std::uint32_t destination = 0) {
  detail::barrier();
  const auto* const from = static_cast<const std::uint32_t*>(data);
  const std::uint32_t sent = bytes < contract::send_buffer_bytes ? bytes : contract::send_buffer_bytes;
  // Word i; the bytes beyond the answer are zero.
  const auto word = [&](std::uint32_t i) {
    if (4 * i >= sent) return std::uint32_t{0};
    const std::uint32_t left = sent - 4 * i;
    return left >= 4 ? from[i] : from[i] & ((std::uint32_t{1} << 8 * left) - 1);
  };
  const std::uint32_t mark = contract::mailbox_mark(work.n);
  if (clop.mailbox.answers && mark != 0 && destination == 0 && bytes != 0 && bytes == sent) {
    std::byte* const to = clop.mailbox.answers + contract::answer_line_bytes * std::size_t{work.buffer};
    for (std::uint32_t u = detail::thread(); u <= contract::units_for(bytes); u += detail::threads()) {
      std::uint32_t unit[4] = {bytes, 0, 0, 0};
      for (std::uint32_t i = 0; u != 0 && i < detail::unit_words; ++i)
        unit[i] = word(detail::unit_words * (u - 1) + i);
      detail::store_unit(to + contract::unit_bytes * u, unit, mark);
    }
  }
  auto* const buffer = reinterpret_cast<std::uint32_t*>(send_buffer(clop, work));
  for (std::uint32_t i = detail::thread(); 4 * i < sent; i += detail::threads()) buffer[i] = word(i);
  post(clop, work, bytes, destination);
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
  // mailbox: device addresses (MailboxPages::device()), for a card that writes to it. Throws
  // std::runtime_error.
  explicit GpuClop(const contract::View& view, const contract::Mailbox& mailbox = {}) : host_(view.clop) {
    clop_.mailbox = mailbox;
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
    contract::SharedReader again = state();
    again.claimed = again.finished;
    check(cudaMemcpy(clop_.state, &again, sizeof again, cudaMemcpyHostToDevice), "writing the state");
    return clop_;
  }
  // The kernel finishes the entries written so far, and ends.
  void stop() noexcept { contract::HostAccess::release(*stop_, std::uint32_t{1}); }
  // After the kernel has ended: whether the card has lapped it.
  bool overrun() const { return state().overrun != 0; }
  // After the kernel has ended: whether the card merges frames (ClopOptions::merge). payload() was empty.
  bool merged() const { return state().merged != 0; }

  static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
      throw std::runtime_error(std::string("cuda: ") + what + ": " + cudaGetErrorString(status));
  }

 private:
  contract::SharedReader state() const {
    contract::SharedReader seen;
    check(cudaMemcpy(&seen, clop_.state, sizeof seen, cudaMemcpyDeviceToHost), "reading the state");
    return seen;
  }
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
