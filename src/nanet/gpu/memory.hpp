// SPDX-License-Identifier: Apache-2.0
// Owners of device memory, pinned host memory, streams and events. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "nanet/gpu/kernels/batch_kernel.hpp"

namespace nanet::gpu {

namespace detail {
struct DeviceFree {
  void operator()(void* p) const noexcept { cudaFree(p); }
};
struct PinnedFree {
  void operator()(void* p) const noexcept { cudaFreeHost(p); }
};
struct StreamDestroy {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
};
struct EventDestroy {
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
};
}  // namespace detail

template <class T>
using DeviceArray = std::unique_ptr<T[], detail::DeviceFree>;
template <class T>
using PinnedArray = std::unique_ptr<T[], detail::PinnedFree>;
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, detail::StreamDestroy>;
using TimeEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, detail::EventDestroy>;

// Not initialised. Throw std::runtime_error.
template <class T>
DeviceArray<T> device_array(std::size_t entries) {
  void* p = nullptr;
  require(cudaMalloc(&p, entries * sizeof(T)), "device memory");
  return DeviceArray<T>(static_cast<T*>(p));
}
template <class T>
PinnedArray<T> pinned_array(std::size_t entries) {
  void* p = nullptr;
  require(cudaHostAlloc(&p, entries * sizeof(T), cudaHostAllocPortable), "pinned memory");
  return PinnedArray<T>(static_cast<T*>(p));
}
inline Stream stream() {
  cudaStream_t s = nullptr;
  require(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream");
  return Stream(s);
}
inline TimeEvent time_event() {
  cudaEvent_t e = nullptr;
  require(cudaEventCreate(&e), "an event");
  return TimeEvent(e);
}

}  // namespace nanet::gpu
