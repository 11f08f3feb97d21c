// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/pipeline.hpp"

#include <stdexcept>

#include "nanet/gpu/device_executor.hpp"

namespace nanet::gpu {
namespace {

FailoverOptions failover_options(const PipelineOptions& options, ExecutorKind kind) {
  FailoverOptions failover{options.cpu_fallback, options.recovery};
  RecoveryOptions& recovery = failover.recovery;
  if (!options.recovers() || kind == ExecutorKind::batch) recovery.command.clear();
  recovery.device = options.device;
  recovery.blocks = options.blocks;
  recovery.merged_buffers = options.merged_buffers;
  recovery.silence = options.silence;
  recovery.stall = options.stall;
  return failover;
}

auto maker_of(ExecutorKind kind) {
  switch (kind) {
    case ExecutorKind::resident:
      return make_resident_executor;
    case ExecutorKind::launch:
      return make_launch_executor;
    case ExecutorKind::batch:
      break;
  }
  return make_batch_executor;
}

}  // namespace

ExecutorKind executor_kind(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                           const contract::Shape& shape) {
  if (execute.sink) throw std::invalid_argument("a GPU in the loop gives primitives, no rings");
  const rich::Geometry& detector = *execute.process.detector;
  if (!detector.wide() && options.mode == Mode::launch && options.merged_buffers)
    throw std::invalid_argument(
        "trigger.executor = 'launch' with card.merge = true: only the persistent kernel reads merged "
        "buffers: "
        "leave --executor or --merge out");
  if (!detector.wide())
    return options.mode == Mode::persistent ? ExecutorKind::resident : ExecutorKind::launch;
  const auto refuse = [&](const std::string& value, const char* remedy) {
    throw std::invalid_argument(value + " with a detector of " + std::to_string(detector.channels()) +
                                " channels: the CPU builds the events, the GPU finds the rings: " + remedy);
  };
  if (shape.gather == contract::Gather::packets)
    refuse("card.gather = 'packets'", "use --gather frame, or --device cpu");
  if (options.mode == Mode::launch) refuse("trigger.executor = 'launch'", "leave --executor out");
  if (options.mailbox != MailboxMemory::automatic && options.mailbox != MailboxMemory::off)
    refuse("trigger.mailbox = '" + std::string(name_of(options.mailbox)) + "'", "leave --mailbox out");
  return ExecutorKind::batch;
}

Mode mode_of(std::string_view name) {
  for (const Mode mode : {Mode::persistent, Mode::launch})
    if (name == name_of(mode)) return mode;
  throw std::invalid_argument("executor = " + std::string(name) + " must be persistent or launch");
}

std::string_view name_of(Mode mode) {
  return mode == Mode::persistent ? "persistent" : "launch";
}

Pipeline::Pipeline(const PipelineOptions& options, const trigger::ExecutorOptions& execute,
                   const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
                   trigger::TraceTable& traces)
    : kind_(executor_kind(options, execute, views[0].shape)),
      gpus_(kind_ == ExecutorKind::batch && options.reconstructor ? 1 : require_gpus(options)),
      failover_(failover_options(options, kind_), execute, views, algorithm, traces),
      device_(maker_of(kind_)(options, execute, views, algorithm, traces, gpus_, failover_)) {}

Pipeline::~Pipeline() {
  stop();
}

trigger::ExecutorMaker Pipeline::maker(const PipelineOptions& options) {
  return [options](const trigger::ExecutorOptions& execute, const std::vector<contract::View>& views,
                   const rich::Reconstructor& algorithm, trigger::TraceTable& traces) {
    return std::make_unique<Pipeline>(options, execute, views, algorithm, traces);
  };
}

std::string_view Pipeline::name() const noexcept {
  return device_->name();
}

std::string_view Pipeline::memory() const noexcept {
  return device_->memory();
}

void Pipeline::start() {
  // A lost GPU returns in the recovery process only.
  if (failover_.lost())
    failover_.take_over([this] { return device_->at_rest(); });
  else
    device_->start();
}

void Pipeline::stop() noexcept {
  device_->stop();
  failover_.stop();
}

std::vector<const trigger::Physics*> Pipeline::physics() const {
  const std::lock_guard lock(mutex_);
  std::vector<const trigger::Physics*> all;
  device_->append_physics(all);
  failover_.append_physics(all);
  return all;
}

bool Pipeline::event_overrun() const noexcept {
  return failover_.event_overrun() || device_->event_overrun();
}

std::vector<contract::Mailbox> Pipeline::mailboxes() const {
  return device_->mailboxes();
}

std::string Pipeline::mailbox() const {
  return device_->mailbox();
}

std::map<std::string, double> Pipeline::figures() const {
  std::map<std::string, double> figures = device_->figures();
  failover_.append_figures(figures);
  return figures;
}

std::string Pipeline::trouble() const {
  return failover_.trouble();
}

}  // namespace nanet::gpu
