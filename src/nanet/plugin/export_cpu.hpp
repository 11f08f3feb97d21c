// SPDX-License-Identifier: Apache-2.0
// The table of a plug-in, with its functions for CPUs. Included once, by the generated source file.
#pragma once

#include <new>
#include <vector>

#include "nanet/plugin/algorithm.hpp"
#include "nanet/rich/lanes.hpp"
#include "nanet/rich/plugin_table.hpp"

namespace nanet::plugin {

template <class A>
concept Parametrised = requires(A a) {
  typename A::Parameters;
  a.parameters;
  A::keys();
};

template <class A>
struct Export {
  using R = Running<A>;

  static void make(const double* values, void* at) {
    A* const a = new (at) A{};
    if constexpr (Parametrised<A>) {
      for (const auto& key : A::keys()) rich::set_parameter(a->parameters, key, *values++);
    } else {
      static_cast<void>(a);
      static_cast<void>(values);
    }
  }
  static void reconstruct(const void* value, const Point* plane, void* scratch, const rich::EventBatch* batch,
                          Rings* rings) {
    const R& algorithm = *static_cast<const R*>(value);
    for (std::uint32_t i = 0; i < batch->events; ++i) {
      if constexpr (Wide<A>) {
        algorithm.template operator()<rich::HostLanes>(batch->view(i), plane,
                                                       *static_cast<typename A::Scratch*>(scratch), rings[i]);
      } else {
        static_cast<void>(scratch);
        rings[i] = algorithm(batch->view(i), plane);
      }
    }
  }
  static const rich::PluginTable* table(const rich::PluginCuda* cuda) {
    static const std::vector<rich::PluginParameter> parameters = [] {
      std::vector<rich::PluginParameter> list;
      if constexpr (Parametrised<A>) {
        const typename A::Parameters defaults{};
        for (const auto& key : A::keys())
          list.push_back({key.name, rich::parameter(defaults, key), key.low, key.high, key.meaning,
                          rich::whole(key) ? 1u : 0u});
      }
      return list;
    }();
    static_assert(fits<A>());
    static rich::PluginTable t{};
    t.magic = rich::plugin_magic;
    t.interface = rich::plugin_interface;
    t.bytes = sizeof t;
    t.version = NANET_PLUGIN_VERSION;
    t.layout = rich::plugin_layout;
    t.name = A::name.data();  // of a literal, so it ends in 0
    t.parameters = static_cast<std::uint32_t>(parameters.size());
    t.parameter = parameters.data();
    t.value_bytes = sizeof(A);
    t.value_align = alignof(A);
    if constexpr (Wide<A>) {
      t.scratch_bytes = sizeof(typename A::Scratch);
      t.scratch_align = alignof(typename A::Scratch);
    }
    t.make = make;
    t.reconstruct = reconstruct;
    t.cuda = cuda;
    return &t;
  }
};

}  // namespace nanet::plugin

#ifdef NANET_PLUGIN_WITH_CUDA
extern "C" const nanet::rich::PluginCuda* nanet_algorithm_cuda();
#else
inline const nanet::rich::PluginCuda* nanet_algorithm_cuda() {
  return nullptr;
}
#endif

#define NANET_ALGORITHM(Struct)                                                                         \
  extern "C" __attribute__((visibility("default"))) const nanet::rich::PluginTable* nanet_algorithm() { \
    return nanet::plugin::Export<Struct>::table(nanet_algorithm_cuda());                                \
  }
