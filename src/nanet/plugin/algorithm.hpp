// SPDX-License-Identifier: Apache-2.0
// What a header with an algorithm of one's own includes (docs/writing-algorithms.md). The algorithm is a
// struct
//
//     struct Mine {
//       static constexpr std::string_view name = "mine";   // for --algorithm, [algorithm.mine] and reports
//       struct Parameters { std::uint32_t cut = 24; };     // uint32_t and float
//       static nanet::plugin::Keys<Parameters> keys() {    // key, member, lowest, highest, meaning
//         return {{"cut", &Parameters::cut, 1, 128, "fewest hits of an event that fires"}};
//       }
//       Parameters parameters;
//       NANET_HD nanet::plugin::Primitive operator()(const nanet::plugin::EventView& event,
//                                                    const nanet::plugin::Point* plane) const;
//     };
//     NANET_ALGORITHM(Mine)
//
// without Parameters, keys() and `parameters` where it has none. On a GPU every event is a thread's.
#pragma once

#include <string_view>
#include <type_traits>

#include "nanet/rich/parameters.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::plugin {

using rich::EventView;  // pm[0] .. pm[hits - 1], ascending and distinct; at most 128
using rich::Keys;
using rich::Point;  // plane[pm]: position of a PM in the common plane, mm
using rich::Ring;
using rich::Rings;

// The answer to an event: the bits of its primitive ID (docs/formats.md, MTP). Bit 14 (valid), bit 7
// (incomplete) and bit 15 are nanet's to set, whatever is given. An operator may also return Rings: then the
// trigger makes the primitive of them, as of its own algorithms'.
struct Primitive {
  std::uint16_t bits = 0;
};

// An algorithm that works with a warp for each event (rich/reconstructor.hpp) has a type Scratch.
template <class A>
concept Wide = requires { typename A::Scratch; };

// An algorithm as nanet runs it: the struct itself, or around one that gives primitives what makes rings of
// them that carry the primitive.
template <class A>
struct Carrier {
  static constexpr std::string_view name = A::name;
  A algorithm;
  NANET_HD Rings operator()(const EventView& event, const Point* plane) const {
    const auto answer = algorithm(event, plane);
    if constexpr (std::is_same_v<std::remove_cv_t<decltype(answer)>, Primitive>) {
      Rings rings;
      rings.primitive = static_cast<std::uint16_t>(answer.bits | trigger::primitive_bit::valid);
      return rings;
    } else {
      static_assert(std::is_same_v<std::remove_cv_t<decltype(answer)>, Rings>,
                    "the call operator must return nanet::plugin::Primitive or nanet::plugin::Rings");
      return answer;
    }
  }
};
template <class A>
using Running = std::conditional_t<Wide<A>, A, Carrier<A>>;

template <class A>
constexpr bool fits() {
  static_assert(std::is_trivially_copyable_v<A>, "an algorithm is copied to the GPU as it lies in memory");
  static_assert(std::is_default_constructible_v<A>, "an algorithm's parameters have defaults");
  static_assert(sizeof(A) <= 2048, "an algorithm is an argument of a kernel: at most 2048 B");
  static_assert(sizeof(Running<A>) == sizeof(A));
  return true;
}

}  // namespace nanet::plugin

// In the files that nanet_add_algorithm() and `nanet build-algorithm` generate, this makes the plug-in's
// functions; elsewhere, so in a unit test of the algorithm, it checks the struct.
#if defined(NANET_PLUGIN_CPU)
#include "nanet/plugin/export_cpu.hpp"
#elif defined(NANET_PLUGIN_CUDA)
#include "nanet/plugin/export_cuda.cuh"
#else
#define NANET_ALGORITHM(Struct) static_assert(nanet::plugin::fits<Struct>());
#endif
