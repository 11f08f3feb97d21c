// SPDX-License-Identifier: Apache-2.0
// Entry point of the provider, and the functions of the loading libfabric.
#include <dlfcn.h>

#include "nanet/fabric/libfabric.hpp"

namespace nanet::fabric {
namespace {

Library functions;
Parameters values;

template <class F>
bool find(void* from, const char* name, F& function) noexcept {
  function = reinterpret_cast<F>(dlsym(from, name));
  return function != nullptr;
}

bool find_all(void* from) noexcept {
  return find(from, "fi_version", functions.version) && find(from, "fi_dupinfo", functions.dupinfo) &&
         find(from, "fi_freeinfo", functions.freeinfo) && find(from, "fi_strerror", functions.strerror) &&
         find(from, "fi_param_define", functions.param_define) &&
         find(from, "fi_param_get", functions.param_get);
}

// Keeps the value if the parameter is not set, or empty.
void get_text(const char* name, const char*& value) noexcept {
  char* text = nullptr;
  if (functions.param_get(&provider, name, static_cast<void*>(&text)) == 0 && text != nullptr && *text != 0)
    value = text;
}

void define_parameters() noexcept {
  functions.param_define(&provider, "directory", FI_PARAM_STRING,
                         "Directory of the shared files, in memory (default: /dev/shm)");
  functions.param_define(&provider, "direct", FI_PARAM_BOOL,
                         "Transfer with one copy between processes where permitted (default: yes)");
  functions.param_define(&provider, "torus", FI_PARAM_STRING,
                         "Control file of a torus, of nanet torus serve (default: none, shared memory)");
  functions.param_define(
      &provider, "cards", FI_PARAM_STRING,
      "Torus cards in slots, PCI address and node: 0000:03:00.0@0,0,0 ... (not run on hardware)");
  functions.param_define(&provider, "size", FI_PARAM_STRING, "Nodes of the torus of these cards, XxYxZ");
  get_text("torus", values.torus);
  get_text("cards", values.cards);
  get_text("size", values.size);
  get_text("directory", values.directory);
  int direct = 1;
  if (functions.param_get(&provider, "direct", &direct) == 0) values.direct = direct != 0;
}

void clean_up() noexcept {}

}  // namespace

bool load_library(const void* caller) noexcept {
  Dl_info info = {};
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr)
    if (void* const loaded = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        loaded != nullptr && find_all(loaded))
      return true;
  if (find_all(RTLD_DEFAULT)) return true;
  void* const named = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
  return named != nullptr && find_all(named);
}

const Library& library() noexcept {
  return functions;
}
const Parameters& parameters() noexcept {
  return values;
}

fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(1, 17),
    .context = {},
    .name = "nanet",
    .getinfo = get_info,
    .fabric = open_fabric,
    .cleanup = clean_up,
};

}  // namespace nanet::fabric

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  namespace fabric = nanet::fabric;
  if (!fabric::load_library(__builtin_return_address(0))) return nullptr;
  // MPICH accepts only providers that are as new as its libfabric.
  fabric::provider.fi_version = fabric::library().version();
  fabric::define_parameters();
  return &fabric::provider;
}
