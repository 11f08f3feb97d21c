// SPDX-License-Identifier: Apache-2.0
// Recovery process, service side: an executor on the queues of another process.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gpu/failover/failover.hpp"
#include "nanet/gpu/failover/recovery_block.hpp"
#include "nanet/gpu/pipeline.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/region_allocator.hpp"

namespace nanet::gpu {
namespace {

using contract::acquire;
using contract::release;

RecoveryBlock* map_block(int fd) {
  struct stat about{};
  if (fstat(fd, &about) != 0 || static_cast<std::size_t>(about.st_size) != sizeof(RecoveryBlock))
    return nullptr;
  void* const at = mmap(nullptr, sizeof(RecoveryBlock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const block = static_cast<RecoveryBlock*>(at);
  return block->magic == RecoveryBlock::magic_number && block->bytes == sizeof(RecoveryBlock) ? block
                                                                                              : nullptr;
}

void map(const RecoveryBlock::Region& region) {
  os::map_shared(region.fd, reinterpret_cast<std::byte*>(region.at), region.bytes);
  close(region.fd);
}

// Copies counts and sampled events of an executor to the block, for the trigger's monitor.
class Mirror {
 public:
  explicit Mirror(trigger::Physics& to) : to_(to) {}
  void operator()(const trigger::Executor& executor) {
    const auto all = executor.physics();
    std::size_t at = 0;  // position in before_: counts of earlier recovery processes
    const bool first = before_.empty();
    const auto counter = [&](stats::Counter& to, std::uint64_t counted) {
      if (first) before_.push_back(to);
      to.set(before_[at++] + counted);
    };
    const auto sum = std::make_unique<stats::EventHistograms<std::uint64_t>>();
    for (const trigger::Physics* p : all) stats::add_histograms(*sum, *p);
    stats::for_each_histogram(
        [&](const stats::HistogramDescription&, auto& counters, const auto& counted) {
          for (std::size_t i = 0; i < std::size(counted); ++i) counter(counters[i], counted[i]);
        },
        to_, *sum);
    counter(to_.sampled_events, sum->sampled_events);
    std::vector<stats::EventSample> now;
    for (const trigger::Physics* p : all)
      for (const stats::EventSample& e : p->events()) now.push_back(e);
    for (const stats::EventSample& e : now)
      if (std::none_of(given_.begin(), given_.end(),
                       [&](const auto& old) { return old.n == e.n && old.time == e.time; }))
        to_.keep(e);
    given_ = std::move(now);
  }

 private:
  trigger::Physics& to_;
  std::vector<stats::EventSample> given_;
  std::vector<std::uint64_t> before_;
};

class Service {
 public:
  explicit Service(RecoveryBlock& block) : block_(block), mirror_(block.physics) {
    for (std::uint32_t d = 0; d < block.devices; ++d) {
      map(block.region[d]);
      views_.push_back(contract::lay_out(block.shape, reinterpret_cast<std::byte*>(block.region[d].at)));
    }
    map(block.traces);
    traces_ = std::make_unique<trigger::TraceTable>(reinterpret_cast<trigger::Trace*>(block.traces.at),
                                                    block.trace_slots);
    rich::Parameters parameters;
    for (std::uint32_t i = 0; i < block.parameters; ++i)
      parameters[block.parameter[i].name] = block.parameter[i].value;
    algorithm_ = rich::make_reconstructor(block.algorithm, parameters, rich::Geometry::make());
    trigger::ExecutorOptions execute;
    execute.process.decision = block.decision;
    execute.process.downscale = block.downscale;
    execute.process.window_lsb = block.window_lsb;
    execute.process.source = static_cast<std::uint8_t>(block.source);
    execute.reference = block.reference;
    execute.threads = std::max(2u, block.threads);
    execute.deadline = block.deadline;
    if (block.device < 0) {
      if (block.has_conditions) throw std::invalid_argument("conditions need a GPU");
      executor_ = trigger::make_cpu_executor(execute, views_, *algorithm_, *traces_);
      return;
    }
    PipelineOptions cuda;
    cuda.device = block.device;
    cuda.blocks = block.blocks;
    cuda.merged_buffers = block.merged_buffers != 0;
    cuda.stall = block.stall;
    cuda.silence = block.silence;
    cuda.cpu_fallback = false;  // done by the trigger's CPU
    if (block.has_conditions) cuda.conditions = &block.conditions;
    executor_ = std::make_unique<Pipeline>(cuda, execute, views_, *algorithm_, *traces_);
  }

  // Returns the reason of a failure; empty after the order to leave.
  std::string run() {
    say(RecoveryState::ready);
    bool working = false;
    Nanoseconds mirrored = 0;
    for (;;) {
      release(block_.beat, block_.beat + 1);
      const auto order = static_cast<RecoveryOrder>(acquire(block_.order));
      if (!working && order == RecoveryOrder::work) {
        executor_->start();
        working = true;
        say(RecoveryState::working);
      } else if (working && (order == RecoveryOrder::rest || order == RecoveryOrder::leave)) {
        executor_->stop();
        working = false;
        report();
        if (const std::string why = executor_->trouble(); !why.empty()) return why;
        say(RecoveryState::ready);
      }
      if (order == RecoveryOrder::leave) return {};
      if (getppid() != block_.parent) return "the trigger is gone";
      if (const std::string why = executor_->trouble(); !why.empty()) return why;
      const Nanoseconds now = os::monotonic_now();
      if (working && now - mirrored > 100'000'000) {
        mirrored = now;
        report();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(working ? 500 : 50));
    }
  }

 private:
  void say(RecoveryState state) noexcept { release(block_.state, static_cast<std::uint32_t>(state)); }
  void report() {
    mirror_(*executor_);
    contract::relax(block_.overrun, executor_->event_overrun() ? 1u : 0u);
    std::uint32_t count = 0;
    for (const auto& [name, value] : executor_->figures()) {
      if (count == RecoveryBlock::most_figures || name.size() >= RecoveryBlock::name_bytes) break;
      RecoveryBlock::Number& to = block_.figure[count++];
      if (to.name[0] == 0) std::memcpy(to.name, name.c_str(), name.size() + 1);  // always the same names
      contract::relax(to.value, value);
    }
    release(block_.figures, count);
  }

  RecoveryBlock& block_;
  Mirror mirror_;
  std::vector<contract::View> views_;
  std::unique_ptr<trigger::TraceTable> traces_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  std::unique_ptr<trigger::Executor> executor_;
};

}  // namespace

int serve_recovery(int block_fd) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  RecoveryBlock* const block = map_block(block_fd);
  if (!block || getppid() != block->parent) return 2;
  std::string why;
  try {
    // Never destroyed: resources of a failed device are freed with the process.
    why = (new Service(*block))->run();  // NOLINT(cppcoreguidelines-owning-memory)
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (why.empty()) return 0;
  const std::size_t bytes = std::min(why.size(), RecoveryBlock::trouble_bytes - 1);
  std::memcpy(block->trouble, why.data(), bytes);
  block->trouble[bytes] = 0;
  release(block->state, static_cast<std::uint32_t>(RecoveryState::failed));
  return 1;
}

}  // namespace nanet::gpu
