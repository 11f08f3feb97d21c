// SPDX-License-Identifier: Apache-2.0
// A persistent kernel that is no trigger: every packet of a CLOP is answered over UDP with a statistic of its
// bytes, and no host thread is between card and GPU. The program is its own sender and receiver and checks
// the answers.
#include <sys/socket.h>

#include <array>
#include <cstdio>

#include "nanet/card/card.hpp"
#include "nanet/card/udp.hpp"
#include "nanet/device/clop.hpp"

namespace card = nanet::card;
namespace device = nanet::device;
namespace mgp = nanet::wire::mgp;

struct Statistic {
  std::uint32_t bytes, sum, set_bits;  // of a packet, its header included
};

__global__ void statistic(const device::Clop clop) {
  __shared__ device::Work work;
  __shared__ Statistic of;
  while (device::poll(clop, work)) {
    const device::Payload packet = device::payload(clop, work, 0);
    if (threadIdx.x == 0) of = {packet.bytes, 0, 0};
    __syncthreads();
    std::uint32_t sum = 0, set_bits = 0;
    for (std::uint32_t i = threadIdx.x; i < packet.bytes; i += blockDim.x) {
      const auto byte = static_cast<std::uint32_t>(packet.at[i]);
      sum += byte;
      set_bits += __popc(byte);
    }
    atomicAdd(&of.sum, sum);
    atomicAdd(&of.set_bits, set_bits);
    __syncthreads();
    if (threadIdx.x == 0) *reinterpret_cast<Statistic*>(device::send_buffer(clop, work)) = of;
    device::post(clop, work, sizeof(Statistic));  // the answer first,
    device::release(clop, work);                  // then the buffer
  }
}

int main() try {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("no GPU"), 77;
  const card::Fd answers = card::open_udp_receiver({.address = 0x7F000001, .port = 0});
  card::ClopOptions options;
  options.listen = {{.address = 0x7F000001, .port = 0}};
  options.destinations = {card::local_endpoint(answers.get())};
  options.gather = nanet::contract::Gather::packets;
  options.packets = 1;
  const auto nic = card::open_card("socket");
  card::Clop& clop = nic->register_clop(options);
  device::GpuClop gpu(clop.view());
  statistic<<<8, 128>>>(gpu.begin());  // eight blocks: as many packets at a time
  nic->start();

  const card::Fd sender = card::open_udp_sender(clop.local());
  unsigned right = 0;
  for (nanet::Sequence sequence = 1; sequence <= 1000; ++sequence) {
    std::array<std::byte, mgp::default_max_payload> packet;
    mgp::PacketWriter writer(packet.data(), packet.size(),
                             {.flags = mgp::flag::last, .sequence = sequence, .frame = sequence});
    for (unsigned e = 0; e < sequence % 8; ++e)
      writer.add(sequence << 8, 0, std::array<std::uint16_t, 3>{17, 42, 99}, 3);
    const std::size_t bytes = writer.finish();
    Statistic expected{static_cast<std::uint32_t>(bytes), 0, 0}, answer{};
    for (std::size_t i = 0; i < bytes; ++i) {
      expected.sum += static_cast<std::uint32_t>(packet[i]);
      expected.set_bits += static_cast<std::uint32_t>(__builtin_popcount(static_cast<unsigned>(packet[i])));
    }
    send(sender.get(), packet.data(), bytes, 0);
    timeval patience{5, 0};
    setsockopt(answers.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (recv(answers.get(), &answer, sizeof answer, 0) != sizeof answer) break;
    right +=
        answer.bytes == expected.bytes && answer.sum == expected.sum && answer.set_bits == expected.set_bits;
  }
  nic->stop();  // drains: what is owed has left
  gpu.stop();
  device::GpuClop::check(cudaDeviceSynchronize(), "the kernel");
  std::printf("%u of 1000 packets answered right\n", right);
  return right == 1000 && !gpu.overrun() ? 0 : 1;
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
