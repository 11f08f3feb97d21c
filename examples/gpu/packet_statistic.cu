// SPDX-License-Identifier: Apache-2.0
// Persistent kernel for a task other than triggering: answers every packet over UDP with the sum of its bytes
// and the number of set bits. No host thread is between card and GPU.
#include <cstdio>

#include "loopback.hpp"
#include "nanet/gpu/clop.hpp"

namespace gpu = nanet::gpu;

struct Statistic {
  std::uint32_t sum, bits;
};

__global__ void statistic(const gpu::Clop clop) {
  __shared__ gpu::Work work;
  __shared__ Statistic of;
  while (gpu::poll(clop, work)) {
    const gpu::Payload packet = gpu::payload(clop, work, 0);
    if (threadIdx.x == 0) of = {};
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < packet.bytes; i += blockDim.x) {
      atomicAdd(&of.sum, static_cast<std::uint32_t>(packet.at[i]));
      atomicAdd(&of.bits, __popc(static_cast<std::uint32_t>(packet.at[i])));
    }
    __syncthreads();
    if (threadIdx.x == 0) *reinterpret_cast<Statistic*>(gpu::send_buffer(clop, work)) = of;
    gpu::post(clop, work, sizeof of);  // the answer first,
    gpu::release(clop, work);          // then the buffer
  }
}

Statistic expected(std::span<const std::byte> packet) {
  Statistic of{};
  for (const auto byte : packet) {
    of.sum += static_cast<std::uint32_t>(byte);
    of.bits += static_cast<std::uint32_t>(__builtin_popcount(static_cast<unsigned>(byte)));
  }
  return of;
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("no GPU"), 77;
  Loopback network;
  const auto nic = nanet::card::open_card("socket");
  nanet::card::Clop& clop = nic->register_clop(network.options());
  gpu::GpuClop memory(clop.view());
  statistic<<<8, 128>>>(memory.begin());  // eight blocks process eight packets in parallel
  nic->start();
  const unsigned right = network.exchange(clop, 1000, expected);
  nic->stop();  // drains: pending packets leave
  memory.stop();
  gpu::GpuClop::check(cudaDeviceSynchronize(), "the kernel");
  std::printf("%u of 1000 packets answered right\n", right);
  return right == 1000 && !memory.overrun() ? 0 : 1;
}
