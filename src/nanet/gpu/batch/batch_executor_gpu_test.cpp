// SPDX-License-Identifier: Apache-2.0
// Needs a GPU (label gpu): the scenarios of the executor cuda-batch, with the rings of a GPU.
#include <cstdlib>

#include "nanet/gpu/batch/batch_executor_test.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/registry.hpp"

namespace nanet::gpu {
namespace {

class GpuBatchExecutor : public testing::Test {
 protected:
  void SetUp() override {
    const Devices all = devices();
    if (all.found.empty()) GTEST_SKIP() << "no GPU: " << all.trouble;
    if (std::getenv("NANET_PATIENT")) options_.stall = 60'000'000'000;  // sanitizers are slow
  }
  PipelineOptions options_;
};

TEST_F(GpuBatchExecutor, EveryAlgorithmAnswersAsTheCpuDoes) {
  for (const std::string& name : kernel_names()) {
    SCOPED_TRACE(name);
    batch_test::any_traffic(options_, name, name == "math" || name == "multiring" ? 1000 : 100);
  }
}

TEST_F(GpuBatchExecutor, MergedBuffers) {
  batch_test::merged_buffers(options_);
}

TEST_F(GpuBatchExecutor, ConditionsAndDownscaling) {
  batch_test::conditions_and_downscaling(options_);
}

TEST_F(GpuBatchExecutor, TwoQueuesStopAndStartAgain) {
  batch_test::two_queues_restarted(options_);
}

TEST_F(GpuBatchExecutor, ALostGpuIsReplacedByTheCpu) {
  options_.injection = {Injection::Kind::hang, 300};
  batch_test::lost_device(options_, "a fault on purpose");
}

TEST_F(GpuBatchExecutor, LateFramesAreSkipped) {
  batch_test::late_frames_are_skipped(options_);
}

}  // namespace
}  // namespace nanet::gpu
