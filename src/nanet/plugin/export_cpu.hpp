// SPDX-License-Identifier: Apache-2.0
// Plug-in table with the CPU functions. Included once, by the generated source file.
#pragma once

#include <new>
#include <vector>

#include "nanet/plugin/algorithm.hpp"
#include "nanet/rich/lanes.hpp"
#include "nanet/rich/plugin_build_id.hpp"
#include "nanet/rich/plugin_table.hpp"

// Instruction sets enabled by -march, as plugins.cpp names them, each followed by a space.
#ifdef __SSE4_2__
#define NANET_NEEDS_SSE4_2 "sse4.2 popcnt "
#else
#define NANET_NEEDS_SSE4_2
#endif
#ifdef __AVX2__
#define NANET_NEEDS_AVX2 "avx2 "
#else
#define NANET_NEEDS_AVX2
#endif
#ifdef __FMA__
#define NANET_NEEDS_FMA "fma "
#else
#define NANET_NEEDS_FMA
#endif
#ifdef __BMI2__
#define NANET_NEEDS_BMI2 "bmi2 "
#else
#define NANET_NEEDS_BMI2
#endif
#ifdef __AVX512F__
#define NANET_NEEDS_AVX512F "avx512f "
#else
#define NANET_NEEDS_AVX512F
#endif
#ifdef __AVX512VL__
#define NANET_NEEDS_AVX512VL "avx512vl avx512bw avx512dq "
#else
#define NANET_NEEDS_AVX512VL
#endif
#ifdef __AVX512VBMI__
#define NANET_NEEDS_AVX512VBMI "avx512vbmi "
#else
#define NANET_NEEDS_AVX512VBMI
#endif
#ifndef NANET_PLUGIN_NEEDS  // tests override it
#define NANET_PLUGIN_NEEDS                                                                 \
  NANET_NEEDS_SSE4_2 NANET_NEEDS_AVX2 NANET_NEEDS_FMA NANET_NEEDS_BMI2 NANET_NEEDS_AVX512F \
      NANET_NEEDS_AVX512VL NANET_NEEDS_AVX512VBMI ""
#endif

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
    t.build_id = rich::plugin_build_id.data();
    t.name = A::name.data();  // literal: null-terminated
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

// A data symbol: it is read before any plug-in instruction runs, as the processor may lack some instructions.
#define NANET_ALGORITHM(Struct)                                                                         \
  extern "C" __attribute__((visibility("default"))) const char nanet_algorithm_needs[];                 \
  const char nanet_algorithm_needs[] = NANET_PLUGIN_NEEDS;                                              \
  extern "C" __attribute__((visibility("default"))) const nanet::rich::PluginTable* nanet_algorithm() { \
    return nanet::plugin::Export<Struct>::table(nanet_algorithm_cuda());                                \
  }
