// SPDX-License-Identifier: Apache-2.0
// Device library on a GPU: frames of four boards through the card's datapath, with lines in each memory and
// without. Every byte that the kernel read is compared through a sum that depends on its place.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "nanet/gpu/clop.hpp"
#include "nanet/gpu/frames_test.hpp"
#include "nanet/gpu/mailbox_pages.hpp"

namespace nanet::gpu {
namespace {

struct Sums {
  std::uint32_t frame, board[4];
};

// Weight of byte i of a segment, so that bytes at another place give another sum.
__host__ __device__ std::uint32_t weight(std::uint32_t i) {
  return 1 + i % 251;
}
__host__ __device__ std::uint32_t round16(std::uint32_t bytes) {
  return (bytes + 15) / 16 * 16;
}

__global__ void sums(const Clop clop, std::uint32_t stride) {
  extern __shared__ __align__(16) std::byte room[];
  __shared__ Work work;
  __shared__ Sums of;
  while (poll(clop, work)) {
    receive(clop, work, room, stride);
    if (threadIdx.x == 0) of = {work.frame, {}};
    __syncthreads();
    for (unsigned b = 0; b < payloads(clop); ++b) {
      const Payload p = payload(clop, work, b);
      const auto byte = [&](std::uint32_t i) { return static_cast<std::uint32_t>(p.at[i]); };
      std::uint32_t sum = 0;
      for (std::uint32_t at = 0; at + 16 <= p.bytes;) {  // the bytes between packets are not defined
        const std::uint32_t length = byte(at + 4) | byte(at + 5) << 8;
        for (std::uint32_t i = at + threadIdx.x; i < at + length && i < p.bytes; i += blockDim.x)
          sum += byte(i) * weight(i);
        at += round16(length);
      }
      atomicAdd(&of.board[b], sum);
    }
    answer(clop, work, &of, sizeof of);
    release(clop, work);
  }
}

void answers(MailboxMemory memory, const char* wanted) {
  if (int gpus = 0; cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) GTEST_SKIP() << "no GPU";
  const TestFrames all(5000);
  constexpr std::uint32_t buffers = 64, stride = 4096;
  card::ClopOptions options = card::rig_options(buffers);
  options.deadline = 0;
  options.timeout = 1'000'000'000;
  card::Rig rig(options);
  const contract::View& view = rig.views[0];
  std::unique_ptr<MailboxPages> lines;
  try {
    lines = std::make_unique<MailboxPages>(0, view.shape, memory);
  } catch (const std::runtime_error& none) {
    GTEST_SKIP() << none.what();
  }
  if (!lines->memory().starts_with(wanted)) GTEST_SKIP() << lines->memory();
  if (lines->host().input) {
    ASSERT_TRUE(rig.stream.use_mailboxes({&lines->host(), 1}));
  }
  GpuClop clop(view, lines->device());
  sums<<<6, 128, 4 * stride>>>(clop.begin(), stride);
  GpuClop::check(cudaGetLastError(), "starting the kernel");
  all.pass(rig);
  clop.stop();
  GpuClop::check(cudaDeviceSynchronize(), "the kernel");
  EXPECT_FALSE(clop.overrun());
  EXPECT_EQ(rig.lost_or_bad(), 0u);
  EXPECT_EQ(rig.stream.counters().frames_answered, all.frames());
  ASSERT_EQ(rig.transmit.sent.size(), all.frames());
  for (Frame f = 0; f < all.frames(); ++f) {
    const auto& bytes = rig.transmit.sent[f].bytes;
    ASSERT_EQ(bytes.size(), sizeof(Sums));
    Sums got;
    std::memcpy(&got, bytes.data(), sizeof got);
    ASSERT_EQ(got.frame, f);
    for (BoardId b = 0; b < 4; ++b) {
      std::uint32_t at = 0, sum = 0;
      for (const auto& packet : all.packets(f, b)) {
        for (std::uint32_t i = 0; i < packet.size(); ++i)
          sum += static_cast<std::uint32_t>(packet[i]) * weight(at + i);
        at += round16(static_cast<std::uint32_t>(packet.size()));
      }
      ASSERT_EQ(got.board[b], sum) << "frame " << f << ", board " << unsigned{b};
    }
  }
}

TEST(GpuLines, PinnedMemory) {
  answers(MailboxMemory::pinned, "pinned");
}
TEST(GpuLines, GpuMemoryByVulkan) {
  answers(MailboxMemory::vulkan, "gpu (vulkan)");
}
TEST(GpuLines, GpuMemoryByGdrdrv) {
  answers(MailboxMemory::gdrdrv, "gpu (gdrdrv)");
}
TEST(GpuLines, WithoutAMailbox) {
  answers(MailboxMemory::off, "off");
}

}  // namespace
}  // namespace nanet::gpu
