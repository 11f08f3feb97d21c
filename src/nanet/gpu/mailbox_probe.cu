// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/mailbox_probe.hpp"

#include <cstring>
#include <stop_token>
#include <thread>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/device_access.cuh"
#include "nanet/gpu/bar_memory.hpp"
#include "nanet/gpu/memory.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gpu {
namespace {

using contract::Sixteen;
using contract::UnitReader;
using contract::UnitWriter;

constexpr unsigned readers = 128, writers = 128;  // threads; one unit of an answer each
constexpr std::int64_t longest = 10'000'000'000;  // of the kernel, if the host does not stop it

// In pinned memory.
struct alignas(64) Shared {
  std::uint32_t stop, running;
  unsigned long long read, torn;
  alignas(64) Sixteen answer[writers];
};

__device__ bool goes_on(const Shared& shared, std::int64_t until) {
  return !contract::load_relaxed_system(&shared.stop) && contract::device_time() < until;
}

__global__ void probe(const std::byte* input, Shared* shared) {
  const std::int64_t until = contract::device_time() + longest;
  if (threadIdx.x == 0) contract::store_release_system(&shared->running, 1u);
  if (threadIdx.x >= readers) {
    Sixteen* const to = shared->answer + (threadIdx.x - readers);
    for (std::uint32_t mark = 1; goes_on(*shared, until); ++mark) {
      const std::uint64_t two = mark | std::uint64_t{mark} << 32;
      contract::store_relaxed_system(to, {two, two});
    }
    return;
  }
  unsigned long long read = 0, torn = 0;
  const auto* const units = reinterpret_cast<const Sixteen*>(UnitWriter::units_in(input));
  constexpr unsigned each = (UnitWriter::units + readers - 1) / readers;
  std::uint32_t seen[each] = {};
  while (goes_on(*shared, until)) {
    for (unsigned i = 0; i < each; ++i) {
      const std::uint32_t u = threadIdx.x + i * readers;
      if (u >= UnitWriter::units) break;
      const Sixteen unit = contract::load_relaxed_system(units + u);
      const auto mark = static_cast<std::uint32_t>(unit.high >> 32);
      if (mark == seen[i]) continue;
      seen[i] = mark;
      const std::uint64_t two = mark | std::uint64_t{mark} << 32;
      ++read;
      torn += unit.low != two || unit.high != two;
    }
  }
  atomicAdd_system(&shared->read, read);
  atomicAdd_system(&shared->torn, torn);
}

}  // namespace

MailboxProbe probe_mailbox(int device, MailboxMemory memory, Nanoseconds duration) {
  if (!contract::has_mailbox) throw std::runtime_error("mailbox: only on x86-64 hosts");
  require(cudaSetDevice(device), "GPU " + std::to_string(device));
  constexpr std::size_t bytes = UnitWriter::shape.input_bytes();
  MailboxProbe result;
  std::unique_ptr<BarMemory> bar;
  if (memory != MailboxMemory::pinned) bar = BarMemory::open(device, bytes, result.why, memory);
  if (!bar && memory != MailboxMemory::pinned && memory != MailboxMemory::automatic)
    throw std::runtime_error("mailbox in GPU memory: " + result.why);
  result.memory = bar ? "gpu" : "pinned";
  if (bar) result.way = bar->way();
  PinnedArray<std::byte> pinned;
  if (!bar) {
    pinned = pinned_array<std::byte>(bytes);
    std::memset(pinned.get(), 0, bytes);
  }
  const auto pages = pinned_array<Shared>(1);
  Shared* const shared = pages.get();
  std::memset(static_cast<void*>(shared), 0, sizeof(Shared));
  std::byte* const input = bar ? bar->host() : pinned.get();
  const Stream queue = stream();
  probe<<<1, readers + writers, 0, queue.get()>>>(bar ? bar->device() : pinned.get(), shared);
  require(cudaGetLastError(), "starting the probe");
  {
    const std::jthread writes([&](const std::stop_token& stop) {
      for (UnitWriter writer(input); !stop.stop_requested();) writer.write();
    });
    UnitReader reader(reinterpret_cast<const std::byte*>(shared->answer), writers);
    const Nanoseconds latest = os::monotonic_now() + longest;
    while (!contract::acquire(shared->running) && os::monotonic_now() < latest) std::this_thread::yield();
    for (const Nanoseconds end = os::monotonic_now() + duration; os::monotonic_now() < end;) reader.read();
    result.to_host = reader.counts();
    contract::release(shared->stop, 1u);
    require(cudaStreamSynchronize(queue.get()), "the probe of the mailbox");
  }
  result.to_gpu = {shared->read, shared->torn};
  return result;
}

}  // namespace nanet::gpu
