// SPDX-License-Identifier: Apache-2.0
// The CUDA component of a build without a CUDA compiler: no device, and the reason.
#include <stdexcept>

#include "nanet/cuda/bench.hpp"
#include "nanet/cuda/device.hpp"
#include "nanet/cuda/reconstructor.hpp"

namespace nanet::cuda {

Devices devices() {
  Devices none;
  none.trouble = "this build has no CUDA component";
  return none;
}

std::unique_ptr<CudaReconstructor> make_reconstructor(const rich::Reconstructor&, const rich::Geometry&,
                                                      int) {
  throw std::invalid_argument("device: this build has no CUDA component: use --device cpu");
}

RingsCudaResult rings_cuda(const rich::EventBatch&, const RingsCudaOptions&) {
  throw std::invalid_argument("this build has no CUDA component");
}

}  // namespace nanet::cuda
