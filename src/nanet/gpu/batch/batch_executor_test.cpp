// SPDX-License-Identifier: Apache-2.0
// Executor cuda-batch without a GPU: choice of the executor kind, refusals, and all scenarios with a
// reconstructor on the CPU in the place of the device.
#include "nanet/gpu/batch/batch_executor_test.hpp"

#include <stdexcept>

namespace nanet::gpu {
namespace {

constexpr const char* reason = "it fails on purpose";

// Fails, as a device does, in call `last`: the CPU finds these rings and all later ones.
class InPlaceOfGpu final : public GpuReconstructor {
 public:
  InPlaceOfGpu(const rich::Reconstructor& cpu, unsigned last) : cpu_(cpu.clone()), last_(last) {}
  std::string_view name() const noexcept override { return cpu_->name(); }
  const void* value() const noexcept override { return cpu_->value(); }
  std::unique_ptr<rich::Reconstructor> clone() const override {
    return std::make_unique<InPlaceOfGpu>(*cpu_, last_);
  }
  void operator()(const rich::EventBatch& batch, rich::Rings* rings) noexcept override {
    ++calls_;
    (*cpu_)(batch, rings);
  }
  void operator()(const rich::PointBatch& batch, rich::Rings* rings) noexcept override {
    (*cpu_)(batch, rings);
  }
  const char* failed() const noexcept override { return calls_ >= last_ ? reason : nullptr; }

 private:
  std::unique_ptr<rich::Reconstructor> cpu_;
  unsigned last_, calls_ = 0;
};

PipelineOptions without_gpu(unsigned last = ~0u) {
  PipelineOptions options;
  options.reconstructor = [last](const rich::Reconstructor& cpu, const rich::Geometry&, int) {
    return std::make_unique<InPlaceOfGpu>(cpu, last);
  };
  return options;
}

TEST(BatchExecutor, AnyTrafficIsAnsweredAsByTheCpu) {
  for (const char* algorithm : {"math", "multiring"}) batch_test::any_traffic(without_gpu(), algorithm, 300);
}

TEST(BatchExecutor, MergedBuffers) {
  batch_test::merged_buffers(without_gpu());
}

TEST(BatchExecutor, ConditionsAndDownscaling) {
  batch_test::conditions_and_downscaling(without_gpu());
}

TEST(BatchExecutor, TwoQueuesStopAndStartAgain) {
  batch_test::two_queues_restarted(without_gpu());
}

TEST(BatchExecutor, ALostDeviceIsReplacedByTheCpu) {
  batch_test::lost_device(without_gpu(1), reason);
  PipelineOptions options = without_gpu();
  options.injection = {Injection::Kind::hang, 300};
  batch_test::lost_device(options, "a fault on purpose");
}

TEST(BatchExecutor, LateFramesAreSkipped) {
  batch_test::late_frames_are_skipped(without_gpu());
}

class Kind : public testing::Test {
 protected:
  ExecutorKind kind() const { return executor_kind(options_, execute_, shape_); }
  std::string refusal() const {
    try {
      static_cast<void>(kind());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }
  void wide() { execute_.process.detector = batch_test::detector(); }

  PipelineOptions options_;
  trigger::ExecutorOptions execute_;
  contract::Shape shape_;
};

TEST_F(Kind, FollowsTheNumberOfChannels) {
  EXPECT_EQ(kind(), ExecutorKind::resident);
  options_.mode = Mode::launch;
  EXPECT_EQ(kind(), ExecutorKind::launch);
  options_.mode = Mode::persistent;
  wide();
  EXPECT_EQ(kind(), ExecutorKind::batch);
  options_.mailbox = MailboxMemory::off;
  EXPECT_EQ(kind(), ExecutorKind::batch);
}

TEST_F(Kind, OfMergedBuffersIsResident) {
  options_.merged_buffers = true;
  options_.mailbox = MailboxMemory::pinned;
  EXPECT_EQ(kind(), ExecutorKind::resident);
  options_.mode = Mode::launch;
  EXPECT_EQ(
      refusal(),
      "trigger.executor = 'launch' with card.merge = true: only the persistent kernel reads merged buffers: "
      "leave --executor or --merge out");
}

TEST_F(Kind, RefusesWhatTheBatchExecutorCannotDo) {
  wide();
  const std::string why =
      " with a detector of 65536 channels: the CPU builds the events, the GPU finds the rings: ";
  options_.mode = Mode::launch;
  EXPECT_EQ(refusal(), "trigger.executor = 'launch'" + why + "leave --executor out");
  options_.mode = Mode::persistent;
  options_.mailbox = MailboxMemory::pinned;
  EXPECT_EQ(refusal(), "trigger.mailbox = 'pinned'" + why + "leave --mailbox out");
  options_.mailbox = MailboxMemory::gpu;
  EXPECT_EQ(refusal(), "trigger.mailbox = 'gpu'" + why + "leave --mailbox out");
  options_.mailbox = MailboxMemory::automatic;
  shape_.gather = contract::Gather::packets;
  EXPECT_EQ(refusal(), "card.gather = 'packets'" + why + "use --gather frame, or --device cpu");
}

}  // namespace
}  // namespace nanet::gpu
