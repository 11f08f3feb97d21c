// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/failover/failover.hpp"

#include <utility>

#include "nanet/gpu/failover/cpu_fallback.hpp"
#include "nanet/gpu/failover/gpu_recovery.hpp"

namespace nanet::gpu {
namespace {

RecoveryOptions recovery_of(const FailoverOptions& options) {
  RecoveryOptions recovery = options.recovery;
  if (!options.cpu_fallback) recovery.command.clear();
  return recovery;
}

}  // namespace

Failover::Failover(const FailoverOptions& options, const trigger::ExecutorOptions& execute,
                   const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
                   trigger::TraceTable& traces)
    : fallback_(std::make_unique<CpuFallback>(options.cpu_fallback, execute, views, algorithm, traces)),
      recovery_(std::make_unique<GpuRecovery>(recovery_of(options), execute, views, traces, *fallback_)) {}

Failover::~Failover() {
  stop();
}

bool Failover::can_recover() const noexcept {
  return recovery_->possible();
}

bool Failover::lost() const noexcept {
  return fallback_->lost();
}

bool Failover::lose(const std::string& why) noexcept {
  return fallback_->lose(why);
}

void Failover::take_over(std::function<bool()> at_rest) {
  fallback_->activate();
  recovery_->begin(std::move(at_rest));
}

void Failover::stop() noexcept {
  recovery_->end();
  fallback_->stop();
}

bool Failover::event_overrun() const noexcept {
  return recovery_->event_overrun();
}

void Failover::append_physics(std::vector<const trigger::Physics*>& all) const {
  fallback_->append_physics(all);
  recovery_->append_physics(all);
}

void Failover::append_figures(std::map<std::string, double>& figures) const {
  recovery_->append_figures(figures);
  fallback_->append_figures(figures);
}

std::string Failover::trouble() const {
  return fallback_->trouble();
}

}  // namespace nanet::gpu
