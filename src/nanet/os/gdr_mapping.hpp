// SPDX-License-Identifier: Apache-2.0
// CPU mapping of GPU memory by GDRCopy: the kernel module gdrdrv, through libgdrapi.so.2, which is loaded at
// run time. Tested with a library that stands in for it; not run with the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace nanet::os {

class GdrMapping {
 public:
  static constexpr std::size_t page = 65536;  // GPU_PAGE_SIZE of gdrapi.h
  static constexpr const char* default_library = "libgdrapi.so.2";

  // device: address of GPU memory, and `bytes`: multiples of `page`; the memory outlives the mapping, and has
  // the attribute CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. Null where the library or the module does not offer it;
  // why: the step that failed.
  static std::unique_ptr<GdrMapping> open(std::uintptr_t device, std::size_t bytes, std::string& why,
                                          const char* library = default_library);
  ~GdrMapping();
  GdrMapping(const GdrMapping&) = delete;
  GdrMapping& operator=(const GdrMapping&) = delete;

  // CPU address of `device`. Written by CPU threads; a read takes a microsecond.
  std::byte* host() const noexcept { return host_; }

 private:
  struct Driver;
  GdrMapping();
  std::unique_ptr<Driver> driver_;
  std::byte* host_ = nullptr;
};

}  // namespace nanet::os
