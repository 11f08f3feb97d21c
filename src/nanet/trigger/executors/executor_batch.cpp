// SPDX-License-Identifier: Apache-2.0
// Batch executor: collects built frames, reconstructs all their events in one call, and answers the frames in
// order.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "nanet/contract/consumer.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::trigger {
namespace {

using contract::Event;
using contract::EventType;
using contract::View;

constexpr std::uint32_t enough_events = 16384;
// Below the card's number of buffers (replay: 4096), so that the card never waits for collected frames.
constexpr std::size_t most_frames = 512;
// Empty polls after which collected frames are answered: traffic has ended, or the card is waiting.
constexpr unsigned patience = 4;

class BatchExecutor final : public Executor {
 public:
  BatchExecutor(const ExecutorOptions& options, const View& view,
                std::unique_ptr<rich::Reconstructor> algorithm, TraceTable& traces)
      : traces_(traces),
        view_(view),
        queue_(view),
        algorithm_(std::move(algorithm)),
        process_(view.shape, nullptr, options.process),
        most_frames_(std::min<std::size_t>(most_frames, std::max<std::size_t>(view.shape.buffers / 8, 1))) {
    process_.sink(options.sink);
    const std::size_t events = enough_events + process_.most_events();
    kept_.reserve(most_frames_);
    first_.resize(events + 1);
    time_.resize(events);
    opened_.resize(events);
    order_.resize(events);
    boards_.resize(events);
    truncated_.resize(events);
    rings_.resize(events);
    pm_.resize(events * 32 + std::size_t{view.shape.segment_bytes} / 2 * view.shape.boards);
  }
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
      if (event.type == static_cast<std::uint8_t>(EventType::receive_done)) keep(event, queue_.n());
      queue_.finish();
      any = true;
    }
    if (any) {
      idle_ = 0;
    } else if (!kept_.empty() && ++idle_ >= patience) {
      answer_all();
      any = true;
    }
    return any;
  }
  void stop() noexcept override {
    poll();
    answer_all();
  }
  std::vector<const Physics*> physics() const override { return {&process_.physics()}; }
  bool event_overrun() const noexcept override { return overrun_; }

 private:
  struct Kept {
    Event event;
    std::uint64_t n;
    BuiltFrame built;  // its pointers refer to the arrays below
    std::uint32_t at;  // index of its first event there
  };

  void keep(const Event& event, std::uint64_t n) noexcept {
    const BuiltFrame& built = process_.build(view_, event, n, traces_[n]);
    const std::uint32_t hits = built.events ? built.first[built.events] - built.first[0] : 0;
    if (hits_ + hits > pm_.size()) answer_all();  // the built frame stays valid
    Kept kept{event, n, built, events_};
    if (built.events) {
      for (std::uint32_t e = 0; e <= built.events; ++e)
        first_[events_ + e] = hits_ + (built.first[e] - built.first[0]);
      std::memcpy(&pm_[hits_], built.pm + built.first[0], hits * sizeof(PmId));
    }
    kept.built.first = &first_[events_];
    kept.built.pm = pm_.data();
    kept.built.time = copy(time_, built.time, built.events);
    kept.built.opened = copy(opened_, built.opened, built.events);
    kept.built.order = copy(order_, built.order, built.events);
    kept.built.boards = copy(boards_, built.boards, built.events);
    kept.built.truncated = copy(truncated_, built.truncated, built.events);
    events_ += built.events;
    hits_ += hits;
    kept_.push_back(kept);
    if (events_ >= enough_events || kept_.size() == most_frames_) answer_all();
  }
  template <class T>
  const T* copy(std::vector<T>& to, const T* from, std::uint32_t events) noexcept {
    if (events) std::memcpy(&to[events_], from, events * sizeof(T));
    return &to[events_];
  }

  void answer_all() noexcept {
    idle_ = 0;
    if (kept_.empty()) return;
    if (events_) (*algorithm_)({events_, first_.data(), pm_.data()}, rings_.data());
    const Nanoseconds reconstructed = os::monotonic_now();
    for (const Kept& kept : kept_) {
      Trace& trace = traces_[kept.n];
      trace.reconstructed = reconstructed;
      const std::uint32_t bytes =
          process_.answer(view_, kept.event, kept.n, kept.built, &rings_[kept.at], trace);
      trace.posted = os::monotonic_now();
      contract::post(view_, kept.n, view_.send_buffer(kept.event.buffer), bytes, 0, kept.event.buffer);
      contract::return_buffer(view_, kept.n);
    }
    kept_.clear();
    events_ = hits_ = 0;
  }

  TraceTable& traces_;
  View view_;
  contract::OrderedReader queue_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  FrameProcessor process_;
  std::size_t most_frames_;
  unsigned idle_ = 0;
  std::atomic<bool> overrun_{false};

  std::vector<Kept> kept_;
  std::uint32_t events_ = 0, hits_ = 0;  // of the collected frames
  std::vector<std::uint32_t> first_;
  std::vector<PmId> pm_;
  std::vector<std::uint16_t> time_, opened_, order_;
  std::vector<std::uint8_t> boards_, truncated_;
  std::vector<rich::Rings> rings_;
};

}  // namespace

std::unique_ptr<Executor> make_batch_executor(const ExecutorOptions& options, View view,
                                              std::unique_ptr<rich::Reconstructor> algorithm,
                                              TraceTable& traces) {
  return std::make_unique<BatchExecutor>(options, view, std::move(algorithm), traces);
}

}  // namespace nanet::trigger
