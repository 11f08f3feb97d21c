// SPDX-License-Identifier: Apache-2.0
// Loads and stores of the memory contract on a GPU, with the scope and order of docs/formats.md (Ordering);
// device clock; copy into a block.
#pragma once

#include <cstdint>

#include "nanet/contract/layout.hpp"

namespace nanet::contract {

__device__ inline std::uint32_t load_acquire_system(const std::uint32_t* at) {
  std::uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline std::uint32_t load_relaxed_system(const std::uint32_t* at) {
  std::uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
// Unit of 16 B accesses.
struct Sixteen {
  std::uint64_t low, high;
  __device__ bool operator==(const Sixteen& o) const { return low == o.low && high == o.high; }
};
__device__ inline Sixteen load_acquire_system(const Sixteen* at) {
  Sixteen v;
  asm volatile("{\n\t.reg .b128 t;\n\tld.acquire.sys.global.b128 t, [%2];\n\tmov.b128 {%0, %1}, t;\n\t}"
               : "=l"(v.low), "=l"(v.high)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline Sixteen load_relaxed_system(const Sixteen* at) {
  Sixteen v;
  asm volatile("{\n\t.reg .b128 t;\n\tld.relaxed.sys.global.b128 t, [%2];\n\tmov.b128 {%0, %1}, t;\n\t}"
               : "=l"(v.low), "=l"(v.high)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* at) {
  std::uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline std::uint64_t load_relaxed_system(const std::uint64_t* at) {
  std::uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline void store_release_system(std::uint32_t* at, std::uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(at), "r"(v) : "memory");
}
__device__ inline void store_release_system(std::uint64_t* at, std::uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(at), "l"(v) : "memory");
}
__device__ inline void store_relaxed_system(std::uint32_t* at, std::uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(at), "r"(v) : "memory");
}
__device__ inline void store_relaxed_system(std::uint64_t* at, std::uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(at), "l"(v) : "memory");
}
// Device scope: between the blocks of one device.
__device__ inline std::uint32_t load_acquire_device(const std::uint32_t* at) {
  std::uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline void store_release_device(std::uint32_t* at, std::uint32_t v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(v) : "memory");
}
__device__ inline std::uint32_t load_relaxed_device(const std::uint32_t* at) {
  std::uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline std::uint64_t load_relaxed_device(const std::uint64_t* at) {
  std::uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline void store_relaxed_device(std::uint32_t* at, std::uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(v) : "memory");
}
__device__ inline void store_relaxed_device(std::uint64_t* at, std::uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(at), "l"(v) : "memory");
}

__device__ inline Sixteen load_relaxed_device(const Sixteen* at) {
  Sixteen v;
  asm volatile("{\n\t.reg .b128 t;\n\tld.relaxed.gpu.global.b128 t, [%2];\n\tmov.b128 {%0, %1}, t;\n\t}"
               : "=l"(v.low), "=l"(v.high)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline void store_release_device(Sixteen* at, const Sixteen& v) {
  asm volatile("{\n\t.reg .b128 t;\n\tmov.b128 t, {%1, %2};\n\tst.release.gpu.global.b128 [%0], t;\n\t}"
               :
               : "l"(at), "l"(v.low), "l"(v.high)
               : "memory");
}

__device__ inline void store_release_system(Sixteen* at, const Sixteen& v) {
  asm volatile("{\n\t.reg .b128 t;\n\tmov.b128 t, {%1, %2};\n\tst.release.sys.global.b128 [%0], t;\n\t}"
               :
               : "l"(at), "l"(v.low), "l"(v.high)
               : "memory");
}
__device__ inline void store_relaxed_system(Sixteen* at, const Sixteen& v) {
  asm volatile("{\n\t.reg .b128 t;\n\tmov.b128 t, {%1, %2};\n\tst.relaxed.sys.global.b128 [%0], t;\n\t}"
               :
               : "l"(at), "l"(v.low), "l"(v.high)
               : "memory");
}

__device__ inline std::int64_t device_time() {
  std::uint64_t v;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v) : : "memory");
  return static_cast<std::int64_t>(v);
}

// Copy by one block, 16 B per thread and load, all loads in flight. For shared memory the multiprocessor's
// copy engine is used; for other memory the threads write.
struct BlockCopy {
  __device__ void operator()(std::byte* to, const std::byte* from, std::uint32_t bytes) const {
    if (__isShared(to)) {
      const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
      for (std::uint32_t i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at + i), "l"(from + i) : "memory");
    } else {
      for (std::uint32_t i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x)
        *reinterpret_cast<uint4*>(to + i) = __ldcv(reinterpret_cast<const uint4*>(from + i));
    }
  }
  __device__ void wait() const { asm volatile("cp.async.wait_all;" : : : "memory"); }
};

}  // namespace nanet::contract
