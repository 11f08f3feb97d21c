// SPDX-License-Identifier: Apache-2.0
// Persistent kernel on the low-latency lines of a mailbox: answers every frame over UDP with its events and
// hits. Segments come as lines that the card stores in GPU memory, or in pinned memory where no CPU can; the
// answer leaves as lines before its descriptor is posted.
#include <cstdio>

#include "loopback.hpp"
#include "nanet/gpu/clop.hpp"
#include "nanet/gpu/mailbox_pages.hpp"

namespace gpu = nanet::gpu;

struct Summary {
  std::uint32_t frame, events, hits;
};

// Adds the events and hits of a board's packets, each at a 16 B boundary; the card has validated them.
__host__ __device__ void count(const std::byte* at, std::uint32_t bytes, Summary& of) {
  constexpr std::uint32_t header = 16, event = 8;
  const auto byte = [&](std::uint32_t i) { return static_cast<std::uint32_t>(at[i]); };
  for (std::uint32_t packet = 0; packet + header <= bytes;) {
    const std::uint32_t length = byte(packet + 4) | byte(packet + 5) << 8, events = byte(packet + 6);
    std::uint32_t next = packet + header;
    for (std::uint32_t e = 0; e < events && next + event <= bytes; ++e) {
      const std::uint32_t hits = byte(next + 5);
      ++of.events;
      of.hits += hits;
      next += event + 2 * hits;
    }
    packet += (length + 15) / 16 * 16;
  }
}

__global__ void summarise(const gpu::Clop clop) {
  constexpr std::uint32_t room = 2048;  // longer segments stay in the CLOP
  __shared__ gpu::Work work;
  __shared__ __align__(16) std::byte segment[room];
  __shared__ Summary of;
  while (gpu::poll(clop, work)) {
    gpu::receive(clop, work, segment, room);
    const gpu::Payload board = gpu::payload(clop, work, 0);
    if (threadIdx.x == 0) {
      of = {work.frame, 0, 0};
      count(board.at, board.bytes, of);
    }
    gpu::answer(clop, work, &of, sizeof of);  // the answer first,
    gpu::release(clop, work);                 // then the buffer
  }
}

Summary expected(std::span<const std::byte> packet) {
  Summary of{nanet::wire::mgp::decode_header(packet.data()).frame, 0, 0};
  count(packet.data(), static_cast<std::uint32_t>(packet.size()), of);
  return of;
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("no GPU"), 77;
  Loopback network;
  const auto nic = nanet::card::open_card("socket");
  nanet::card::Clop& clop = nic->register_clop(network.frame_options());
  gpu::MailboxPages lines(0, clop.view().shape, gpu::MailboxMemory::automatic);
  if (lines.host().input) nic->stream(clop).use_mailboxes({&lines.host(), 1});
  unsigned right = 0;
  bool overrun = false;
  {
    gpu::GpuClop memory(clop.view(), lines.device());
    summarise<<<4, 128>>>(memory.begin());
    nic->start();
    right = network.exchange(clop, 1000, expected);
    nic->stop();  // drains: pending packets leave
    memory.stop();
    gpu::GpuClop::check(cudaDeviceSynchronize(), "the kernel");
    overrun = memory.overrun();
  }
  nic->deregister_clop(clop);  // before the lines, to which the card writes
  std::printf("%u of 1000 frames answered right; lines in memory %s\n", right, lines.memory().c_str());
  return right == 1000 && !overrun ? 0 : 1;
}
