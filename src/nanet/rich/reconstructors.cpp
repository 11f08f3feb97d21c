// SPDX-License-Identifier: Apache-2.0
// CPU reconstructors of all library algorithms. Compiled for each instruction set of simd.hpp.
#include "nanet/rich/reconstructor.hpp"

#include "nanet/generated/algorithms.hpp"
#include "nanet/rich/simd.hpp"

namespace nanet::rich {
namespace {

template <class A>
std::unique_ptr<Reconstructor> make(const void* value, const Geometry& geometry) {
  const A& algorithm = *static_cast<const A*>(value);
  if constexpr (requires { A::batch_reconstructor(algorithm, geometry); })
    return A::batch_reconstructor(algorithm, geometry);
  else if constexpr (requires { typename A::Scratch; })
    return std::make_unique<WideReconstructor<A>>(algorithm, geometry);
  else
    return std::make_unique<EventReconstructor<A>>(algorithm, geometry);
}

template <class... A>
const MakeReconstructor* table_of(AlgorithmList<A...>) {
  static constexpr MakeReconstructor table[] = {make<A>...};
  return table;
}

}  // namespace
}  // namespace nanet::rich

// In the order of algorithms.list. The build renames it in each variant.
extern "C" const nanet::rich::MakeReconstructor* nanet_reconstructors() {
  return nanet::rich::table_of(nanet::rich::RingAlgorithms{});
}
