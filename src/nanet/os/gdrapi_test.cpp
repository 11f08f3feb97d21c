// SPDX-License-Identifier: Apache-2.0
// Stand-in for GDRCopy's libgdrapi.so.2: "device memory" is host memory, which gdr_map() maps from the begin
// of a page on, as the driver may. Records the calls; one of them may fail. Loaded by gdr_mapping_test.cpp.
#include <cstdint>
#include <cstring>
#include <string>

namespace {

struct Handle {
  unsigned long h;
};
struct Info {  // gdr_info_v2 of gdrapi.h
  std::uint64_t va, mapped_size;
  std::uint32_t page_size;
  std::uint64_t tm_cycles;
  std::uint32_t cycles_per_ms;
  unsigned mapped : 1, wc_mapping : 1;
  int mapping_type;
};

constexpr std::uint64_t ahead = 4096;  // mapped before the first byte requested
constexpr unsigned long number = 0x4711;

std::string calls, failing;
int library;  // its address is the handle of the library
std::uint64_t pinned_at = 0, pinned_bytes = 0;

// Records a call; true if it is to fail.
bool record(const char* name, bool right = true) {
  calls += std::string(calls.empty() ? "" : " ") + name + (right ? "" : "(wrong arguments)");
  return failing == name;
}
bool right(const void* g, Handle handle) {
  return g == &library && handle.h == number;
}

}  // namespace

extern "C" {

// Control by the test: begins a record; `fail`: call that fails.
void fake_begin(const char* fail) {
  calls.clear();
  failing = fail;
}
const char* fake_calls() {
  return calls.c_str();
}

void* gdr_open() {
  return record("open") ? nullptr : &library;
}
int gdr_close(void* g) {
  record("close", g == &library);
  return 0;
}
int gdr_pin_buffer(void* g, unsigned long address, std::size_t size, std::uint64_t token, std::uint32_t space,
                   Handle* handle) {
  if (record("pin", g == &library && token == 0 && space == 0 && address % 65536 == 0 && size % 65536 == 0))
    return 12;
  pinned_at = address;
  pinned_bytes = size;
  *handle = {number};
  return 0;
}
int gdr_unpin_buffer(void* g, Handle handle) {
  record("unpin", right(g, handle));
  return 0;
}
int gdr_map(void* g, Handle handle, void** at, std::size_t size) {
  if (record("map", right(g, handle) && size == pinned_bytes)) return 11;
  *at = reinterpret_cast<void*>(pinned_at - ahead);
  return 0;
}
int gdr_unmap(void* g, Handle handle, void* at, std::size_t size) {
  record("unmap",
         right(g, handle) && at == reinterpret_cast<void*>(pinned_at - ahead) && size == pinned_bytes);
  return 0;
}
int gdr_get_info_v2(void* g, Handle handle, Info* info) {
  if (record("info", right(g, handle))) return 22;
  std::memset(static_cast<void*>(info), 0, sizeof *info);
  info->va = pinned_at - ahead;
  // "short": a mapping that ends before the memory.
  info->mapped_size = pinned_bytes + (failing == "short" ? 0 : ahead);
  info->page_size = 65536;
  info->mapped = info->wc_mapping = 1;
  info->mapping_type = 1;
  return 0;
}

}  // extern "C"
