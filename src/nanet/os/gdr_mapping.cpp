// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/gdr_mapping.hpp"

#include <dlfcn.h>

#include <type_traits>

// The library's types have other names than ours, which is no error in C.
#ifdef __clang__
#define NANET_CALLS_C __attribute__((no_sanitize("function")))
#else
#define NANET_CALLS_C
#endif

namespace nanet::os {
namespace {

// Excerpt of gdrapi.h of GDRCopy 2 (github.com/NVIDIA/gdrcopy): structures and functions used below, with
// their ABI. The package needs no GDRCopy headers.
struct Handle {
  unsigned long h;
};
struct Info {
  std::uint64_t va, mapped_size;  // va: device address of the first mapped byte
  std::uint32_t page_size;
  std::uint64_t tm_cycles;
  std::uint32_t cycles_per_ms;
  unsigned mapped : 1, wc_mapping : 1;
  int mapping_type;
  std::uint64_t later[8];  // room for members of later versions
};

}  // namespace

// Library, and what has been made of one mapping. Its destructor releases it in reverse order.
struct GdrMapping::Driver {
  void* (*open)() = nullptr;
  int (*close)(void*) = nullptr;
  int (*pin)(void*, unsigned long, std::size_t, std::uint64_t, std::uint32_t, Handle*) = nullptr;
  int (*unpin)(void*, Handle) = nullptr;
  int (*map)(void*, Handle, void**, std::size_t) = nullptr;
  int (*unmap)(void*, Handle, void*, std::size_t) = nullptr;
  int (*info)(void*, Handle, Info*) = nullptr;
  void* gdr = nullptr;
  void* mapped = nullptr;
  std::size_t bytes = 0;
  Handle handle{};
  bool pinned = false;

  NANET_CALLS_C ~Driver() {
    if (mapped) unmap(gdr, handle, mapped, bytes);
    if (pinned) unpin(gdr, handle);
    if (gdr) close(gdr);
  }

  // The library stays loaded.
  bool load(const char* name) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    const auto find = [library](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      return function != nullptr;
    };
    return find(open, "gdr_open") && find(close, "gdr_close") && find(pin, "gdr_pin_buffer") &&
           find(unpin, "gdr_unpin_buffer") && find(map, "gdr_map") && find(unmap, "gdr_unmap") &&
           find(info, "gdr_get_info_v2");
  }
};

GdrMapping::GdrMapping() : driver_(std::make_unique<Driver>()) {}
GdrMapping::~GdrMapping() = default;

NANET_CALLS_C std::unique_ptr<GdrMapping> GdrMapping::open(std::uintptr_t device, std::size_t bytes,
                                                           std::string& why, const char* library) {
  std::unique_ptr<GdrMapping> made(new GdrMapping);
  Driver& d = *made->driver_;
  const auto fails = [&](const std::string& step, int status = 0) {
    why = step + (status ? ": error " + std::to_string(status) : "");
    return nullptr;
  };
  if (!d.load(library)) return fails("no GDRCopy 2 (" + std::string(library) + ")");
  d.gdr = d.open();
  if (!d.gdr) return fails("gdr_open: the module gdrdrv is not loaded, or /dev/gdrdrv not accessible");
  // No peer-to-peer token: the address identifies the memory.
  if (const int status = d.pin(d.gdr, device, bytes, 0, 0, &d.handle)) return fails("gdr_pin_buffer", status);
  d.pinned = true;
  if (const int status = d.map(d.gdr, d.handle, &d.mapped, bytes)) {
    d.mapped = nullptr;
    return fails("gdr_map", status);
  }
  d.bytes = bytes;
  Info info{};
  if (const int status = d.info(d.gdr, d.handle, &info)) return fails("gdr_get_info_v2", status);
  // The driver may map from the begin of a page on.
  if (info.va > device || device - info.va + bytes > info.mapped_size)
    return fails("gdr_get_info_v2: the mapping does not hold the memory");
  made->host_ = static_cast<std::byte*>(d.mapped) + (device - info.va);
  return made;
}

}  // namespace nanet::os
