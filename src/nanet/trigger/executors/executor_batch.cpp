// SPDX-License-Identifier: Apache-2.0
// Batch executor: builds frames in the card's thread and answers them in batches, in order.
#include <atomic>
#include <utility>

#include "nanet/contract/consumer.hpp"
#include "nanet/trigger/executors/executor.hpp"
#include "nanet/trigger/executors/frame_batch.hpp"

namespace nanet::trigger {
namespace {

using contract::Event;
using contract::EventType;
using contract::View;

// Empty polls after which collected frames are answered: traffic has ended, or the card is waiting.
constexpr unsigned patience = 4;

class BatchExecutor final : public Executor {
 public:
  BatchExecutor(const ExecutorOptions& options, const View& view,
                std::unique_ptr<rich::Reconstructor> algorithm, TraceTable& traces)
      : queue_(view), algorithm_(std::move(algorithm)), batch_(options, view, traces) {}
  std::string_view name() const noexcept override { return "batch"; }
  void start() override {}
  bool in_card_thread() const noexcept override { return true; }
  bool poll() noexcept override {
    bool any = false;
    Event event;
    while (!overrun_) {
      const contract::Poll found = queue_.poll(event);
      if (found == contract::Poll::overrun) overrun_ = true;
      if (found != contract::Poll::event) break;
      if (event.type == static_cast<std::uint8_t>(EventType::receive_done)) {
        batch_.add(event, queue_.n());
        if (batch_.full()) answer();
      }
      queue_.finish();
      any = true;
    }
    if (any) {
      idle_ = 0;
    } else if (!batch_.empty() && ++idle_ >= patience) {
      answer();
      any = true;
    }
    return any;
  }
  void stop() noexcept override {
    poll();
    answer();
  }
  std::vector<const Physics*> physics() const override { return {&batch_.physics()}; }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  void answer() noexcept {
    idle_ = 0;
    batch_.answer(*algorithm_);
  }

  contract::OrderedReader queue_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  FrameBatch batch_;
  unsigned idle_ = 0;
  std::atomic<bool> overrun_{false};
};

}  // namespace

std::unique_ptr<Executor> make_batch_executor(const ExecutorOptions& options, View view,
                                              std::unique_ptr<rich::Reconstructor> algorithm,
                                              TraceTable& traces) {
  return std::make_unique<BatchExecutor>(options, view, std::move(algorithm), traces);
}

}  // namespace nanet::trigger
