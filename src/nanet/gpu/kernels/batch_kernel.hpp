// SPDX-License-Identifier: Apache-2.0
// Batch kernels: ring algorithms over a batch in device memory, one table for thread and warp kernels. For
// .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nanet/gpu/cuda_error.hpp"
#include "nanet/gpu/plane_entries.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::gpu {

// Arguments of a batch kernel; all pointers are to memory accessible to the device. As rich::EventBatch;
// plane, math_plane: plane_entries; for launch_plain(), plane may have more. One of rings and primitives may
// be null.
struct DeviceBatch {
  std::uint32_t events = 0;
  const std::uint32_t* first = nullptr;
  const PmId* pm = nullptr;
  const rich::Point* plane = nullptr;
  const rich::Math::Position* math_plane = nullptr;  // table of Math::set()
  rich::Rings* rings = nullptr;
  std::uint16_t* primitives = nullptr;
  void* work = nullptr;  // BatchKernel::work_bytes(events), on a 256 B boundary; null: slower
};

struct BatchKernel {
  std::string_view name;
  // value: Reconstructor::value(). Asynchronous.
  cudaError_t (*launch)(const void* value, const DeviceBatch& batch, const trigger::DecisionOptions& decision,
                        int multiprocessors, cudaStream_t stream);
  // Working memory for a batch of this size; without it launch() is slower.
  std::size_t (*work_bytes)(std::uint32_t events) = [](std::uint32_t) -> std::size_t { return 0; };
  // As launch(), with the same bits: calls the algorithm of the CPU event by event. Reads no table but
  // `plane`, at the PM IDs of the hits and of the detector, without a limit on them.
  cudaError_t (*launch_plain)(const void* value, const DeviceBatch& batch,
                              const trigger::DecisionOptions& decision, int multiprocessors,
                              cudaStream_t stream) = nullptr;
};

// Throws std::invalid_argument if the algorithm has no kernel.
const BatchKernel& kernel_of(std::string_view algorithm);

}  // namespace nanet::gpu
