// SPDX-License-Identifier: Apache-2.0
// RDMA between two nodes through the whole device library (gpu/rdma.hpp): half round trip of a put with its
// event, bandwidth of puts beside the copy engine. No card is behind the GPU: emulated cards execute the
// operations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace nanet::bench {

// Memory of source and target at both nodes. staged: GPU memory, copied through host memory at both nodes.
enum class RdmaPath : std::uint8_t { gpu_to_gpu, host_to_gpu, host_to_host, staged };

struct RdmaHalfRoundTrip {
  double p50_us = 0, p99_us = 0, mean_us = 0;
  std::uint32_t rounds = 0, wrong = 0;  // wrong: messages with wrong data or event
};
struct RdmaBandwidth {
  double put_bytes_per_s = 0, copy_bytes_per_s = 0;  // copy: of cudaMemcpyAsync, or of memcpy
  std::uint32_t puts = 0, by_copy_engine = 0;
  bool wrong = false;  // data
};

class RdmaBench {
 public:
  virtual ~RdmaBench() = default;
  // Throw std::runtime_error.
  virtual RdmaHalfRoundTrip half_round_trip(RdmaPath path, std::uint32_t bytes, std::uint32_t rounds) = 0;
  // One transfer after the other, several posted at once.
  virtual RdmaBandwidth bandwidth(std::uint32_t bytes) = 0;
  virtual std::string card() const = 0;  // the emulated card
  virtual std::string link() const = 0;  // between the nodes
};

inline constexpr std::uint32_t rdma_bench_largest = 64u << 20;  // bytes of a transfer

std::unique_ptr<RdmaBench> open_rdma_host();
// GPUs of both nodes, which may be one. Throws std::invalid_argument or std::runtime_error.
std::unique_ptr<RdmaBench> open_rdma_cuda(int first, int second);

}  // namespace nanet::bench
