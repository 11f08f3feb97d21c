// SPDX-License-Identifier: Apache-2.0
// The GPU in the loop of a build without a CUDA compiler.
#include <stdexcept>

#include "nanet/loop/buffers_bench.hpp"
#include "nanet/loop/executor_cuda.hpp"

namespace nanet::loop {

// The declaration is that of builds with CUDA.
// NOLINTBEGIN(performance-unnecessary-value-param)
std::unique_ptr<trigger::Executor> make_cuda_executor(const CudaOptions&, const trigger::ExecutorOptions&,
                                                      std::vector<contract::View>, const rich::Reconstructor&,
                                                      trigger::TraceTable&) {
  throw std::runtime_error("this build has no CUDA component: use --device cpu");
}
// NOLINTEND(performance-unnecessary-value-param)

void buffers_cuda(const BuffersOptions&, BuffersResult&) {
  throw std::runtime_error("this build has no CUDA component");
}

}  // namespace nanet::loop
