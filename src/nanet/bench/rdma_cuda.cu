// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nanet/bench/rdma.hpp"
#include "nanet/bench/rdma_exchange.hpp"
#include "nanet/bench/rdma_result.hpp"
#include "nanet/gpu/memory.hpp"
#include "nanet/gpu/rdma/gpu_nodes.cuh"

namespace nanet::bench {
namespace {

using gpu::require;

constexpr unsigned threads = 512;
constexpr std::uint32_t most_rounds = 1u << 16;
constexpr std::uint32_t host_bytes = 8u << 20;  // of host memory for messages

__global__ void __launch_bounds__(threads) exchange_block(const gpu::Rdma rdma, const Exchange x) {
  __shared__ ExchangeWork work;
  exchange(rdma, work, x);
}
__global__ void __launch_bounds__(threads) put_block(const gpu::Rdma rdma, const Exchange x) {
  __shared__ ExchangeWork work;
  put_in_a_row(rdma, work, x);
}

gpu::RdmaOptions two_nodes(int first, int second) {
  gpu::RdmaOptions options;
  options.gpus = {first, second};
  return options;
}

class CudaBench final : public RdmaBench {
 public:
  CudaBench(int first, int second) : nodes_(two_nodes(first, second)) {
    for (unsigned n = 0; n < 2; ++n) {
      Side& s = side_[n];
      require(cudaSetDevice(nodes_.gpu(n)), "GPU");
      s.from = gpu::device_array<std::byte>(rdma_bench_largest);
      s.to = gpu::device_array<std::byte>(rdma_bench_largest);
      s.host_from = gpu::pinned_array<std::byte>(host_bytes);
      s.host_to = gpu::pinned_array<std::byte>(host_bytes);
      s.ticks = gpu::device_array<std::uint64_t>(most_rounds + 4);
      s.stream = gpu::stream();
      s.begin = gpu::time_event();
      s.end = gpu::time_event();
      std::memset(s.host_from.get(), 0, host_bytes);
      std::memset(s.host_to.get(), 0, host_bytes);
      require(cudaMemset(s.from.get(), 0, rdma_bench_largest), "clearing memory");
      require(cudaMemset(s.to.get(), 0, rdma_bench_largest), "clearing memory");
      require(cudaDeviceSynchronize(), "clearing memory");
      nodes_.register_memory(n, s.from.get(), rdma_bench_largest);
      nodes_.register_memory(n, s.host_from.get(), host_bytes);
      s.key = nodes_.register_memory(n, s.to.get(), rdma_bench_largest);
      s.host_key = nodes_.register_memory(n, s.host_to.get(), host_bytes);
    }
    readback_ = gpu::pinned_array<std::uint64_t>(most_rounds + 4);
    copy_once(8);  // the driver prepares its copies before the cards occupy the GPU
    nodes_.start();
  }
  RdmaHalfRoundTrip half_round_trip(RdmaPath path, std::uint32_t bytes, std::uint32_t rounds) override {
    const std::uint32_t stride = message_stride(bytes);
    if (path != RdmaPath::gpu_to_gpu && 2 * std::size_t{stride} > host_bytes)
      throw std::invalid_argument("bytes: at most half of the buffers in host memory");
    if (rounds == 0 || rounds > most_rounds)
      throw std::invalid_argument("rounds: 1 to " + std::to_string(most_rounds));
    const bool from_host = path != RdmaPath::gpu_to_gpu;
    const bool to_host = path == RdmaPath::host_to_host || path == RdmaPath::staged;
    for (unsigned n = 2; n-- > 0;) {
      Side& s = side_[n];
      const Side& other = side_[1 - n];
      Exchange x;
      x.key = to_host ? other.host_key : other.key;
      x.other = static_cast<std::uint16_t>(1 - n);
      x.first = n == 0;
      x.from = from_host ? s.host_from.get() : s.from.get();
      x.to = to_host ? s.host_to.get() : s.to.get();
      if (path == RdmaPath::staged) {
        x.staged_from = s.from.get();
        x.staged_to = s.to.get();
      }
      x.bytes = bytes;
      x.stride = stride;
      x.rounds = rounds;
      x.result = s.ticks.get();
      x.ticks = s.ticks.get() + 4;
      require(cudaSetDevice(nodes_.gpu(n)), "GPU");
      // No more threads than have a unit of the largest copy that the block makes.
      exchange_block<<<1, path == RdmaPath::staged ? threads : 64, 0, s.stream.get()>>>(nodes_.argument(n),
                                                                                        x);
      require(cudaGetLastError(), "starting the exchange");
    }
    const std::uint64_t* const second = results(1, 4);
    const std::uint64_t wrong = second[2];
    const std::uint64_t* const first = results(0, 4 + rounds);
    return half_round_trip_of(std::vector<std::uint64_t>(first + 4, first + 4 + rounds), first, wrong);
  }

  RdmaBandwidth bandwidth(std::uint32_t bytes) override {
    const std::uint32_t puts = puts_in_a_row(bytes);
    Side &s = side_[0], &other = side_[1];
    RdmaBandwidth r;
    r.puts = puts;
    require(cudaSetDevice(nodes_.gpu(0)), "GPU");
    require(cudaMemsetAsync(s.from.get(), static_cast<int>(++fill_ & 0xFF), bytes, s.stream.get()),
            "a pattern");
    Exchange x;
    x.key = other.key;
    x.other = 1;
    x.from = s.from.get();
    x.bytes = bytes;
    x.rounds = puts;
    x.result = s.ticks.get();
    const std::uint64_t before = nodes_.counters(0).by_copy_engine;
    for (unsigned run = 0; run < 3; ++run) {  // the first one warms up
      put_block<<<1, 64, 0, s.stream.get()>>>(nodes_.argument(0), x);
      require(cudaGetLastError(), "starting the puts");
      const std::uint64_t* const result = results(0, 4);
      r.wrong |= result[2] != 0;
      if (run != 0)
        r.put_bytes_per_s =
            std::max(r.put_bytes_per_s,
                     1e9 * puts * bytes / static_cast<double>(std::max<std::uint64_t>(1, result[0])));
    }
    r.by_copy_engine = static_cast<std::uint32_t>((nodes_.counters(0).by_copy_engine - before) / 3);
    r.wrong |= !filled(bytes);
    for (unsigned run = 0; run < 3; ++run) {
      require(cudaSetDevice(nodes_.gpu(0)), "GPU");
      require(cudaEventRecord(s.begin.get(), s.stream.get()), "an event");
      for (std::uint32_t i = 0; i < puts; ++i) copy_async(bytes);
      require(cudaEventRecord(s.end.get(), s.stream.get()), "an event");
      require(cudaStreamSynchronize(s.stream.get()), "copies");
      float ms = 0;
      require(cudaEventElapsedTime(&ms, s.begin.get(), s.end.get()), "an event");
      if (run != 0) r.copy_bytes_per_s = std::max(r.copy_bytes_per_s, 1e3 * puts * bytes / double{ms});
    }
    return r;
  }

  std::string card() const override {
    return "emulated by a resident thread block per node; from " +
           std::to_string(gpu::RdmaOptions{}.copy_engine_from >> 10) + " KiB by the GPU's copy engine";
  }
  std::string link() const override {
    if (!nodes_.far(0, 1)) return "both nodes on one GPU";
    int atomics = 0;
    require(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, nodes_.gpu(0),
                                      nodes_.gpu(1)),
            "the link between GPUs");
    return atomics != 0 ? "NVLink" : "PCIe";
  }

 private:
  struct Side {
    gpu::DeviceArray<std::byte> from, to;
    gpu::PinnedArray<std::byte> host_from, host_to;
    gpu::DeviceArray<std::uint64_t> ticks;
    gpu::Stream stream;
    gpu::TimeEvent begin, end;
    gpu::RdmaKey key = 0, host_key = 0;
  };

  // Words written by the block of a node, after its end. Throws std::runtime_error for a block that does not
  // end.
  const std::uint64_t* results(unsigned n, std::size_t words) {
    using namespace std::chrono;
    Side& s = side_[n];
    require(cudaSetDevice(nodes_.gpu(n)), "GPU");
    const auto until = steady_clock::now() + seconds(30);
    while (cudaStreamQuery(s.stream.get()) == cudaErrorNotReady) {
      if (steady_clock::now() > until) {
        nodes_.stop();  // ends the blocks that wait
        throw std::runtime_error("rdma: the block of node " + std::to_string(n) + " does not end");
      }
      std::this_thread::sleep_for(microseconds(20));
    }
    require(cudaMemcpyAsync(readback_.get(), s.ticks.get(), words * sizeof(std::uint64_t),
                            cudaMemcpyDeviceToHost, s.stream.get()),
            "results");
    require(cudaStreamSynchronize(s.stream.get()), "a block of the benchmark");
    return readback_.get();
  }
  void copy_async(std::size_t bytes) {
    require(cudaMemcpyAsync(side_[1].to.get(), side_[0].from.get(), bytes, cudaMemcpyDefault,
                            side_[0].stream.get()),
            "a copy");
  }
  void copy_once(std::size_t bytes) {
    require(cudaSetDevice(nodes_.gpu(0)), "GPU");
    copy_async(bytes);
    require(cudaStreamSynchronize(side_[0].stream.get()), "a copy");
  }
  // First and last bytes of the target.
  bool filled(std::uint32_t bytes) {
    Side& s = side_[1];
    require(cudaSetDevice(nodes_.gpu(1)), "GPU");
    const std::uint32_t some = std::min<std::uint32_t>(bytes, 4096);
    std::byte* const words = reinterpret_cast<std::byte*>(readback_.get());
    require(cudaMemcpyAsync(words, s.to.get(), some, cudaMemcpyDeviceToHost, s.stream.get()), "target");
    require(cudaMemcpyAsync(words + some, s.to.get() + bytes - some, some, cudaMemcpyDeviceToHost,
                            s.stream.get()),
            "target");
    require(cudaStreamSynchronize(s.stream.get()), "target");
    return std::all_of(words, words + 2 * some,
                       [&](std::byte b) { return b == static_cast<std::byte>(fill_); });
  }

  Side side_[2];
  gpu::PinnedArray<std::uint64_t> readback_;
  unsigned fill_ = 0;
  gpu::GpuRdma nodes_;  // ends before the memory that it uses
};

}  // namespace

std::unique_ptr<RdmaBench> open_rdma_cuda(int first, int second) {
  return std::make_unique<CudaBench>(first, second);
}

}  // namespace nanet::bench
